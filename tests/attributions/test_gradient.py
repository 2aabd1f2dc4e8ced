import torch

from lightning_xai.attributions.gradient import Gradient
from tests.conftest import text_inputs


def test_signed_sums_match_finite_differences(tiny_hf):
    model, inputs = tiny_hf.double(), text_inputs([5])
    scores = Gradient("sum").scores(model, inputs, torch.tensor([[2, 0]]))
    embeds, delta = model.embed(inputs).detach(), 1e-6
    for token in range(5):
        shift = torch.zeros_like(embeds)
        shift[:, token] = delta
        slope = (model(inputs, embeds + shift).logits - model(inputs, embeds - shift).logits) / (2 * delta)
        torch.testing.assert_close(scores[0, :, token], slope[0, [2, 0]], rtol=1e-5, atol=1e-8)


def test_each_occurrence_of_a_token_has_its_own_score(tiny_hf):
    inputs = text_inputs([6])
    inputs.input_ids[:, 1:5] = 7
    scores = Gradient().attribute(tiny_hf, inputs, torch.tensor([[0]])).scores
    assert scores[0, 0, 1:5].unique().numel() == 4


def test_the_norm_over_the_vocabulary_is_that_of_the_one_hot_token(tiny_hf):
    model, inputs = tiny_hf.double(), text_inputs([6, 4])
    targets = torch.tensor([[2], [0]])
    one_hot = torch.nn.functional.one_hot(inputs.input_ids, len(model.embedding_matrix)).double().requires_grad_()
    logits = model(inputs, one_hot @ model.embedding_matrix).logits
    (slopes,) = torch.autograd.grad(logits.gather(1, targets).sum(), one_hot)
    scores = Gradient("vocabulary").scores(model, inputs, targets)[:, 0]
    expected = slopes.norm(dim=-1)
    torch.testing.assert_close(scores[inputs.attention_mask], expected[inputs.attention_mask])
