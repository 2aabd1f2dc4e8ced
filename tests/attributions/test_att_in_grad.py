import pytest
import torch

from lightning_xai.attributions.att_in_grad import AttInGrad, att_in_grad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.functional.scores.aggregation import normalize
from tests.conftest import text_inputs, tiny_classifier


def test_normalized_product_of_attention_and_norms():  # oracle E15
    gradient = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 4.0]])
    scores = att_in_grad(torch.tensor([0.6, 0.3, 0.1]), torch.ones(3, 2), gradient)
    torch.testing.assert_close(scores, torch.tensor([0.6, 0.6, 0.4]))
    normalized = normalize(scores.view(1, 1, 3), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(normalized.flatten(), torch.tensor([0.375, 0.375, 0.25]))


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
def test_scores_are_the_product_of_its_parts(kind):
    model, inputs, targets = tiny_classifier(kind).double(), text_inputs([6, 9]), torch.tensor([[0, 2], [1, 1]])
    model.set_attention("eager")
    parts = Attention().scores(model, inputs, targets) * InputXGradient("l2").scores(model, inputs, targets)
    torch.testing.assert_close(AttInGrad().scores(model, inputs, targets), parts)


def test_attention_is_in_the_graph(tiny_plm_ca):
    tiny_plm_ca.set_attention("eager")
    scores = AttInGrad().scores(tiny_plm_ca, text_inputs([9]), torch.tensor([[0]]), create_graph=True)
    (gradient,) = torch.autograd.grad(scores.sum(), tiny_plm_ca.class_queries)
    assert gradient[0].abs().max() > 0
