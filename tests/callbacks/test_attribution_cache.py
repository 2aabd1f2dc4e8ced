from typing import Any

import pytest
import torch

from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.cached import Cached
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.callbacks.attribution_cache import AttributionCacheWriter
from lightning_xai.callbacks.attributions import ComputeAttributions
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.stores.store import RaggedStore
from lightning_xai.runs.stores.stored_scores import NO_CLASS, TOKEN_MASKS, open_scores
from tests.callbacks.conftest import Recorder, compute, evaluation, planted_data, trainer
from tests.conftest import tiny_classifier


@pytest.fixture
def write(tmp_path, objective):
    """Returns a function that tests the network and stores the scores."""

    def write(method=None, **arguments):
        run = trainer(tmp_path, compute(method or AttInGrad()), AttributionCacheWriter(), **arguments)
        run.test(objective, datamodule=planted_data(eval_batch_size=3), verbose=False)

    return write


def sizes(folder) -> dict[str, int]:
    return {str(f.relative_to(folder)): f.stat().st_size for f in sorted(folder.rglob("*")) if f.is_file()}


def test_every_explained_row_is_stored_by_split_and_method(write, tmp_path):
    write()
    assert {len({index for index, _ in RaggedStore(tmp_path / "attributions" / split / "AttInGrad").keys()})
            for split in ("test", "validation")} == {6, 7}  # fmt: skip


def test_mask_of_the_tokens_to_explain_is_stored_beside_the_scores(write, tmp_path):
    write()
    masks, data = open_scores(tmp_path, "test", "AttInGrad").token_masks(), planted_data()
    assert masks.keys() == [(index, NO_CLASS) for index in range(7)]
    for index, _ in masks.keys():
        assert masks.get(index, NO_CLASS).astype(bool).tolist() == data.encoded("test", index).token_mask.tolist()


@pytest.mark.slow
def test_cached_scores_and_metrics_are_those_computed(write, tmp_path, objective):
    write()
    results = {}
    for name, method in [
        ("computed", AttInGrad()), ("cached", Cached(str(tmp_path / "attributions" / "{split}" / "AttInGrad"))),
    ]:  # fmt: skip
        recorder, measured = Recorder(), evaluation()
        run = trainer(tmp_path, ComputeAttributions({"method": method}), recorder, measured)
        run.test(objective, datamodule=planted_data(eval_batch_size=3), verbose=False)
        results[name] = recorder.scores, measured.result_rows()
    computed, cached = results["computed"], results["cached"]
    assert computed[0].keys() == cached[0].keys()
    assert all(torch.equal(scores, cached[0][key]) for key, scores in computed[0].items())
    # predictions differ in the last digits, as attention runs eagerly only where a method needs it
    assert [row["value"] for row in computed[1]] == pytest.approx([row["value"] for row in cached[1]], rel=1e-3)
    assert {row["forward_passes"] + row["backward_passes"] for row in cached[1]} == {0}


class OtherWords(Planted):
    """Texts with as many words as those of the planted source, some of which are others."""

    def load(self):
        return super().load().map(lambda row: {"text": row["text"].replace("w1", "w2")})


@pytest.mark.slow
def test_cached_scores_of_other_texts_with_as_many_tokens_are_refused(write, tmp_path, objective):
    write()
    method = Cached(str(tmp_path / "attributions" / "{split}" / "AttInGrad"))
    data = planted_data(eval_batch_size=3)
    data.source.__class__ = OtherWords
    with pytest.raises(ValueError, match="has the scores of another text for the example"):
        trainer(tmp_path, compute(method), Recorder()).test(objective, datamodule=data, verbose=False)


SOME = [({"limit_test_batches": 1}, {}), ({"limit_test_batches": 0.5}, {}), ({}, {"max_examples": 3})]


@pytest.mark.slow
@pytest.mark.parametrize(("limits", "source"), SOME, ids=["batches", "share of batches", "examples"])
def test_scores_of_too_few_texts_are_refused_before_the_work(tmp_path, objective, limits, source):
    def run(method, *callbacks, limits, source):
        tested = trainer(tmp_path, Preflight(), ComputeAttributions({"m": method}, **source), *callbacks, **limits)
        tested.test(objective, datamodule=planted_data(eval_batch_size=3), verbose=False)

    run(AttInGrad(), AttributionCacheWriter(), limits=limits, source=source)
    cached = Cached(str(tmp_path / "attributions" / "{split}" / "m"))
    run(cached, Recorder(), limits=limits, source=source)
    for method in (cached, Transformed(cached, ["absolute"])):
        recorder = Recorder()
        with pytest.raises(ValueError, match="method m .*has scores of 3 of [67] examples, but not of .*: write"):
            run(method, recorder, limits={}, source={})
        assert not recorder.scores


@pytest.mark.slow
@pytest.mark.parametrize("targets", ["gold", "predicted", "gold_or_predicted"])
def test_texts_without_an_explained_class_need_no_stored_scores(tmp_path, targets):
    network = tiny_classifier("bert", multilabel=True)
    network.transformer.classifier.bias.data -= 10  # nothing is predicted
    source = Planted(num_classes=3, num_validation=6, num_test=7, multilabel=True, words_per_document=(6, 10))
    has_class = [bool(labels) for labels in planted_data(source=source).split("test").labels(range(7))]
    assert any(has_class) and not all(has_class)
    for method, callback in (
        (AttInGrad(), AttributionCacheWriter()),
        (Cached(str(tmp_path / "attributions" / "{split}" / "m")), Recorder()),
    ):
        run = trainer(tmp_path, Preflight(), ComputeAttributions({"m": method}, targets), callback)
        run.test(Supervised(network), datamodule=planted_data(source=source), verbose=False)


