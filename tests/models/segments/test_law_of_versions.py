"""The law of versions of long notes: logits of whole texts to 1e-5, from few numbers that die with the call."""

import weakref
from dataclasses import replace

import pytest
import torch

from lightning_xai.functional.erasure.evaluate import Versions, for_versions_of, logits_of, outputs_of, predict_of
from lightning_xai.functional.erasure.perturbation import perturbed_outputs, predict_erased
from lightning_xai.functional.network.chunking import rows_per_forward
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.models.segments import logits_by_segment
from lightning_xai.models.segments.segment_attention import segment_attention
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

S = 8
LENGTHS = [1, S - 1, S, S + 1, 2 * S, 47 * S]
CONFIGS = {"bert": TINY_CONFIGS["bert"], "roberta": TINY_CONFIGS["roberta"] | {"pad_token_id": 1}}


def texts(kind, pad_id):
    """Returns texts of all lengths in which every token may be erased."""
    inputs = text_inputs([max(length, 2) for length in LENGTHS], pad_to=47 * S + 5, pad_id=pad_id)
    keep = torch.arange(47 * S + 5) < torch.tensor(LENGTHS).unsqueeze(1)
    inputs = replace(
        inputs, attention_mask=keep, token_mask=keep, input_ids=inputs.input_ids.masked_fill(~keep, pad_id),
        special_tokens_mask=~keep, token_type_ids=None,
    )  # fmt: skip
    if kind == "pairs":
        inputs = replace(inputs, token_type_ids=((torch.arange(47 * S + 5) >= 5) & keep).long())
    if kind == "padded left":
        inputs = inputs.map(lambda t: t.roll(5, dims=1) if t.dim() > 1 else t)
    return inputs


def versions_of(inputs):
    """Returns for each text versions with none, few, many and all tokens erased, and one without one token."""
    example = torch.arange(len(inputs)).repeat(5)
    shares = torch.tensor([0.0, 0.02, 0.5, 1.0, 0.0]).repeat_interleave(len(inputs)).unsqueeze(1)
    draw = torch.rand(len(example), inputs.input_ids.shape[1], generator=torch.Generator().manual_seed(1))
    keep = draw >= shares
    first = inputs.attention_mask.int().argmax(dim=1)
    keep[-len(inputs) :].scatter_(1, first.unsqueeze(1), False)
    return Versions(example, keep)


@pytest.mark.parametrize("erasure", ["delete", "mask", "pad", "embed_zero"])
@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
@pytest.mark.parametrize(("config", "kind", "chunk_size"), [
    ("bert", "mixed", None), ("bert", "pairs", 1), ("roberta", "mixed", 3), ("roberta", "padded left", None),
])  # fmt: skip
def test_logits_in_float32_are_those_of_whole_texts(erasure, mask_mode, config, kind, chunk_size):
    model = tiny_classifier("plm_ca", config=CONFIGS[config], mask_mode=mask_mode, segment_length=S)
    inputs = texts(kind, model.pad_id)
    assert inputs.attention_mask.sum(dim=1).tolist() == LENGTHS
    versions = versions_of(inputs)
    classes = (versions.example.unsqueeze(1) + torch.arange(3)) % 5
    options = {"erasure": erasure, "pad_id": model.pad_id}
    logits = model.version_logits(inputs, versions, classes, chunk_size=chunk_size, **options)
    whole = perturbed_outputs(logits_of(model), inputs, versions, **options).gather(1, classes)
    assert logits.dtype == torch.float32 and not logits.requires_grad
    torch.testing.assert_close(logits, whole, rtol=1e-5, atol=1e-5)


def test_a_version_that_changes_nothing_differs_by_exactly_0():
    model, inputs = tiny_classifier("plm_ca", segment_length=S), text_inputs([30, 17])
    keep = torch.ones(2, 3, 30, dtype=torch.bool)
    keep[:, 1, 0] = False  # [CLS] cannot be erased
    keep[:, 2, 5] = False
    versions, classes = Versions(torch.arange(2), keep), torch.tensor([1, 4])
    unerased = model.predict(inputs)
    probs = predict_erased(predict_of(model), inputs, versions, classes, unerased, erasure="mask")
    before = unerased[[0, 1], classes].double()
    assert torch.equal(probs[:, 0], before) and torch.equal(probs[:, 1], before)
    assert (probs[:, 2] != before).all()


def encoded(model, inputs, keep, erasure):
    """Returns the number of segments in each pass of the encoder."""
    rows: list[int] = []
    hook = model.transformer.register_forward_hook(lambda _m, _a, output: rows.append(len(output.last_hidden_state)))
    versions, classes = Versions(torch.zeros(len(keep), dtype=torch.long), keep), torch.zeros(len(keep), 1).long()
    model.version_logits(inputs, versions, classes, erasure=erasure, pad_id=model.pad_id)
    hook.remove()
    return rows


def test_deleting_one_token_encodes_shifted_segments_once():
    model, inputs = tiny_classifier("plm_ca", segment_length=S), text_inputs([10 * S])
    keep = ~torch.eye(10 * S).bool()
    # 10 segments of the text, at most one for each of the tokens that can be erased, and 9 shifted ones
    assert sum(encoded(model, inputs, keep, "delete")) <= 10 + (10 * S - 2) + 9


def test_segments_of_many_versions_fill_passes_of_32():
    config = TINY_CONFIGS["bert"] | {"max_position_embeddings": 128}
    model, inputs = tiny_classifier("plm_ca", config=config, segment_length=128), text_inputs([256])
    keep = ~torch.eye(256).bool()[1:69]
    assert encoded(model, inputs, keep, "mask") == [32, 32, 5]  # 68 versions of the first segment, and the second
    accelerator = torch.device("cuda")
    assert rows_per_forward(None, 128, accelerator, differentiated=False) == 256


def test_a_segment_leaves_k_times_d_plus_2_numbers_in_float32():
    queries, states = torch.randn(6, 3, 16).bfloat16(), torch.randn(6, S, 16).bfloat16()
    attention = segment_attention(queries, states, torch.ones(6, S).bool())
    assert sum(part.numel() for part in attention) == 6 * 3 * (16 + 2)
    assert {part.dtype for part in attention} == {torch.float32}


def test_numbers_of_segments_die_with_the_call(monkeypatch):
    alive: list[weakref.ref] = []

    def noted(*arguments):
        attention = segment_attention(*arguments)
        alive.extend(weakref.ref(part) for part in attention)
        return attention

    monkeypatch.setattr(logits_by_segment, "segment_attention", noted)
    model, inputs = tiny_classifier("plm_ca", segment_length=S), text_inputs([30])
    attributes = set(vars(model))
    encoded(model, inputs, ~torch.eye(30).bool(), "mask")
    assert alive and not any(part() is not None for part in alive)
    assert set(vars(model)) == attributes


def test_every_wrapper_passes_the_entry_for_versions_on(tiny_hf):
    model, inputs = tiny_classifier("plm_ca"), text_inputs([9])
    wrappers = [logits_of(model), outputs_of(model, "logit"), outputs_of(model, "probability"), predict_of(model)]
    once = PredictOnce(predict_of(model), inputs)
    for evaluate in [*wrappers, once, once.for_inputs(text_inputs([4]))]:
        assert for_versions_of(evaluate) is not None
    for evaluate in (logits_of(tiny_hf), outputs_of(tiny_hf, "probability"), predict_of(tiny_hf)):
        assert for_versions_of(evaluate) is None
