"""Logits of versions from their segments are those of whole texts."""

from dataclasses import replace

import pytest
import torch

from lightning_xai.functional.erasure.evaluate import Versions, for_versions_of, logits_of, outputs_of, predict_of
from lightning_xai.functional.erasure.perturbation import perturbed_outputs, version_outputs
from lightning_xai.models.segments import logits_by_segment
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

ROBERTA = TINY_CONFIGS["roberta"] | {"pad_token_id": 1}
ERASURES = ["delete", "mask", "pad", "embed_zero"]
S = 8


def pairs(inputs):
    half = (torch.arange(inputs.input_ids.shape[1]) >= 9).long().expand(inputs.input_ids.shape)
    return replace(inputs, token_type_ids=half * inputs.attention_mask)


def padded_left(inputs, columns):
    return inputs.map(lambda t: t.roll(columns, dims=1) if t.dim() > 1 else t)


def without_special_tokens(inputs):
    return replace(inputs, token_mask=inputs.attention_mask)


TEXTS = {
    "lengths": lambda pad_id: text_inputs([2, S - 1, S, S + 1, 2 * S, 5 * S, 5 * S + 3], pad_id=pad_id),
    "one token": lambda pad_id: without_special_tokens(text_inputs([3, S], pad_id=pad_id)),
    "pairs": lambda pad_id: pairs(text_inputs([21, 2 * S, 11], pad_id=pad_id)),
    "left": lambda pad_id: padded_left(text_inputs([4, S, 20], pad_to=26, pad_id=pad_id), 6),
    "erasable": lambda pad_id: without_special_tokens(text_inputs([2 * S, 3, S + 2], pad_id=pad_id)),
}


def versions_of(inputs, count=7):
    """Returns versions with none, one, some, most and all tokens erased."""
    generator = torch.Generator().manual_seed(1)
    example = torch.arange(len(inputs)).repeat(count)
    shares = torch.tensor([0.0, 0.02, 0.1, 0.5, 0.9, 1.0, 0.1]).repeat_interleave(len(inputs)).unsqueeze(1)
    draw = torch.rand(len(example), inputs.input_ids.shape[1], generator=generator)
    return Versions(example, draw >= shares)


def both_ways(model, inputs, versions, erasure, chunk_size=None):
    classes = torch.arange(3).repeat(len(versions.example), 1) + (versions.example % 3).unsqueeze(1)
    options = {"erasure": erasure, "pad_id": model.pad_id, "chunk_size": chunk_size}
    by_segment = model.version_logits(inputs, versions, classes, **options)
    whole = perturbed_outputs(logits_of(model), inputs, versions, **options)
    return by_segment, whole.gather(1, classes)


