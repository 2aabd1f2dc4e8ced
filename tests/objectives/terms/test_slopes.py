"""The gradient of each term is the slope of its value, with every choice of every option."""

import inspect
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.egt import EGT
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from lightning_xai.objectives.terms.vat import VAT
from tests.conftest import tiny_classifier
from tests.objectives.conftest import planted_batch
from tests.objectives.terms.test_term_contracts import TERMS, build

# the gradient takes the scores of EGT and the noise of VAT as constants, although they change with the weights
HAS_CONSTANTS = {EGT, VAT}
STEP = 1e-6


def choices() -> Iterator[Any]:
    """Yields (class of a term, arguments): the defaults, and every other value of an option with named values."""
    for term_class in (term for term in TERMS if term not in HAS_CONSTANTS):
        yield pytest.param(term_class, {}, id=term_class.__name__)
        hints = typing.get_type_hints(term_class.__init__)
        for name, parameter in inspect.signature(term_class).parameters.items():
            hint = hints.get(name)
            values = (False, True) if hint is bool else typing.get_args(hint) if _is_literal(hint) else ()
            for value in values:
                if value != parameter.default:
                    yield pytest.param(term_class, {name: value}, id=f"{term_class.__name__}-{name}-{value}")


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Literal


@pytest.mark.parametrize(("term_class", "options"), list(choices()))
def test_gradient_is_the_slope_of_the_value(term_class: type[Term], options: dict[str, Any]):
    network = tiny_classifier("plm_ca" if term_class is SupervisedAttention else "bert").double()
    objective = Supervised(network, terms={"term": build(term_class, **options)}).eval()
    batch = planted_batch(multilabel=network.multilabel, num_classes=network.num_classes)
    weights, generator = [*network.parameters()], torch.Generator().manual_seed(0)
    direction = [torch.randn(weight.shape, generator=generator, dtype=torch.float64) for weight in weights]

    def value(step: float) -> torch.Tensor:
        torch.manual_seed(0)  # PGD may start from a random place
        with torch.no_grad():
            for weight, change in zip(weights, direction, strict=True):
                weight += step * change
        found = objective.losses(batch)["term"]
        with torch.no_grad():
            for weight, change in zip(weights, direction, strict=True):
                weight -= step * change
        return found

    torch.manual_seed(0)
    gradients = torch.autograd.grad(objective.losses(batch)["term"], weights, allow_unused=True)
    slope = sum(float((g * d).sum()) for g, d in zip(gradients, direction, strict=True) if g is not None)
    expected = (value(STEP) - value(-STEP)).item() / (2 * STEP)
    assert slope == pytest.approx(expected, rel=1e-4, abs=1e-8)
    assert expected != 0
