from dataclasses import replace

import pytest
import torch

from lightning_xai.functional.erasure.erase import erase
from lightning_xai.functional.erasure.perturbation import (
    Versions,
    logits_of,
    outputs_of,
    perturbed_outputs,
    predict_erased,
    predict_zero_embeddings,
    target_outputs,
)
from lightning_xai.functional.erasure.units import kept_tokens
from tests.conftest import text_inputs, tiny_classifier
from tests.metrics.conftest import bag_of_words


def random_versions(inputs, count=9):
    generator = torch.Generator().manual_seed(0)
    example = torch.arange(len(inputs)).repeat(count)
    return Versions(example, torch.rand(len(example), inputs.input_ids.shape[1], generator=generator) < 0.5)


def one_by_one(evaluate, inputs, versions, erasure):
    outputs = []
    for row, keep in zip(versions.example.tolist(), versions.keep, strict=True):
        text = inputs[row : row + 1].trim()
        erased, embed_mask = erase(text, keep[None, : text.input_ids.shape[1]], erasure)
        outputs.append(evaluate(erased.trim(), embed_mask))
    return torch.cat(outputs)


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
@pytest.mark.parametrize("erasure", ["delete", "mask", "pad", "embed_zero"])
def test_versions_together_have_the_outputs_of_each_alone(erasure, kind):
    evaluate = logits_of(tiny_classifier(kind).double())
    inputs = text_inputs([6, 13, 9])
    versions = random_versions(inputs)
    outputs = perturbed_outputs(evaluate, inputs, versions, erasure=erasure, chunk_size=5)
    with torch.no_grad():
        torch.testing.assert_close(outputs, one_by_one(evaluate, inputs, versions, erasure), rtol=0, atol=1e-10)


def test_no_output_depends_on_the_chunk_size():
    evaluate = logits_of(tiny_classifier("bert").double())
    inputs = text_inputs([6, 13, 9])
    versions = random_versions(inputs)
    one, many = (perturbed_outputs(evaluate, inputs, versions, erasure="delete", chunk_size=n) for n in (1, 64))
    torch.testing.assert_close(one, many, rtol=0, atol=1e-10)


class Recorder:
    """Returns the number of tokens that are left, and keeps the shapes of its inputs."""

    def __init__(self):
        self.shapes = []

    def __call__(self, inputs, embed_mask=None):
        assert not torch.is_grad_enabled()
        self.shapes.append(tuple(inputs.input_ids.shape))
        assert embed_mask is None or embed_mask.shape == inputs.input_ids.shape
        return inputs.attention_mask.sum(dim=1, keepdim=True).double()


def test_equal_versions_are_evaluated_once_and_those_of_other_examples_apart():
    inputs = text_inputs([6, 6])
    keep = torch.ones(5, 6, dtype=torch.bool)
    keep[[1, 2, 4], 2] = False
    keep[[0, 2], 0] = False  # special tokens stay in any case, so these two are no new versions
    recorder = Recorder()
    versions = Versions(torch.tensor([0, 0, 0, 1, 1]), keep)
    outputs = perturbed_outputs(recorder, inputs, versions, erasure="delete")
    assert sum(rows for rows, _ in recorder.shapes) == 4
    assert outputs.flatten().tolist() == [6, 5, 5, 6, 5]


def test_deletion_evaluates_versions_of_similar_length_together_and_unpadded():
    inputs = text_inputs([12, 5])
    keep = torch.arange(12) < torch.tensor([12, 3, 2, 8, 12, 3]).unsqueeze(1)
    recorder = Recorder()
    versions = Versions(torch.tensor([0, 0, 0, 0, 1, 1]), keep)
    perturbed_outputs(recorder, inputs, versions, erasure="delete", chunk_size=2)
    # pairs of versions by length: 12 and 8 + [SEP], 5 and 3 + [SEP], 3 + [SEP] and 2 + [SEP]
    assert recorder.shapes == [(2, 12), (2, 5), (2, 4)]


def test_an_embed_mask_is_as_wide_as_its_inputs():
    recorder = Recorder()
    keep = torch.zeros(1, 12, dtype=torch.bool)
    perturbed_outputs(recorder, text_inputs([12, 5]), Versions(torch.tensor([1]), keep), erasure="embed_zero")
    assert recorder.shapes == [(1, 5)]


