from dataclasses import replace

import captum.attr
import pytest
import torch

from lightning_xai.attributions.occlusion import Occlusion, mean_over_windows, windows
from lightning_xai.functional.erasure.erase import erase
from tests.conftest import text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])


def logits_without(model, inputs, row, tokens, erasure):
    """Returns the logits [C] of one text without some of its tokens."""
    keep = torch.ones_like(inputs.token_mask[:1])
    keep[0, tokens] = False
    erased, embed_mask = erase(inputs[row : row + 1], keep, erasure, pad_id=model.pad_id)
    with torch.no_grad():
        embeds = None if embed_mask is None else model.embed(erased) * embed_mask.unsqueeze(-1)
        return model(erased, embeds).logits[0]


@pytest.mark.parametrize("erasure", ["mask", "delete", "pad", "embed_zero"])
def test_a_tokens_score_is_the_logit_lost_without_it(erasure):
    model = tiny_classifier("bert").double()
    inputs = text_inputs([6, 9, 5])
    scores = Occlusion(erasure=erasure).attribute(model, inputs, TARGETS).scores
    for row in range(3):
        unerased = logits_without(model, inputs, row, [], erasure)
        for token in inputs.token_mask[row].nonzero().flatten().tolist():
            lost = (unerased - logits_without(model, inputs, row, [token], erasure))[TARGETS[row]]
            torch.testing.assert_close(scores[row, :, token].double(), lost, rtol=1e-5, atol=1e-6)
    assert not scores.masked_fill(inputs.token_mask.unsqueeze(1), 0).any()


def test_the_tokens_of_a_word_share_equally_the_logit_lost_without_it():
    model = tiny_classifier("bert").double()
    inputs = text_inputs([13])
    assert inputs.word_ids is not None
    scores = Occlusion(unit="word").attribute(model, inputs, TARGETS[:1]).scores
    unerased = logits_without(model, inputs, 0, [], "mask")
    for word in range(int(inputs.word_ids.max()) + 1):
        tokens = (inputs.word_ids[0] == word).nonzero().flatten()
        lost = (unerased - logits_without(model, inputs, 0, tokens, "mask"))[TARGETS[0]]
        shared = (lost / len(tokens)).unsqueeze(1).expand(-1, len(tokens))
        torch.testing.assert_close(scores[0][:, tokens].double(), shared, rtol=1e-5, atol=1e-6)


def test_the_probability_is_explained_on_request(tiny_hf):
    inputs = text_inputs([6])
    scores = Occlusion(output="probability").attribute(tiny_hf, inputs, TARGETS[:1]).scores
    lost = logits_without(tiny_hf, inputs, 0, [], "mask").softmax(0) - logits_without(
        tiny_hf, inputs, 0, [2], "mask"
    ).softmax(0)
    torch.testing.assert_close(scores[0, :, 2], lost[TARGETS[0]], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("window", [1, 3])
def test_scores_are_those_of_captum(tiny_hf, window):
    inputs = text_inputs([13])
    edges = inputs.input_ids[:, :1], inputs.input_ids[:, -1:]

    def forward(body):  # captum moves its window over all tokens of its input
        return tiny_hf(replace(inputs, input_ids=torch.cat([edges[0], body, edges[1]], dim=1))).logits

    body, blank = inputs.input_ids[:, 1:-1], inputs.baseline_ids[:, 1:-1]
    with torch.no_grad():
        expected = captum.attr.Occlusion(forward).attribute(body, (window,), baselines=blank, target=2)
    actual = Occlusion(window=window).attribute(tiny_hf, inputs, torch.tensor([[2]])).scores
    # captum stores scores of integer inputs in float32
    torch.testing.assert_close(actual[0, 0, 1:-1], expected[0].float(), rtol=1e-4, atol=1e-5)


def test_each_window_is_one_unit_further():
    assert windows(4, 3).int().tolist() == [[1, 1, 1, 0], [0, 1, 1, 1]]
    assert windows(2, 3).int().tolist() == [[1, 1]]


def test_a_units_score_is_the_mean_over_the_windows_that_cover_it():
    drops = torch.tensor([[[1.0], [3.0], [8.0]], [[6.0], [0.0], [0.0]]])
    actual = mean_over_windows(drops, torch.tensor([4, 2]), 2, 4)
    assert actual[0, :, 0].tolist() == [1, 2, 5.5, 8]
    assert actual[1, :2, 0].tolist() == [6, 6]


def test_texts_without_and_with_one_explainable_token(tiny_hf):
    inputs = text_inputs([2, 3])
    scores = Occlusion(window=2).attribute(tiny_hf, inputs, TARGETS[:2]).scores
    assert not scores[0].any() and scores[1, :, 1].all()
    assert Occlusion().passes(0, 1).forward == 0 and Occlusion(window=2).passes(1, 1).forward == 2


def test_a_window_of_no_unit_is_refused():
    with pytest.raises(ValueError, match="window is 0"):
        Occlusion(window=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_have_the_precision_of_the_model(dtype):
    model = tiny_classifier("bert").to(dtype)
    assert Occlusion().scores(model, text_inputs([5]), torch.tensor([[0]])).dtype == dtype


def test_a_text_without_tokens_has_no_score(tiny_hf):
    inputs = text_inputs([3]).map(lambda tensor: tensor[:, :0] if tensor.dim() > 1 else tensor)
    assert Occlusion().scores(tiny_hf, inputs, torch.tensor([[0, 1]])).shape == (1, 2, 0)
