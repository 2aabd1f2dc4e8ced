from dataclasses import replace

import numpy as np
import pytest
import torch

from lightning_xai.attributions.cached import Cached
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.runs.stores.store import RaggedWriter
from lightning_xai.runs.stores.stored_scores import NO_CLASS, TEXT_HASHES, text_hash
from tests.conftest import text_inputs

TARGETS = torch.tensor([[0, 2], [1, 0]])


@pytest.fixture
def inputs():
    return text_inputs([6, 9])


@pytest.fixture
def cached(tmp_path, tiny_hf, inputs):
    scores = Gradient().attribute(tiny_hf, inputs, TARGETS).scores.numpy()
    with RaggedWriter(tmp_path) as writer, RaggedWriter(tmp_path / TEXT_HASHES) as hashes:
        for row, length in enumerate([6, 9]):
            hashes.add(row, NO_CLASS, text_hash(inputs.input_ids[row, :length].numpy()))
            for column in range(2):
                writer.add(row, int(TARGETS[row, column]), scores[row, column, :length])
    return Cached(str(tmp_path))


def test_stored_scores_are_returned(cached, tiny_hf, inputs):
    actual, expected = (method.attribute(tiny_hf, inputs, TARGETS).scores for method in (cached, Gradient()))
    assert torch.equal(actual, expected)


def test_scores_do_not_depend_on_padding_or_order(cached, tiny_hf):
    inputs = text_inputs([6, 9], pad_to=14)[[1, 0]]
    actual = cached.attribute(tiny_hf, inputs, TARGETS[[1, 0]]).scores
    expected = Gradient().attribute(tiny_hf, text_inputs([6, 9]), TARGETS).scores
    assert torch.equal(actual[..., :9], expected[[1, 0]]) and not actual[..., 9:].any()


def test_no_pass_is_made(cached, inputs):
    assert torch.equal(cached.scores(None, inputs, TARGETS), cached.scores(None, inputs, TARGETS))
    assert cached.passes(9, 2) == (0, 0)


def test_rows_outside_the_target_mask_need_no_entry(cached, tiny_hf, inputs):
    mask = torch.tensor([[True, False], [True, True]])
    targets = torch.tensor([[2, 1], [0, 1]])  # example 0 has no scores for class 1
    assert not cached.attribute(tiny_hf, inputs, targets, mask).scores[0, 1].any()


def test_a_missing_entry_names_example_and_class(cached, tiny_hf, inputs):
    with pytest.raises(ValueError, match="class 2 of the example with index 1"):
        cached.attribute(tiny_hf, inputs, torch.tensor([[0], [2]]))


def test_scores_of_another_length_are_refused(cached, tiny_hf):
    with pytest.raises(ValueError, match="index 0 has 7 tokens, but the store has 6 scores for class 0"):
        cached.attribute(tiny_hf, text_inputs([7]), torch.tensor([[0]]))


def test_examples_without_an_index_are_refused(cached, tiny_hf, inputs):
    with pytest.raises(ValueError, match="inputs.index is None"):
        cached.attribute(tiny_hf, replace(inputs, index=None), TARGETS)


def test_a_folder_without_a_store_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a store"):
        Cached(str(tmp_path / "nothing"))


def test_each_split_has_the_scores_of_its_own_store(tmp_path, inputs):
    for split, score in (("test", 1.0), ("validation", 2.0)):
        with RaggedWriter(tmp_path / split, metadata={"split": split}) as writer:
            writer.add(0, 0, torch.full((6,), score).numpy())
    method = Cached(str(tmp_path / "{split}"))
    scores = [method.for_split(split).scores(None, inputs[:1], TARGETS[:1, :1]) for split in ("test", "validation")]
    assert [values[0, 0, :6].unique().tolist() for values in scores] == [[1.0], [2.0]]
    assert method.for_split("test") is method.for_split("test")  # a store is opened once


def test_a_store_of_another_split_is_refused(tmp_path):
    RaggedWriter(tmp_path, metadata={"split": "test"}).close()
    with pytest.raises(ValueError, match="has scores of split 'test', not of 'validation'"):
        Cached(str(tmp_path)).for_split("validation")


def test_a_path_with_a_split_to_fill_in_needs_for_split(inputs):
    with pytest.raises(ValueError, match="call for_split"):
        Cached("stores/{split}").scores(None, inputs, TARGETS)


def changed_token(inputs, position):
    ids = inputs.input_ids.clone()
    ids[1, position] += 1
    return replace(inputs, input_ids=ids)


OTHER_TEXTS = {
    "other seed": lambda inputs: replace(text_inputs([6, 9], seed=1), index=inputs.index),
    "one word": lambda inputs: changed_token(inputs, 3),
    "last token": lambda inputs: changed_token(inputs, 8),
    "order": lambda inputs: replace(
        inputs, input_ids=inputs.input_ids.flip(1), attention_mask=inputs.attention_mask.flip(1)
    ),
}


@pytest.mark.parametrize("other", OTHER_TEXTS.values(), ids=OTHER_TEXTS)
def test_scores_of_other_texts_with_as_many_tokens_are_refused(cached, inputs, other):
    with pytest.raises(
        ValueError, match="has the scores of another text for the example with index [01]: use the same data, tokenizer"
    ):
        cached.scores(None, other(inputs), TARGETS)


def test_scores_without_hashes_are_used_and_said_once_not_to_be_compared(tmp_path, inputs, capsys):
    with RaggedWriter(tmp_path) as writer:
        writer.add(0, 0, torch.ones(6).numpy())
    method = Cached(str(tmp_path))
    for _ in range(2):
        assert method.scores(None, inputs[:1], TARGETS[:1, :1]).sum() == 6
    assert capsys.readouterr().out.count("without hashes of their texts, so changed texts are not noticed") == 1


@pytest.mark.parametrize(
    "settings", [{"selected_on": "comp"}, {"class": "Transformed", "method": {"selected_on": "comp"}}]
)
def test_what_chose_the_stored_scores_is_known(settings, tmp_path):
    with RaggedWriter(tmp_path / "test", metadata={"split": "test", "method": settings}) as writer:
        writer.add(0, 1, np.array([0.5]))
    method = Cached(str(tmp_path / "{split}"))
    assert method.selected_on == ""
    assert method.for_split("test").selected_on == "comp" == method.selected_on
