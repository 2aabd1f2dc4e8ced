"""Gradients of several classes from one forward pass are those of one class at a time."""

import pytest
import torch

from lightning_xai.functional.gradients.class_gradients import class_gradients
from tests.conftest import text_inputs, tiny_classifier


def alone(model, inputs, classes, embeds):
    """Returns the gradients [K, B, T, D], each from a forward pass of its own."""
    columns = []
    for k in range(classes.shape[1]):
        logits = model(inputs, embeds).logits
        columns.append(torch.autograd.grad(logits.gather(1, classes[:, k : k + 1]).sum(), embeds)[0])
    return torch.stack(columns)


@pytest.fixture(params=["bert", "plm_ca"])
def passed(request):
    """A network in double precision, two texts of different length, and their embeddings."""
    model, inputs = tiny_classifier(request.param).double(), text_inputs([20, 5])
    return model, inputs, model.embed(inputs).detach().requires_grad_()


CLASSES = torch.tensor([[2, 0], [1, 1]])


@pytest.mark.parametrize("create_graph", [False, True])
def test_equals_one_pass_for_each_class(passed, create_graph):
    model, inputs, embeds = passed
    gradients = torch.stack(list(class_gradients(model, inputs, CLASSES, embeds, create_graph=create_graph)))
    assert gradients.requires_grad == create_graph
    torch.testing.assert_close(gradients.detach(), alone(model, inputs, CLASSES, embeds), rtol=1e-9, atol=1e-12)


def test_row_weights_multiply_the_gradients_of_their_text(passed):
    model, inputs, embeds = passed
    weights = torch.tensor([2.0, 0.0], dtype=torch.float64)
    weighted = torch.stack(list(class_gradients(model, inputs, CLASSES, embeds, row_weights=weights)))
    expected = alone(model, inputs, CLASSES, embeds) * weights.view(1, 2, 1, 1)
    torch.testing.assert_close(weighted, expected, rtol=1e-9, atol=1e-12)
    assert not weighted[:, 1].any()


def test_logits_are_differentiated_with_respect_to_a_tensor_before_the_embeddings(passed):
    model, inputs, embeds = passed
    scale = torch.ones(len(inputs), dtype=torch.float64, requires_grad=True)
    scaled = embeds.detach() * scale.view(-1, 1, 1)
    gradients = torch.stack(list(class_gradients(model, inputs, CLASSES, scaled, wrt=scale)))
    # by the chain rule, the derivative with respect to a text's scale is the gradient times its embeddings
    expected = (alone(model, inputs, CLASSES, embeds) * embeds.detach()).sum(dim=(-2, -1))
    torch.testing.assert_close(gradients, expected, rtol=1e-9, atol=1e-12)
