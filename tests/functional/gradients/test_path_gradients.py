import pytest
import torch

from lightning_xai.functional.gradients.path_gradients import (
    PathEnds,
    path_gradients,
    quadrature_points,
    single_token_path_gradients,
)
from lightning_xai.types import ClassifierOutput
from tests.conftest import text_inputs

RULES = ["gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid"]


class Polynomial:
    """Logit of class c is the sum of embeddings ** (c + 1) / (c + 1)."""

    rows = 0
    most_tokens = 0  # of one pass

    def embed(self, inputs):
        return inputs.input_ids.double().unsqueeze(-1) / 100

    def __call__(self, inputs, inputs_embeds=None):
        self.rows += len(inputs_embeds)
        self.most_tokens = max(self.most_tokens, inputs.input_ids.numel())
        logits = torch.stack([(inputs_embeds ** (c + 1) / (c + 1)).sum(dim=(1, 2)) for c in range(3)], dim=1)
        return ClassifierOutput(logits, torch.zeros(len(inputs_embeds), 1, inputs.input_ids.shape[1]))


@pytest.mark.parametrize("method", RULES)
def test_weights_sum_to_one(method):
    assert sum(quadrature_points(7, method)[1]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("method", "points", "weights"),
    [
        ("gausslegendre", [0.5 - 12**-0.5, 0.5 + 12**-0.5], [0.5, 0.5]),
        ("riemann_left", [0, 0.5], [0.5, 0.5]),
        ("riemann_middle", [0.25, 0.75], [0.5, 0.5]),
        ("riemann_right", [0.5, 1], [0.5, 0.5]),
        ("riemann_trapezoid", [0, 1], [0.5, 0.5]),
    ],
)
def test_two_points_of_each_rule(method, points, weights):
    assert quadrature_points(2, method) == (pytest.approx(points), pytest.approx(weights))


@pytest.mark.parametrize("method", ["gausslegendre", "riemann_left", "riemann_middle", "riemann_right"])
def test_rules_but_the_trapezoid_are_captums(method):
    from captum.attr._utils.approximation_methods import approximation_parameters

    sizes, alphas = approximation_parameters(method)
    points, weights = quadrature_points(9, method)
    assert points == pytest.approx(list(alphas(9))) and weights == pytest.approx(list(sizes(9)))


def test_too_few_steps_are_refused():
    with pytest.raises(ValueError, match="needs at least 2"):
        quadrature_points(1, "riemann_trapezoid")


def average(model, inputs, targets, *, num_steps, method, chunk_size):
    end = model.embed(inputs)
    ends = PathEnds(torch.zeros_like(end), end)
    return path_gradients(model, inputs, targets, ends, quadrature_points(num_steps, method), chunk_size=chunk_size)


def test_path_gradients_of_a_polynomial_are_exact():
    model, inputs = Polynomial(), text_inputs([4, 6])
    x = model.embed(inputs)
    gradients = average(
        model, inputs, torch.tensor([[1, 2], [2, 0]]), num_steps=3, method="gausslegendre", chunk_size=8
    )
    torch.testing.assert_close(gradients[0], torch.stack([x[0] / 2, x[1] ** 2 / 3]))
    torch.testing.assert_close(gradients[1], torch.stack([x[0] ** 2 / 3, x[1] ** 0]))


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 100])
def test_path_gradients_pass_each_point_once_whatever_the_chunk(chunk_size):
    model, inputs = Polynomial(), text_inputs([4, 6])
    average(model, inputs, torch.tensor([[1], [2]]), num_steps=5, method="riemann_left", chunk_size=chunk_size)
    assert model.rows == 10


def test_fifty_right_points_of_half_a_square():  # 2 * (1 + 1/50), where the logit x^2 / 2 at x = 2 is 2
    model, inputs = Polynomial(), text_inputs([3])
    inputs.input_ids[:] = 200  # x = 2
    (gradient,) = average(model, inputs, torch.tensor([[1]]), num_steps=50, method="riemann_right", chunk_size=7)
    torch.testing.assert_close(2 * gradient.squeeze(), torch.full((3,), 2.04, dtype=torch.float64))


def test_a_linear_logit_gives_its_slope():  # a gradient by the end would contain the points, whose mean is 0.51
    model, inputs = Polynomial(), text_inputs([3])
    (gradient,) = average(model, inputs, torch.tensor([[0]]), num_steps=50, method="riemann_right", chunk_size=7)
    torch.testing.assert_close(gradient.squeeze(), torch.ones(3, dtype=torch.float64))


def test_a_pass_of_a_path_stays_within_its_tokens():
    model, inputs = Polynomial(), text_inputs([600])
    average(model, inputs, torch.tensor([[0]]), num_steps=20, method="riemann_left", chunk_size=64)
    assert model.rows == 20 and model.most_tokens == 3 * 600


def single_token_average(model, inputs, targets, *, chunk_size):
    end = model.embed(inputs)
    ends = PathEnds(torch.zeros_like(end), end)
    points = quadrature_points(3, "gausslegendre")
    return single_token_path_gradients(model, inputs, targets, ends, points, chunk_size=chunk_size)


def test_single_token_path_gradients_of_a_product_are_the_other_factors():
    class Product(Polynomial):
        def __call__(self, inputs, inputs_embeds=None):
            logits = inputs_embeds[:, :4].prod(dim=1)  # [CLS] a b [SEP]
            return ClassifierOutput(logits, torch.zeros(len(inputs_embeds), 1, inputs.input_ids.shape[1]))

    model, inputs = Product(), text_inputs([4])
    cls, a, b, sep = model.embed(inputs).flatten().tolist()
    (gradient,) = single_token_average(model, inputs, torch.tensor([[0]]), chunk_size=4)
    assert gradient.flatten().tolist() == pytest.approx([0, cls * b * sep, cls * a * sep, 0])


@pytest.mark.parametrize("chunk_size", [1, 4, 7, None])
def test_single_token_path_gradients_pass_each_token_and_point_once(chunk_size):
    model, inputs = Polynomial(), text_inputs([4, 6])
    x = model.embed(inputs)
    gradients = single_token_average(model, inputs, torch.tensor([[1, 2], [2, 0]]), chunk_size=chunk_size)
    assert model.rows == 3 * (2 + 4)
    mask = inputs.token_mask.unsqueeze(-1)
    torch.testing.assert_close(gradients[0], torch.stack([x[0] / 2, x[1] ** 2 / 3]) * mask)