def test_store_of_another_split_is_refused(write, tmp_path, objective):
    write()
    method = Cached(str(tmp_path / "attributions" / "test" / "AttInGrad"))
    with pytest.raises(ValueError, match="'test', not of 'validation'"):
        trainer(tmp_path, compute(method), Recorder()).test(objective, datamodule=planted_data(), verbose=False)


@pytest.mark.slow
def test_second_test_stores_nothing_again(write, tmp_path):
    write()
    before = sizes(tmp_path / "attributions")
    write()
    assert sizes(tmp_path / "attributions") == before


def test_interrupted_cache_is_completed(write, tmp_path):
    write(limit_test_batches=1)
    store = tmp_path / "attributions" / "test" / "AttInGrad"
    assert len({index for index, _ in RaggedStore(store).keys()}) == len(RaggedStore(store / TOKEN_MASKS)) == 3
    write()
    assert len({index for index, _ in RaggedStore(store).keys()}) == len(RaggedStore(store / TOKEN_MASKS)) == 7


@pytest.mark.slow
def test_cut_off_store_is_mended(write, tmp_path):
    write()
    file = tmp_path / "attributions" / "test" / "AttInGrad" / "0.values"
    before = sizes(tmp_path / "attributions")
    file.write_bytes(file.read_bytes()[:-6])
    write()
    assert sizes(tmp_path / "attributions") == before


def test_scores_of_other_weights_are_not_mixed_in(write, objective):
    write()
    with torch.no_grad():
        objective.network.embedding_matrix.add_(0.01)
    with pytest.raises(ValueError, match="choose another folder"):
        write()


def test_scores_of_other_examples_are_not_mixed_in(write, tmp_path, objective):
    write()
    other = trainer(tmp_path, compute(AttInGrad()), AttributionCacheWriter())
    with pytest.raises(ValueError, match="choose another folder"):
        other.test(objective, datamodule=planted_data(max_examples={"test": 5}), verbose=False)


def test_scores_of_a_method_with_other_settings_are_not_mixed_in(write):
    write(IntegratedGradients(num_steps=2, delta_tolerance=None))
    with pytest.raises(ValueError, match="choose another folder"):
        write(IntegratedGradients(num_steps=3, delta_tolerance=None))


def test_settings_stored_are_those_of_the_method_that_scored(tmp_path, objective):
    computed = [ComputeAttributions({"method": IntegratedGradients(num_steps=n, delta_tolerance=None)}) for n in (2, 3)]
    run = trainer(tmp_path, *computed, AttributionCacheWriter())
    run.test(objective, datamodule=planted_data(), verbose=False)
    assert RaggedStore(tmp_path / "attributions" / "test" / "method").metadata["method"]["num_steps"] == 3


@pytest.mark.parametrize("after", [[], [compute(AttInGrad())]])
def test_writer_without_attributions_before_it_is_refused(objective, tmp_path, after):
    with pytest.raises(ValueError, match="needs a ComputeAttributions before it"):
        trainer(tmp_path, AttributionCacheWriter(), *after).test(objective, datamodule=planted_data(), verbose=False)


OTHER_ENCODERS = {
    "tokenizer": (VocabularyEncoder(words=94, max_length=32), "ids, fingerprint"),
    "max_length": (VocabularyEncoder(words=95, max_length=30), "max_length was 32, now 30"),
    "fill": (VocabularyEncoder(words=95, max_length=32, fill="unk"), "fill was mask, now unk"),
}


@pytest.mark.parametrize("other", OTHER_ENCODERS)
def test_stored_scores_of_another_encoder_are_refused_with_both(write, tmp_path, objective, other):
    write(limit_test_batches=1)
    encoder, message = OTHER_ENCODERS[other]
    data = planted_data(eval_batch_size=3, encoder=encoder)
    cached = Cached(str(tmp_path / "attributions" / "{split}" / "AttInGrad"))
    readers = {"tokenizer": cached, "max_length": Transformed(cached, ["absolute"])}
    callbacks: list = [compute(AttInGrad()), AttributionCacheWriter()]  # writes more rows
    if other in readers:
        callbacks = [ComputeAttributions({"cached": readers[other]})]
    with pytest.raises(ValueError, match=f"has token positions of another encoder: .*{message}"):
        trainer(tmp_path, *callbacks, limit_test_batches=1).test(objective, datamodule=data, verbose=False)


class OtherOrder(Planted):
    """The classes of the planted source under exchanged numbers."""

    def __init__(self, num_classes: int = 3, num_train: int = 8, num_validation: int = 6, num_test: int = 7) -> None:
        sizes: dict[str, Any] = {"num_train": num_train, "num_validation": num_validation, "num_test": num_test}
        super().__init__(num_classes=num_classes, words_per_document=(4, 10), **sizes)
        self.class_names = self.class_names[::-1]

    def load(self):
        last = len(self.class_names) - 1
        return (
            super()
            .load()
            .map(
                lambda row: {
                    "labels": last - row["labels"],
                    "rationales": [{**part, "label": last - part["label"]} for part in row["rationales"]],
                }
            )
        )


@pytest.mark.parametrize("is_written", [False, True])
def test_stored_scores_of_classes_in_another_order_are_refused(write, tmp_path, objective, is_written):
    write(limit_test_batches=1)
    data = planted_data(eval_batch_size=3, source=OtherOrder())
    cached = Cached(str(tmp_path / "attributions" / "{split}" / "AttInGrad"))
    callbacks: list = [compute(AttInGrad()), AttributionCacheWriter()] if is_written else [compute(cached), Recorder()]
    message = "holds rows with the metadata" if is_written else r"has scores of the classes \['.*the data has \['"
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, *callbacks, limit_test_batches=1).test(objective, datamodule=data, verbose=False)
