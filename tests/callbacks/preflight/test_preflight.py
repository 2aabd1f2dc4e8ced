"""The preflight names all parts that fail, before the work."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from lightning import Trainer

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.callbacks.attribution_cache import AttributionCacheWriter
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.callbacks.heatmaps import Heatmaps
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import rows_to_splits
from lightning_xai.data.sources.planted import Planted
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.discrete_rationale import DiscreteRationale, Percentage
from lightning_xai.models.bilstm import BiLSTMAttention
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.facts import RunFacts
from lightning_xai.types import Passes
from tests.callbacks.conftest import Recorder, compute, evaluation, planted_data, trainer
from tests.conftest import tiny_classifier


class Broken(AttributionMethod):
    """Fails where `error` says; counts its calls."""

    def __init__(self, error: Exception | None = None, passes: Any = (1, 0)) -> None:
        self.error = error
        self.calls: list[Any] = []
        self._passes = Passes(*passes) if isinstance(passes, tuple) else passes

    def scores(self, model, inputs, targets):
        self.calls.append(inputs)
        torch.rand(1), np.random.rand(), random.random()
        if self.error is not None:
            raise self.error
        return torch.ones(*targets.shape, inputs.input_ids.shape[1])

    def passes(self, num_tokens, num_targets):
        return self._passes


class BrokenMetric(Entropy):
    def measure(self, attribution, batch, predict):
        raise KeyError("no such column")


class WithoutLoss(Supervised):
    def losses(self, batch):
        return {"classification": super().losses(batch)["loss"]}


class Logits(Supervised):
    def losses(self, batch):
        return super().losses(batch)["loss"]


class Detached(Supervised):
    def losses(self, batch):
        return {"loss": super().losses(batch)["loss"].detach()}


def silent(folder, *callbacks, **arguments) -> Trainer:
    return trainer(folder, *callbacks, enable_checkpointing=False, max_epochs=1, **arguments)


def bare_evidence() -> TextDataModule:
    """Returns data without evidence."""

    class Plain(Planted):
        def load(self):
            splits = {name: rows.remove_columns("rationales") for name, rows in super().load().items()}
            return rows_to_splits({name: list(rows) for name, rows in splits.items()})

    data = planted_data(
        source=Plain(num_classes=3, num_train=8, num_validation=6, num_test=7, words_per_document=(4, 10))
    )
    return data


def fails(folder, objective, *callbacks, stage: str = "fit", data=None, **preflight) -> str:
    run = silent(folder, Preflight(tests_after_fit=True, **preflight), *callbacks)
    with pytest.raises(ValueError) as caught:
        getattr(run, stage)(objective, datamodule=data or planted_data())
    assert run.global_step == 0 and "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("stage", ["fit", "validate", "test", "predict"])
def test_all_failures_are_listed_together_with_network_reason_and_remedy(tmp_path, stage):
    network = BiLSTMAttention(vocab_size=100, num_classes=3, embedding_size=4, hidden_size=4)
    metrics = AttributionEvaluation("mine", [Entropy(), BrokenMetric(name="odd")])
    message = fails(
        tmp_path, Supervised(network), compute(Gradient(), ALTI(), AttentionRollout()), metrics, stage=stage
    )
    assert "work with BiLSTMAttention" in message and "--skip_unfit true" in message
    assert "method ALTI (ALTI): BiLSTMAttention has no layers that can be decomposed: choose another" in message
    assert "method AttentionRollout (AttentionRollout): the network returned no attentions" in message
    assert "Gradient" not in message and "Entropy" not in message
    metric = "metric mine/odd (BrokenMetric): KeyError: 'no such column' (test_preflight.py, line"
    assert (metric in message) == (stage != "predict")


@pytest.mark.parametrize(
    ("method", "named"),
    [
        (
            Broken(passes=3),
            "method Broken (Broken): Broken.passes returned 3: return Passes(forward=..., backward=...)",
        ),
        (Broken(passes=None), "Broken.passes returned None"),
        (
            Broken(RuntimeError("shape [2] of\n[3]")),
            "method Broken (Broken): RuntimeError: shape [2] of [3] (test_preflight",
        ),
        (Broken(torch.OutOfMemoryError("CUDA")), "the device has too little memory: lower chunk_size"),
    ],
    ids=["int", "none", "error", "memory"],
)
def test_error_in_a_method_is_a_line_that_names_its_class(objective, tmp_path, method, named):
    assert named in fails(tmp_path, objective, compute(method, Random()), Recorder())


@pytest.mark.parametrize(
    ("cls", "named"),
    [
        (WithoutLoss, "WithoutLoss.losses returned classification: return a dict with the scalar 'loss'"),
        (Logits, "Logits.losses returned Tensor: return a dict"),
        (Detached, "the 'loss' of Detached.losses is not a scalar with a gradient"),
    ],
)
def test_error_in_an_objective_is_a_line_that_names_its_class(tmp_path, cls, named):
    assert named in fails(tmp_path, cls(tiny_classifier("bert")))


@pytest.mark.parametrize("stage", ["fit", "test"])
def test_network_that_returns_bare_logits_is_named_alone(objective, tmp_path, monkeypatch, stage):
    forward = type(objective.network).forward
    monkeypatch.setattr(type(objective.network), "forward", lambda *a, **k: forward(*a, **k).logits)
    message = fails(tmp_path, objective, compute(Gradient(), Random()), evaluation(), stage=stage)
    assert message == (
        "1 part does not work with HFClassifier: (1) network HFClassifier: HFClassifier.forward returned Tensor: "
        "return a ClassifierOutput with logits and readout"
    )


@pytest.mark.parametrize("stage", ["fit", "test", "validate"])
def test_metric_that_needs_evidence_is_named_before_the_work(objective, tmp_path, stage):
    preset = AttributionEvaluation("own", [Entropy(), DiscreteRationale(name="rationale", size=Percentage())])
    message = fails(tmp_path, objective, compute(Random()), preset, stage=stage, data=bare_evidence())
    assert "1 part" in message
    assert "own/rationale (DiscreteRationale): rationale cannot tune its size: on the validation split, " in message
    assert "no explained class has evidence (evidence that truncation cut off does not count); give" in message


@pytest.mark.parametrize("stage", ["fit", "test"])
def test_texts_are_cut_and_the_network_is_in_eval_mode(objective, tmp_path, stage):
    data = planted_data(
        source=Planted(num_classes=3, num_train=8, num_validation=6, num_test=7, words_per_document=(15, 20))
    )
    watched: list[tuple[int, bool]] = []
    objective.network.register_forward_hook(
        lambda network, arguments, _: watched.append((len(arguments[0].input_ids[0]), network.training))
    )
    method = Broken(ValueError("no"))
    fails(tmp_path, objective, compute(method), Recorder(), stage=stage, data=data)
    (inputs,) = method.calls
    assert inputs.token_mask.sum(dim=1).tolist() == [8, 8]
    assert not any(training for _, training in watched)
    lengths = [length for length, _ in watched]
    assert [length for length in lengths if length > 10] == [max(lengths)]  # the longest text passes once
    assert max(lengths) == max(data.split(split).lengths.max() for split in ["test"])


def test_only_first_examples_are_tried(objective, tmp_path):
    data = planted_data()
    data.setup("test")
    source = compute(method := Broken(), max_examples=1)
    silent(tmp_path, Preflight(), source, Recorder()).test(objective, datamodule=data, verbose=False)
    assert [inputs.index.tolist() for inputs in method.calls[:1]] == [[0]]


def test_methods_that_fail_are_left_out_of_fit_and_test_and_have_a_row(objective, tmp_path):
    preflight, results = Preflight(tests_after_fit=True, skip_unfit=True), ResultsFile(RunFacts("tm", seed=0))
    preset = AttributionEvaluation("own", [BrokenMetric(name="odd"), Entropy()])
    run = silent(tmp_path, results, preflight, compute(Broken(ValueError("no: choose another")), Random()), preset)
    run.fit(objective, datamodule=planted_data())
    run.test(objective, datamodule=planted_data(), verbose=False)
    table = results.table
    assert table is not None
    rows = table[table["left_out"] != ""].set_index(["method", "metric"])
    assert rows["value"].isna().all() and set(rows["split"]) == {"test"}
    assert rows["left_out"]["Broken", "entropy"] == "no: choose another"
    assert rows["left_out"]["Random", "odd"].startswith("KeyError")
    measured = table[(table["preset"] == "own") & (table["left_out"] == "")]
    assert set(measured["method"]) == {"Random"} and set(measured["metric"]) == {"entropy"}


def test_nothing_left_to_explain_is_an_error(objective, tmp_path):
    broken = compute(Broken(ValueError("no")))
    assert "no method of ComputeAttributions works" in fails(tmp_path, objective, broken, Recorder(), skip_unfit=True)


def test_failure_that_cannot_be_left_out_ends_the_run_in_spite_of_skip_unfit(tmp_path):
    message = fails(tmp_path, WithoutLoss(tiny_classifier("bert")), skip_unfit=True)
    assert "objective WithoutLoss" in message and "--skip_unfit" not in message


def test_disabled_preflight_tries_nothing(objective, tmp_path):
    method = Broken(ValueError("called"))
    run = silent(tmp_path, Preflight(tests_after_fit=True, enabled=False), compute(method), Recorder())
    run.fit(objective, datamodule=planted_data())
    assert not method.calls


def test_under_fsdp_nothing_is_tried_and_a_line_says_so(objective, tmp_path, monkeypatch, capsys):
    method, run = (
        Broken(),
        silent(tmp_path, preflight := Preflight(tests_after_fit=True), compute(Random()), Recorder()),
    )
    monkeypatch.setattr(
        "lightning_xai.callbacks.preflight.preflight.FSDPStrategy", type(run.strategy)
    )  # FSDP needs GPUs
    monkeypatch.setattr(preflight, "_try", lambda _: method.calls.append("tried"))
    run.test(objective, datamodule=planted_data(), verbose=False)
    printed = capsys.readouterr().out
    assert not method.calls and "preflight: skipped, " in printed and "FSDP splits the network's weights" in printed


@pytest.mark.parametrize(("method", "has_gradient"), [(Gradient(), True), (Broken(), False)])
def test_longest_text_passes_once_with_a_gradient_if_a_method_needs_one(objective, tmp_path, method, has_gradient):
    source = Planted(num_classes=3, num_train=8, num_validation=6, num_test=7, words_per_document=(15, 20))
    data, passes = planted_data(source=source), []
    objective.network.register_forward_hook(
        lambda _, arguments, output: passes.append((len(arguments[0].input_ids[0]), output.logits.requires_grad))
    )
    fails(
        tmp_path, objective, compute(method), AttributionEvaluation("mine", [BrokenMetric()]), stage="test", data=data
    )
    assert [gradient for length, gradient in passes if length > 10] == [has_gradient]


class Retraining(Broken):
    """Changes one value of one weight."""

    def scores(self, model, inputs, targets):
        next(model.parameters()).data.flatten()[0] += 1e-6
        return super().scores(model, inputs, targets)


@pytest.mark.parametrize("skip_unfit", [False, True])
def test_method_that_changes_a_weight_ends_the_run_even_if_unfit_parts_are_left_out(objective, tmp_path, skip_unfit):
    name = next(name for name, _ in objective.network.named_parameters())
    message = fails(tmp_path, objective, compute(Retraining(), Random()), Recorder(), skip_unfit=skip_unfit)
    assert f"method Retraining (Retraining): the method changed the network's {name}: let it work on a copy" in message
    assert "--skip_unfit" not in message


def test_method_that_changes_a_buffer_is_named(objective, tmp_path):
    class Counting(Broken):
        def scores(self, model, inputs, targets):
            next(model.buffers()).add_(1)
            return super().scores(model, inputs, targets)

    message = fails(tmp_path, objective, compute(Counting(), Random()), Recorder())
    assert "the method changed the network's" in message and "--skip_unfit true leaves them out" in message


def test_heatmaps_are_drawn_before_the_work(objective, tmp_path, monkeypatch):
    drawn = silent(tmp_path, Preflight(tests_after_fit=True), compute(Random()), Heatmaps())
    monkeypatch.setattr(TextDataModule, "example", lambda *_: {"id": "0"})  # rows without a text
    with pytest.raises(ValueError, match="Heatmaps: KeyError: 'text'"):
        drawn.fit(objective, datamodule=planted_data())
    assert not (tmp_path / "heatmaps").exists()


def test_store_of_other_scores_is_refused_before_the_work(objective, tmp_path):
    data, other = planted_data(), Supervised(tiny_classifier("bert"))
    silent(tmp_path, compute(Gradient()), AttributionCacheWriter()).test(objective, datamodule=data, verbose=False)
    other.network.embedding_matrix.data += 1
    parts = Preflight(), compute(Gradient()), AttributionCacheWriter()
    with pytest.raises(
        ValueError, match="AttributionCacheWriter of Gradient on test: .*rows with the metadata {'weights'"
    ):
        silent(tmp_path, *parts).test(other, datamodule=planted_data(), verbose=False)
    broken = compute(Broken()), AttributionCacheWriter(str(tmp_path / "other"))  # a list of tensors is a setting
    with pytest.raises(ValueError, match="AttributionCacheWriter of Broken on test: TypeError: .*JSON"):
        silent(tmp_path, Preflight(), *broken).test(objective, datamodule=planted_data(), verbose=False)