def test_versions_of_no_text_are_none():
    versions = Versions(torch.zeros(0, dtype=torch.long), torch.zeros(0, 4, dtype=torch.bool))
    assert perturbed_outputs(Recorder(), text_inputs([4]), versions, erasure="mask").shape == (0, 0)


def test_outputs_are_logits_or_probabilities(tiny_hf):
    inputs = text_inputs([6])
    logits = outputs_of(tiny_hf, "logit")(inputs)
    torch.testing.assert_close(logits, tiny_hf(inputs).logits)
    torch.testing.assert_close(outputs_of(tiny_hf, "probability")(inputs), logits.softmax(dim=-1))


def test_every_distinct_version_is_predicted_once():
    inputs = text_inputs([6, 6])
    predicted = []

    def predict(inputs, embed_mask=None):
        predicted.append(len(inputs))
        return torch.full((len(inputs), 2), 0.5)

    keep = torch.ones(3, 4, 6, dtype=torch.bool)  # two rows of example 0, one of example 1, four versions each
    keep[:, 1, 1] = keep[:, 2:, 1:5] = False
    versions, targets = Versions(torch.tensor([0, 0, 1]), keep), torch.tensor([0, 1, 0])
    unerased = torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    probs = predict_erased(predict, inputs, versions, targets, unerased, erasure="delete")
    assert sum(predicted) == 4  # two distinct versions of each of two examples
    assert probs[:, 0].tolist() == pytest.approx([0.9, 0.1, 0.8])  # versions that keep everything


def test_nothing_erased_predicts_nothing():
    inputs = text_inputs([4])
    versions = Versions(torch.tensor([0]), torch.ones(1, 2, 4, dtype=torch.bool))
    unerased = torch.tensor([[0.9, 0.1]])

    def predict(inputs, embed_mask=None):
        raise AssertionError("an empty batch breaks many networks")

    probs = predict_erased(predict, inputs, versions, torch.tensor([1]), unerased, erasure="delete")
    assert probs[0].tolist() == pytest.approx([0.1, 0.1])


def test_zeros_differ_by_how_much_is_left_of_each_text_of_a_pair():
    inputs = text_inputs([6])
    inputs = replace(inputs, token_type_ids=torch.tensor([[0, 0, 0, 1, 1, 1]]))

    def predict(inputs, embed_mask=None):
        assert not embed_mask.any()
        share = (inputs.token_type_ids * inputs.attention_mask).sum(dim=1) / inputs.attention_mask.sum(dim=1)
        return share.unsqueeze(1)

    keep = torch.ones(1, 3, 6, dtype=torch.bool)
    keep[0, 0, 1] = keep[0, 1, 2] = keep[0, 2, 3] = False
    versions = Versions(torch.tensor([0]), keep)
    probs = predict_zero_embeddings(predict, inputs, versions, torch.tensor([0]), erasure="delete")
    assert probs[0].tolist() == pytest.approx([3 / 5, 3 / 5, 2 / 5])


@pytest.mark.parametrize("erasure", ["delete", "mask", "pad", "embed_zero"])
def test_outputs_for_targets_without_some_units_equal_a_loop(erasure):
    inputs = text_inputs([8, 5])
    targets = torch.tensor([[2, 0], [1, 3]])
    units = torch.full_like(inputs.input_ids, -1)
    units[0, 1:7] = torch.tensor([0, 0, 1, 2, 2, 3])
    units[1, 1:4] = torch.tensor([0, 1, 2])
    erased = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0], [0, 1, 0, 1]]).bool()
    example = torch.tensor([0, 1, 1, 0])
    versions = Versions(example, kept_tokens(units[example], ~erased))
    outputs = target_outputs(bag_of_words, inputs, targets, versions, erasure=erasure)
    for row, b in enumerate(example.tolist()):
        gone = torch.isin(units[b], erased[row].nonzero().flatten()) & (units[b] >= 0)
        wanted = bag_of_words(*erase(inputs[[b]], ~gone.unsqueeze(0), erasure))[0, targets[b]]
        torch.testing.assert_close(outputs[row], wanted)
