"""Square matrices of similarities, drawn as colored cells with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lightning_xai.report.curves import DOTS_PER_INCH


@dataclass(frozen=True)
class Matrix:
    """Attributes:
    title: above the cells.
    values: [R, R], NaN where undefined.
    low: the value that has the first color; 1 has the last.
    """

    title: str
    values: np.ndarray
    low: float = 0.0


def matrices_figure(rows: Sequence[Sequence[Matrix]], names: Sequence[str]) -> Figure:
    """Returns the matrices in rows, all of them over the same R names."""
    size = max(2.6, 0.55 * len(names) + 1.2)
    columns = max(map(len, rows))
    figure = Figure(figsize=(size * columns + 0.8, size * len(rows) + 0.3), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for place, (axis, matrix) in enumerate(zip(line, row, strict=True)):
            axis.imshow(matrix.values, vmin=matrix.low, vmax=1.0, cmap="cividis" if matrix.low == 0 else "PuOr_r")
            axis.set_title(matrix.title, fontsize="medium")
            axis.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", fontsize="small")
            axis.set_yticks(range(len(names)), names if place == 0 else [""] * len(names), fontsize="small")
            axis.spines[:].set_visible(False)
            _write(axis, matrix)
    return figure


def _write(axis, matrix: Matrix) -> None:
    middle = (matrix.low + 1) / 2
    for (row, column), value in np.ndenumerate(matrix.values):
        # light text on dark cells: the ends of the diverging map are dark, only the start of the other one is
        dark = value < middle if matrix.low == 0 else abs(value) > 0.6
        shown = "-" if np.isnan(value) else f"{value:.2f}"
        axis.text(column, row, shown, ha="center", va="center", fontsize="small", color="white" if dark else "black")
