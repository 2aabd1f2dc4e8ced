"""Colors and markers of experiments: equal in all pictures of a report, and different for each experiment."""

import pandas as pd
from matplotlib.colors import to_hex

from lightning_xai.report.comparison.run_points import spread_figure
from lightning_xai.report.comparison.tables_and_pictures import paired_runs
from lightning_xai.report.curves import Curve, Panel, curves_figure
from lightning_xai.report.scatter import PointPanel, point_style, scatter_figure

NAMES = ["pgd", "none", "aml"]  # not in alphabetical order, and the second has no results


def styles(axis) -> set[tuple[str, str]]:
    points = [line for line in axis.get_lines() if line.get_marker() not in ("", "None", None)]
    return {(to_hex(line.get_color()).upper(), line.get_marker()) for line in points}


def test_an_experiment_has_the_same_style_in_every_picture():
    keys = [("pgd", 0, "x"), ("pgd", 0, "y"), ("aml", 0, "x"), ("aml", 0, "y")]
    rows = pd.DataFrame(keys, columns=["experiment", "seed", "quantity"]).assign(value=0.5)
    spread = spread_figure(rows, NAMES, "quantity", y_label="f1")
    scatter = scatter_figure([PointPanel("", "x", "y", paired_runs(rows, "x", "y"))], names=NAMES)
    curves = [Curve(name, [0], [0.5], [0.5], [0.5]) for name in ("aml", "pgd")]
    layers = curves_figure([Panel("", "layer", "auroc", curves)], names=NAMES)
    expected = {(point_style(place)["color"], point_style(place)["marker"]) for place in (0, 2)}
    for figure in (spread, scatter, layers):
        assert styles(figure.axes[0]) == expected


def test_many_experiments_have_different_styles():
    assert len({tuple(point_style(place).values()) for place in range(56)}) == 56
