import pytest
import torch

from lightning_xai.callbacks.preflight.short_texts import (
    confident_probs,
    cut_batch,
    evidence_tokens,
    short_columns,
    text_forms,
)
from lightning_xai.types import Attribution, Batch, TextInputs
from tests.conftest import PAD, text_inputs


def with_evidence(inputs: TextInputs, label: int, position: int, classes: int = 3) -> Batch:
    scores = torch.zeros(len(inputs), classes, inputs.input_ids.shape[1])
    scores[:, label, position] = 1.0
    targets = torch.arange(classes).expand(len(inputs), -1)
    rationale = Attribution(scores, targets, torch.ones_like(targets, dtype=torch.bool), inputs.token_mask)
    return Batch(inputs, torch.zeros(len(inputs), dtype=torch.long), rationale)


@pytest.mark.parametrize("position", [1, 5, 12, 18])
def test_cut_text_has_the_first_evidence_and_its_neighbors(position):
    batch = with_evidence(text_inputs([20]), 0, position)
    keep = short_columns(batch.inputs, evidence_tokens(batch), 8)
    short = cut_batch(batch, keep, PAD)
    assert short.inputs.token_mask.sum() == 8 and keep[0, position]
    kept = keep[0].nonzero().flatten()[1:-1]  # without [CLS] and [SEP]
    assert kept.diff().eq(1).all()
    assert short.rationale is not None and short.rationale.scores[0, 0].sum() == 1


def test_cutting_leaves_short_texts_as_they_are():
    batch = with_evidence(text_inputs([6, 10]), 1, 2)
    short = cut_batch(batch, short_columns(batch.inputs, evidence_tokens(batch), 8), PAD)
    for name, value in vars(batch.inputs).items():
        cut = getattr(short.inputs, name)
        assert cut is value is None or torch.equal(cut, value), name


def test_padding_of_cut_texts_is_like_other_padding():
    batch = with_evidence(text_inputs([20, 5]), 0, 2)
    inputs = cut_batch(batch, short_columns(batch.inputs, evidence_tokens(batch), 8), PAD).inputs
    padding = ~inputs.attention_mask
    assert padding[1].sum() == 5
    assert (inputs.input_ids[padding] == PAD).all() and inputs.special_tokens_mask[padding].all()
    assert not inputs.token_mask[padding].any()
    assert inputs.word_ids is not None and (inputs.word_ids[padding] == -1).all()


@pytest.mark.parametrize(("label", "predicted"), [(0, 0), (2, 2)])
def test_confident_network_predicts_the_class_with_evidence(label, predicted):
    assert confident_probs(with_evidence(text_inputs([6]), label, 2), 3).argmax(dim=1).tolist() == [predicted]


def test_confident_network_of_many_labels_predicts_all_of_them():
    labels = torch.tensor([[1.0, 0.0, 1.0]])
    assert (confident_probs(Batch(text_inputs([6]), labels), 3) > 0.5).tolist() == [[True, False, True]]


def test_pairs_and_empty_texts_have_forms_of_their_own():
    plain, empty = text_inputs([9]), text_inputs([2])
    pair = text_inputs([9])
    assert pair.token_type_ids is not None
    pair.token_type_ids[:, 5:] = 1
    forms = [text_forms(inputs) for inputs in (plain, empty, pair, text_inputs([15]))]
    assert forms[0] == forms[3]
    assert len({frozenset(form) for form in forms}) == 3


def test_separators_mark_a_pair_if_the_encoder_has_no_token_types():
    one = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
    pair = TextInputs.of_ids([[1, 5, 2, 2, 6, 2]], special_ids=[1, 2])
    assert one.token_type_ids is None and pair.token_type_ids is None
    assert text_forms(one) == {(2, False, False)} and text_forms(pair) == {(2, False, True)}
