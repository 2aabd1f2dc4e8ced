import math

import pytest
import torch
from lightning import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.discrete_rationale import DiscreteRationale, Percentage
from lightning_xai.metrics.faithfulness import Comprehensiveness
from lightning_xai.metrics.top_units import Percentages
from tests.callbacks.conftest import compute, evaluation, planted_data, trainer


def rows(folder, objective, *evaluations, data=None, **arguments) -> dict[tuple, dict]:
    run = trainer(folder, compute(Random(), InputXGradient()), *evaluations, **arguments)
    run.test(objective, datamodule=data or planted_data(), verbose=False)
    reported = [row for callback in evaluations for row in callback.result_rows()]
    return {(row["split"], row["preset"], row["method"], row["metric"]): row for row in reported}


@pytest.mark.slow
def test_two_presets_measure_the_same_attributions(objective, tmp_path):
    results = rows(tmp_path, objective, evaluation("first"), evaluation("second"))
    for split, preset, method, metric in results:
        assert results[split, "first", method, metric]["value"] == results[split, "second", method, metric]["value"]
        assert preset in ("first", "second")
    assert len(results) % 2 == 0 and results


@pytest.mark.slow
def test_numbers_are_the_same_for_batches_of_one_and_of_all(objective, tmp_path):
    one = rows(tmp_path, objective, evaluation(), data=planted_data(eval_batch_size=1))
    many = rows(tmp_path, objective, evaluation(), data=planted_data(eval_batch_size=32))
    assert one.keys() == many.keys()
    for key, row in one.items():
        assert row["value"] == pytest.approx(many[key]["value"], rel=1e-4, abs=1e-6), key
        assert row["num_examples"] == many[key]["num_examples"]


def test_numbers_are_logged_under_split_preset_method_and_metric(objective, tmp_path):
    run = trainer(tmp_path, compute(Random()), evaluation("edin"))
    run.test(objective, datamodule=planted_data(), verbose=False)
    assert "test/edin/Random/comprehensiveness" in run.callback_metrics


def test_thresholds_are_tuned_on_validation_which_reports_nothing_in_a_test(objective, tmp_path):
    results = rows(tmp_path, objective, evaluation())
    assert {key[0] for key in results} == {"test"}
    assert any(key[3].startswith("rationale/") for key in results)


@pytest.mark.slow
@pytest.mark.parametrize("tunes", [True, False])
def test_a_test_that_names_the_validation_split_measures_its_explanations(objective, tmp_path, tunes):
    data = planted_data(extra_test_splits=["validation"], tune_on_validation=tunes)
    results = rows(tmp_path / "test", objective, evaluation(), data=data)
    assert {key[0] for key in results} == {"test", "validation"}
    measuring = evaluation()
    validated = trainer(tmp_path / "validate", compute(Random(), InputXGradient()), measuring)
    validated.validate(objective, datamodule=planted_data(), verbose=False)
    for row in measuring.result_rows():
        assert results["validation", "preset", row["method"], row["metric"]]["value"] == pytest.approx(row["value"])


def test_tuning_without_the_validation_split_is_refused(objective, tmp_path):
    with pytest.raises(ValueError, match="tune_on_validation"):
        rows(tmp_path, objective, evaluation(), data=planted_data(tune_on_validation=False))


class WithoutEvidence(Planted):
    """Planted data whose validation texts have no evidence."""

    def load(self):
        splits = super().load()
        return splits | {"validation": splits["validation"].map(lambda row: {"rationales": []})}


@pytest.mark.parametrize("stage", ["test", "validate", "fit"])
def test_a_metric_that_cannot_be_tuned_is_left_out_and_no_other_value_is_lost(objective, tmp_path, stage):
    tuned = DiscreteRationale(name="rationale", size=Percentage(), explained="gold")
    measuring = AttributionEvaluation("preset", [tuned, Entropy()], during_fit=True)
    data = planted_data(source=WithoutEvidence(num_classes=3, num_train=8, num_validation=6, num_test=7))
    epochs = {"max_epochs": 1} if stage == "fit" else {}
    run = trainer(tmp_path, compute(Random(), during_fit=True), measuring, **epochs)
    getattr(run, stage)(objective, datamodule=data)
    left_out, entropy = measuring.result_rows()
    split = "test" if stage == "test" else "validation"
    assert left_out["left_out"].startswith("rationale cannot tune its size: on the validation split, no gold class has")
    assert (left_out["split"], left_out["metric"], entropy["metric"]) == (split, "rationale", "entropy")
    assert 0 < entropy["value"] <= 1 and entropy["num_examples"] >= 6
    assert not any("rationale" in tag for tag in run.callback_metrics)


class Unlucky(DiscreteRationale):
    """Cannot be tuned from the second validation on."""

    validations = 0

    def tune(self):
        type(self).validations += 1
        if self.validations > 1:
            raise ValueError("no class counts")
        return super().tune()


