"""Draws square matrices of similarities as colored cells with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lightning_xai.report.curves import DOTS_PER_INCH


@dataclass(frozen=True)
class Matrix:
    """A square matrix of similarities.

    Attributes:
        title: text above the cells.
        values: [R, R] similarities, NaN where undefined.
        low: smallest possible similarity, 0 or -1. The color map covers values from `low` to 1.

    Example:
        >>> Matrix("Spearman", np.eye(2), low=-1.0).values.shape
        (2, 2)
    """

    title: str
    values: np.ndarray
    low: float = 0.0


def matrices_figure(rows: Sequence[Sequence[Matrix]], names: Sequence[str]) -> Figure:
    """Returns a figure that shows the matrices as colored cells with numbers.

    Args:
        rows: the matrices, in rows of the same length. The matrices of a row are drawn side by side.
        names: labels of the rows, and also of the columns, of every matrix.

    Example:
        >>> figure = matrices_figure([[Matrix("Jaccard", np.array([[1.0, 0.25], [0.25, 1.0]]))]], ["seed0", "seed1"])
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['1.00', '0.25', '0.25', '1.00']
    """
    size = max(2.6, 0.55 * len(names) + 1.2)
    num_columns = max(map(len, rows))
    figure = Figure(figsize=(size * num_columns + 0.8, size * len(rows) + 0.3), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), num_columns, squeeze=False)
    for axes_row, row in zip(axes, rows, strict=True):
        for place, (axis, matrix) in enumerate(zip(axes_row, row, strict=True)):
            axis.imshow(matrix.values, vmin=matrix.low, vmax=1.0, cmap="cividis" if matrix.low == 0 else "PuOr_r")
            axis.set_title(matrix.title, fontsize="medium")
            axis.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", fontsize="small")
            axis.set_yticks(range(len(names)), names if place == 0 else [""] * len(names), fontsize="small")
            axis.spines[:].set_visible(False)
            _write_numbers(axis, matrix)
    return figure


def _write_numbers(axis: Axes, matrix: Matrix) -> None:
    """Writes each value into its cell, in white if the cell is dark.

    The color map for values from 0 to 1 is dark in its lower half; the color map for values from -1 to 1 is dark at
    both ends.
    """
    for (row, column), value in np.ndenumerate(matrix.values):
        dark = value < 0.5 if matrix.low == 0 else abs(value) > 0.6
        text = "-" if np.isnan(value) else f"{value:.2f}"
        axis.text(column, row, text, ha="center", va="center", fontsize="small", color="white" if dark else "black")
