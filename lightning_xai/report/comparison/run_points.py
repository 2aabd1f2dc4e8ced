"""A figure of the spread over seeds, with a point for each run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lightning_xai.report.curves import COLORS
from lightning_xai.report.scatter import add_legend, panel_axes, point_style


def spread_figure(
    rows: pd.DataFrame, names: Sequence[str], panels: str, *, y_label: str, max_columns: int = 3
) -> Figure:
    """Returns a figure with a point for each run and a line at the mean of each experiment.

    In each panel, the experiments are side by side.

    Args:
        rows: a table with the columns experiment and value, and a column with the name `panels`.
        names: the experiments, in the order of their colors. One without values gets an empty place.
        panels: name of a column of `rows`; each value in this column gets a panel.
        y_label: label of the vertical axes.
        max_columns: largest number of panels in a row.

    Example:
        >>> rows = pd.DataFrame({"experiment": ["tm", "tm"], "split": ["test", "test"], "value": [0.5, 0.7]})
        >>> figure = spread_figure(rows, ["tm"], "split", y_label="macro_f1")
        >>> [axis.get_title() for axis in figure.axes]
        ['test']
    """
    figure, axes = panel_axes(rows[panels].nunique(), max_columns=max_columns)
    for (title, part), axis in zip(rows.groupby(panels, sort=False), axes, strict=False):
        for name, group in part.groupby("experiment", sort=False):
            place = names.index(str(name))
            values = group["value"].to_numpy()
            aside = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
            axis.plot(place + aside, values, linestyle="", markersize=4.5, alpha=0.85, **point_style(place))
            axis.hlines(values.mean(), place - 0.3, place + 0.3, color=COLORS[place % len(COLORS)], linewidth=1.6)
        axis.set_title(str(title), fontsize="medium")
        axis.set_ylabel(y_label)
        axis.set_xticks(range(len(names)), [""] * len(names))
        axis.set_xlim(-0.6, len(names) - 0.4)
    add_legend(figure, names)
    return figure