@pytest.mark.parametrize("monitored", [False, True])
def test_a_fit_does_not_keep_the_value_of_an_earlier_epoch_for_a_metric_that_is_left_out(
    objective, tmp_path, monkeypatch, monitored
):
    monkeypatch.setattr(Unlucky, "validations", 0)
    measuring = AttributionEvaluation("own", [Unlucky(name="rationale", size=Percentage())], during_fit=True)
    tag, seen = "val/own/Random/rationale/token_f1", []

    class Seen(Callback):
        def on_validation_end(self, trainer, pl_module):
            seen.append(float(trainer.callback_metrics.get(tag, -1.0)))

    best = ModelCheckpoint(tmp_path, monitor=tag if monitored else "val/accuracy", mode="max")
    callbacks = [compute(Random(), during_fit=True), measuring, Seen(), best]
    run = trainer(tmp_path, *callbacks, max_epochs=2, num_sanity_val_steps=0)
    if monitored:
        with pytest.raises(ValueError, match="no class counts"):
            run.fit(objective, datamodule=planted_data())
    else:
        run.fit(objective, datamodule=planted_data())
        assert 0 <= seen[0] <= 1 and math.isnan(seen[1]) and len(seen) == 2


def test_unerased_inputs_pass_once_for_all_methods_metrics_and_presets(objective, tmp_path):
    network, unerased = objective.network, []
    predict = network.predict

    def counting(inputs, embed_mask=None, **options):
        if not (inputs.input_ids == 3).any() and embed_mask is None:  # the mask token
            unerased.append(inputs)
        return predict(inputs, embed_mask, **options)

    network.predict = counting
    metrics: list[AttributionMetric] = [
        Comprehensiveness(Percentages([k]), name=f"at_{k}", erasure="mask") for k in (20, 50)
    ]
    evaluations = [AttributionEvaluation(preset, metrics) for preset in ("first", "second")]
    rows(tmp_path, objective, *evaluations, data=planted_data(tune_on_validation=False))
    assert len(unerased) == 1  # one batch


def test_fewer_examples_can_be_measured_than_explained(objective, tmp_path):
    results = rows(tmp_path, objective, AttributionEvaluation("few", [Entropy()], max_examples=2))
    assert {row["num_examples"] + row["num_skipped"] for row in results.values()} <= {2, 3, 4}
    everything = rows(tmp_path, objective, AttributionEvaluation("all", [Entropy()]))
    assert {row["num_examples"] + row["num_skipped"] for row in everything.values()}.isdisjoint({2, 3, 4})


def test_numbers_under_mixed_precision_are_finite(objective, tmp_path):
    results = rows(tmp_path, objective, evaluation(), precision="bf16-mixed")
    assert all(torch.isfinite(torch.tensor(row["value"])) for row in results.values())


@pytest.mark.parametrize("targets", ["predicted", "gold_or_predicted", "topk"])
def test_no_uncertain_text_vanishes_under_mixed_precision(objective, tmp_path, capsys, targets):
    head = objective.network.transformer.classifier
    with torch.no_grad():  # logits of the three classes are equal in bfloat16, but not in float32
        head.weight.copy_(head.weight[:1] * (1 + 1e-4 * torch.randn_like(head.weight)))
        head.bias.zero_()
    measured = AttributionEvaluation("p", [Comprehensiveness(Percentages([20]))])
    run = trainer(tmp_path, compute(Random(), targets=targets), measured, precision="bf16-mixed")
    run.test(objective, datamodule=planted_data(), verbose=False)
    (row,) = measured.result_rows()
    assert row["num_examples"] == 7
    # the classification table is of the run's precision, in which the first of the equal classes is predicted
    labels = planted_data().split("test").labels(range(7))
    assert float(run.callback_metrics["test/accuracy"]) == pytest.approx(sum(label == 0 for label in labels) / 7)
    assert " of 7 explained texts, " in (printed := capsys.readouterr().out)
    assert "the predicted classes differ between float32 (for explanations) and bf16-mixed (for the" in printed


@pytest.mark.parametrize(
    ("metrics", "splits"),
    [
        ([Entropy()], {"test"}),
        ([Entropy(), DiscreteRationale(size=1)], {"test"}),
        ([Entropy(), DiscreteRationale()], {"test", "validation"}),
    ],
    ids=["none", "fixed size", "tuned size"],
)
def test_a_test_explains_the_validation_split_only_if_a_metric_tunes_on_it(objective, tmp_path, metrics, splits):
    source = compute(Random())
    run = trainer(tmp_path, source, AttributionEvaluation("p", metrics))
    run.test(objective, datamodule=planted_data(), verbose=False)
    explained = {split for split in ("test", "validation") if source.costs["Random"].num_examples(split)}
    assert explained == splits