@pytest.mark.parametrize("erasure", ERASURES)
@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
@pytest.mark.parametrize(("config", "embedding"), [(TINY_CONFIGS["bert"], "word"), (ROBERTA, "module")])
def test_logits_are_those_of_whole_texts(erasure, mask_mode, config, embedding):
    model = tiny_classifier("plm_ca", config=config, mask_mode=mask_mode, embedding=embedding).double()
    for name, texts in TEXTS.items():
        inputs = texts(model.pad_id)
        by_segment, whole = both_ways(model, inputs, versions_of(inputs), erasure)
        torch.testing.assert_close(by_segment, whole, rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize("model_type", ["deberta-v2", "modernbert", "distilbert"])
def test_other_encoders_have_the_logits_of_whole_texts(model_type):
    model = tiny_classifier("plm_ca", config=TINY_CONFIGS[model_type]).double()
    inputs = TEXTS["lengths"](model.pad_id)
    for erasure in ("delete", "embed_zero"):
        torch.testing.assert_close(*both_ways(model, inputs, versions_of(inputs), erasure), rtol=0, atol=1e-10)


@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
def test_logits_in_float32_differ_by_rounding_only(mask_mode):
    model = tiny_classifier("plm_ca", mask_mode=mask_mode)
    inputs = text_inputs([47 * S, 3 * S, 9])
    by_segment, whole = both_ways(model, inputs, versions_of(inputs), "mask")
    assert by_segment.dtype == torch.float32
    torch.testing.assert_close(by_segment, whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk_size", [1, 3, 64])
def test_no_logit_depends_on_the_chunk_size_or_on_the_memory_limit(chunk_size, monkeypatch):
    model, inputs = tiny_classifier("plm_ca").double(), TEXTS["lengths"](0)
    expected, _ = both_ways(model, inputs, versions_of(inputs), "delete")
    chunked, _ = both_ways(model, inputs, versions_of(inputs), "delete", chunk_size)
    torch.testing.assert_close(chunked, expected, rtol=0, atol=1e-12)
    monkeypatch.setattr(logits_by_segment, "ATTENTION_FLOATS", 12 * 5 * 18)  # 12 segments of 5 classes
    limited, _ = both_ways(model, inputs, versions_of(inputs), "delete")
    torch.testing.assert_close(limited, expected, rtol=0, atol=1e-12)


def test_a_network_that_cannot_hold_one_version_reads_whole_texts(monkeypatch):
    model, inputs = tiny_classifier("plm_ca").double(), TEXTS["lengths"](0)
    expected = both_ways(model, inputs, versions_of(inputs), "mask")[1]
    monkeypatch.setattr(logits_by_segment, "ATTENTION_FLOATS", 100)
    assert both_ways(model, inputs, versions_of(inputs), "mask")[0] is None
    versions = versions_of(inputs)
    classes = torch.arange(3).repeat(len(versions.example), 1) + (versions.example % 3).unsqueeze(1)
    outputs = version_outputs(logits_of(model), inputs, versions, classes, erasure="mask")
    torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-12)


def test_versions_with_equal_segments_have_exactly_equal_logits():
    model, inputs = tiny_classifier("plm_ca"), text_inputs([30])
    keep = torch.ones(4, 30, dtype=torch.bool)
    keep[1, 12] = keep[3, 12] = False
    keep[2, 0] = False  # [CLS] cannot be erased
    versions = Versions(torch.zeros(4, dtype=torch.long), keep)
    logits, _ = both_ways(model, inputs, versions, "mask")
    assert torch.equal(logits[0], logits[2]) and torch.equal(logits[1], logits[3])
    assert not torch.equal(logits[0], logits[1])


def test_training_mode_reads_whole_texts_and_changed_weights_change_the_next_call():
    model, inputs = tiny_classifier("plm_ca"), text_inputs([30])
    versions = versions_of(inputs)
    before, _ = both_ways(model, inputs, versions, "mask")
    with torch.no_grad():
        model.transformer.encoder.layer[0].output.dense.weight.mul_(1.5)
    by_segment, whole = both_ways(model, inputs, versions, "mask")
    torch.testing.assert_close(by_segment, whole, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(before, whole, atol=1e-3)
    assert both_ways(model.train(), inputs, versions, "mask")[0] is None


def test_each_distinct_segment_is_encoded_once():
    model, inputs = tiny_classifier("plm_ca"), text_inputs([10 * S])
    keep = ~torch.eye(10 * S).bool()
    rows = []
    model.transformer.register_forward_hook(lambda _m, _a, output: rows.append(len(output.last_hidden_state)))
    logits = model.version_logits(
        inputs, Versions(torch.zeros(len(keep), dtype=torch.long), keep), torch.zeros(len(keep), 1).long(),
        erasure="mask", pad_id=0,
    )  # fmt: skip
    assert logits.shape == (10 * S, 1) and sum(rows) == 10 + 10 * S - 2  # [CLS] and [SEP] cannot be erased


@pytest.mark.parametrize("multilabel", [True, False])
def test_probabilities_are_those_of_whole_texts(multilabel):
    model, inputs = tiny_classifier("plm_ca", multilabel=multilabel), TEXTS["lengths"](0)
    versions = versions_of(inputs)
    classes = (versions.example % 5).unsqueeze(1)
    expected = perturbed_outputs(model.predict, inputs, versions, erasure="mask").gather(1, classes)
    for evaluate in (predict_of(model), outputs_of(model, "probability")):
        assert for_versions_of(evaluate) is not None
        outputs = version_outputs(evaluate, inputs, versions, classes, erasure="mask")
        torch.testing.assert_close(outputs, expected.double(), rtol=0, atol=1e-5)
