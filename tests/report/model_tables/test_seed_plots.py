"""Fitted lines and correlations equal those that Edin et al. (2024) print in their Figure 4."""

import numpy as np
import pytest

from lightning_xai.report.model_tables.figures import paper_figures
from lightning_xai.report.model_tables.results import read_models
from lightning_xai.report.scatter import fitted_line


@pytest.mark.slow
def test_correlations_are_those_of_figure_4(shared):
    rows = read_models([shared / "golden" / "edin_results" / "special_token_results.csv"])
    figure = paper_figures(rows, unsupervised="B_U")["symbols"]
    legends = [axis.get_legend() for axis in figure.axes]
    found = [[text.get_text() for text in legend.get_texts()] for legend in legends if legend is not None]
    # the paper prints .89, .50, .71 and .86, .00, .83 without signs
    of_f1 = ["attention (r = -0.89)", "input_x_gradient (r = -0.50)", "att_in_grad (r = -0.71)"]
    assert found == [of_f1, ["attention (r = -0.86)", "input_x_gradient (r = 0.00)", "att_in_grad (r = -0.83)"]]


TOO_FEW = [([], []), ([1.0], [2.0]), ([1.0, 2.0], [2.0, 3.0])]
CONSTANT = [([1.0, 1.0, 1.0], [2.0, 3.0, 4.0]), ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])]


@pytest.mark.parametrize("points", TOO_FEW + CONSTANT)
def test_a_line_needs_three_points_and_different_values_on_both_axes(points):
    assert np.isnan(fitted_line(*points)).all()