def test_rows_whose_evidence_was_cut_are_counted_in_the_table(objective, tmp_path):
    data = TextDataModule(planted_data().source, VocabularyEncoder(words=95, max_length=5))  # 3 of 4 to 10 words left
    data.setup("test")
    cut = sum(len(encoded.evidence_cut) for encoded in data.split("test").encoded)
    rationale = DiscreteRationale(size=1, match="class")
    measured = AttributionEvaluation("p", [rationale, Entropy()])
    run = trainer(tmp_path, compute(Random(), targets="gold"), measured)
    run.test(objective, datamodule=data, verbose=False)
    counts = {row["metric"].split("/")[0]: row["num_evidence_cut"] for row in measured.result_rows()}
    assert counts == {"discrete_rationale": cut, "entropy": 0} and cut > 0
    assert all(row["num_skipped"] >= row["num_evidence_cut"] for row in measured.result_rows())


def test_numbers_of_a_test_do_not_change_if_another_preset_tunes(objective, tmp_path):
    alone = rows(tmp_path, objective, AttributionEvaluation("p", [Entropy()]))
    tuned = rows(tmp_path, objective, AttributionEvaluation("p", [Entropy()]), evaluation())
    passes = [row["forward_passes"] for row in tuned.values() if row["method"] == "InputXGradient"]
    for key, row in alone.items():
        kept = {name: value for name, value in row.items() if name not in ("seconds", "peak_memory_mb")}
        assert kept == {name: tuned[key][name] for name in kept}
    assert set(passes) == {alone["test", "p", "InputXGradient", "entropy"]["forward_passes"]}


def test_monitored_number_is_there_during_a_fit(objective, tmp_path):
    callbacks = [compute(Random(), during_fit=True), AttributionEvaluation("p", [Entropy()], during_fit=True)]
    run = trainer(tmp_path, *callbacks, max_epochs=1, enable_checkpointing=False)
    run.fit(objective, datamodule=planted_data())
    assert "val/p/Random/entropy" in run.callback_metrics


def test_evaluation_during_a_fit_without_attributions_during_it_is_refused(objective, tmp_path):
    callbacks = [compute(Random()), AttributionEvaluation("p", [Entropy()], during_fit=True)]
    with pytest.raises(ValueError, match="sets during_fit, but the ComputeAttributions before it does not"):
        trainer(tmp_path, *callbacks, max_epochs=1).fit(objective, datamodule=planted_data())


def test_evaluation_can_leave_out_a_fit_that_is_explained(objective, tmp_path):
    callbacks = [compute(Random(), during_fit=True), AttributionEvaluation("p", [Entropy()])]
    run = trainer(tmp_path, *callbacks, max_epochs=1, enable_checkpointing=False)
    run.fit(objective, datamodule=planted_data())
    assert not any("entropy" in tag for tag in run.callback_metrics)


@pytest.mark.parametrize("stage", ["fit", "validate", "test"])
def test_tags_of_the_validation_split_start_with_val(objective, tmp_path, stage):
    callbacks = [compute(Random(), during_fit=True), AttributionEvaluation("p", [Entropy()], during_fit=True)]
    run = trainer(tmp_path, *callbacks, max_epochs=1, enable_checkpointing=False)
    getattr(run, stage)(objective, datamodule=planted_data())
    tags = {tag.split("/")[0] for tag in run.callback_metrics if "/" in tag}
    assert tags == {"fit": {"train", "val"}, "validate": {"val"}, "test": {"val", "test"}}[stage]


def test_split_of_a_result_keeps_its_full_name(objective, tmp_path):
    measured = evaluation()
    trainer(tmp_path, compute(Random()), measured).validate(objective, datamodule=planted_data(), verbose=False)
    assert {row["split"] for row in measured.result_rows()} == {"validation"}


def test_evaluation_before_the_attributions_is_refused(objective, tmp_path):
    run = trainer(tmp_path, evaluation(), compute(Random()))
    with pytest.raises(ValueError, match="before it"):
        run.test(objective, datamodule=planted_data(), verbose=False)


def test_an_evaluation_measures_the_attributions_computed_last_before_it(objective, tmp_path):
    evaluations = [AttributionEvaluation(preset, [Entropy()]) for preset in ("first", "second")]
    run = trainer(tmp_path, compute(Random()), evaluations[0], compute(InputXGradient()), evaluations[1])
    run.test(objective, datamodule=planted_data(), verbose=False)
    results = [{row["method"] for row in evaluation.result_rows()} for evaluation in evaluations]
    assert results == [{"Random"}, {"InputXGradient"}]


def test_two_evaluations_of_the_same_numbers_are_refused_before_they_are_computed(objective, tmp_path):
    run = trainer(tmp_path, compute(Random()), *(AttributionEvaluation("p", [Entropy()]) for _ in range(2)))
    with pytest.raises(ValueError, match="two evaluations measure entropy of Random under the preset name 'p'"):
        run.test(objective, datamodule=planted_data(), verbose=False)


def test_metrics_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"several metrics named \['entropy'\]"):
        AttributionEvaluation("p", [Entropy(), Entropy()])
