"""Counts above thresholds against loops, and the area of a curve worked out by hand."""

import pytest
import torch

from lightning_xai.metrics.precision_recall import PrecisionRecallCurve, counts_above, pooled_area, spans_above
from lightning_xai.metrics.thresholds import threshold_grid
from tests.metrics.conftest import explained_batch, numbers


def test_counts_above_equal_a_comparison_with_every_threshold():
    attribution, batch = explained_batch([20, 9])
    scores = attribution.scores.flatten(0, 1)
    mask = attribution.token_mask.repeat_interleave(3, dim=0)
    grid = threshold_grid(21, 1.0)  # scores are multiples of 0.05, so ties with thresholds occur
    expected = ((scores.unsqueeze(-1) > grid) & mask.unsqueeze(-1)).sum(dim=1)
    assert torch.equal(counts_above(scores, mask, grid), expected.double())


def test_spans_above_equal_a_loop_over_spans():
    scores = torch.tensor([[0.1, 0.9, 0.3, 0.2, 0.0, 0.4]], dtype=torch.float64)
    evidence = torch.tensor([[False, True, True, False, True, True]])
    grid = torch.tensor([0.0, 0.35, 0.4, 0.95], dtype=torch.float64)
    spans, tokens = spans_above(scores, evidence, grid)
    assert spans.tolist() == [[2, 2, 1, 0]] and tokens.tolist() == [[4, 4, 2, 0]]


def test_step_and_trapezoid_differ_between_the_points():
    # thresholds from low to high select 4, 2 and 0 tokens, of which 2, 1 and 0 are evidence
    counts = numbers([2, 1, 0]), numbers([4, 2, 0]), numbers(2)
    # recalls 0, 1/2, 1 with precisions 0, 1/2, 1/2
    assert float(pooled_area(*counts, "step")) == 0.5
    assert float(pooled_area(*counts, "trapezoid")) == 0.375


def test_curve_of_fewer_than_two_points_is_refused():
    with pytest.raises(ValueError, match="num_points is 1"):
        PrecisionRecallCurve(num_points=1)
