"""Normalized comprehensiveness and sufficiency on the authors' numbers."""

import pytest

from lightning_xai.metrics.normalized_faithfulness import normalized_comprehensiveness, normalized_sufficiency
from tests.metrics.conftest import numbers


# made with the authors' code
@pytest.mark.parametrize(
    "prob, kept, removed, empty, expected",
    [(0.9, 0.7, 0.3, 0.5, (0.5, 1)), (0.9, 0.95, 0.3, 0.1, (1, 0.75)), (0.9, 0.7, 0.85, 0.1, (0.75, 0.0625))],
)
def test_normalized_forms_equal_the_authors(prob, kept, removed, empty, expected):
    prob, kept, removed, empty = map(numbers, (prob, kept, removed, empty))
    values = normalized_sufficiency(prob, kept, empty), normalized_comprehensiveness(prob, removed, empty)
    assert [float(value) for value in values] == pytest.approx(expected)


def test_normalized_comprehensiveness_may_exceed_one_when_not_capped():
    value = normalized_comprehensiveness(numbers(0.9), numbers(0.3), numbers(0.5), capped=False)
    assert float(value) == pytest.approx(1.5)


def test_normalized_forms_are_undefined_where_the_empty_input_loses_nothing():
    assert normalized_sufficiency(numbers(0.5), numbers(0.5), numbers(0.6)).isnan()
