"""Comprehensiveness, sufficiency and log-odds on numbers worked out by hand."""

import pytest
import torch

from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency, log_odds
from lightning_xai.metrics.top_units import Counts, Percentages, Window
from tests.metrics.conftest import measured, numbers

EDIN = [0.8, 0.6, 0.4, 0.5, 0.9]  # made with the code of Edin et al. (2024)
SWEEP = [0.5, 0.1, 0.2, 0.3, 0.4]  # probability by number of erased tokens: drops of .4, .3, .2, .1


def test_log_odds_are_natural():  # log(0.3 / 0.9)
    assert float(log_odds(numbers(0.9), numbers(0.3))) == pytest.approx(-1.098612, abs=1e-6)


@pytest.mark.parametrize("clipped, expected", [(True, 0.28125), (False, 0.25)])
def test_relative_comprehensiveness_equals_edin(clipped, expected):
    metric = Comprehensiveness(Counts([1, 2, 3, 4]), relative=True, clipped=clipped)
    assert measured(metric, EDIN)["comprehensiveness"] == pytest.approx(expected)


def test_window_keeps_the_most_important_until_last():
    metric = Sufficiency(Window([0, 1, 2, 3], window=3), aggregate="per_k", name="s", explained="all")
    values = measured(metric, SWEEP)
    assert [values[f"s/{k}"] for k in range(4)] == pytest.approx([0.4, 0.3, 0.2, 0.1])  # erases 1, 2, 3, 4 of 4


@pytest.mark.parametrize(("aggregate", "expected"), [("sum_over_n_plus_1", 0.25), ("mean", 0.3)])
def test_aopc_sufficiency_is_that_of_oracle_e12(aggregate, expected):  # the authors' code, and the paper
    metric = Sufficiency(Percentages([1, 5, 10, 20, 50], rounding="floor"), aggregate=aggregate)
    values = metric.aggregate(torch.tensor([[0.5, 0.4, 0.3, 0.2, 0.1]], dtype=torch.float64))
    assert float(values[""]) == pytest.approx(expected)


@pytest.mark.parametrize(("without_units", "expected"), [("measured", [0.4, 0.1]), ("zero", [0.0, 0.1])])
def test_a_number_of_0_units_can_count_as_no_drop(without_units, expected):
    sizes = Percentages([1, 75], rounding="floor")  # 0 and 3 of 4 tokens: erases 4 and 1
    sweep = [0.5, 0.4, 0.3, 0.2, 0.1]
    metric = Sufficiency(sizes, without_units=without_units, aggregate="per_k", name="s", explained="all")
    values = measured(metric, sweep)
    assert [values["s/1"], values["s/75"]] == pytest.approx(expected)
