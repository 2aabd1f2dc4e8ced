import pytest
import torch

from lightning_xai.attributions.input_x_gradient import InputXGradient
from tests.conftest import text_inputs, tiny_classifier


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
def test_signed_sums_are_captums(kind):
    import captum.attr

    model, inputs = tiny_classifier(kind).double(), text_inputs([6, 9])
    targets = torch.tensor([[0, 2], [1, 1]])
    scores = InputXGradient("sum").scores(model, inputs, targets)
    explainer = captum.attr.InputXGradient(lambda embeds: model(inputs, embeds).logits)
    for column in range(2):
        embeds = model.embed(inputs).detach().requires_grad_()
        expected = explainer.attribute(embeds, target=targets[:, column]).sum(dim=-1)
        torch.testing.assert_close(scores[:, column], expected)


def test_pooled_by_l2_it_is_the_norm_of_the_products(tiny_plm_ca):
    model, inputs = tiny_plm_ca.double(), text_inputs([9])
    embeds = model.embed(inputs).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs, embeds).logits[0, 3], embeds)
    scores = InputXGradient().scores(model, inputs, torch.tensor([[3]]))
    torch.testing.assert_close(scores[0, 0], (embeds * gradient).square().sum(-1).sqrt()[0])


def test_the_embedding_table_is_in_the_graph(tiny_hf):
    tiny_hf.set_attention("eager")
    scores = InputXGradient().scores(tiny_hf, text_inputs([9]), torch.tensor([[0]]), create_graph=True)
    (gradient,) = torch.autograd.grad(scores.sum(), tiny_hf.embedding_matrix)
    assert gradient.abs().max() > 0
