"""Curves with interval bands, drawn in panels side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from PIL import Image

# people with color blindness can distinguish these colors (after Okabe and Ito, 2008); markers differ as well
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D", "#8C6D31")
MARKERS = "osD^vPX"  # seven, so that a color of the eight meets its first marker again only after 56 curves
REFERENCE_COLOR = "#555555"
CONTROLS_LABEL = "erased positions only"  # legend entry of controls: networks that see only which positions are erased
DOTS_PER_INCH = 150

Role = Literal["curve", "control", "reference"]
Points = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Curve:
    """A curve through P means, with an interval around each mean.

    Attributes:
        name: name in the legend. Curves with the same name have the same color in all panels.
        x: [P] horizontal positions.
        mean: [P] means, the heights of the curve.
        low: [P] lower end of each interval, NaN where there is no interval.
        high: [P] upper end of each interval, NaN where there is no interval.
        role: "curve" draws a solid line in the color of `name`, "control" a dashed line in this color, and "reference"
            a gray line.

    Example:
        >>> Curve("gradient", x=[0, 100], mean=[90.0, 50.0], low=[88.0, 45.0], high=[91.0, 56.0]).role
        'curve'
    """

    name: str
    x: Points
    mean: Points
    low: Points
    high: Points
    role: Role = "curve"


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its curves.

    Attributes:
        title: text above the axes.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        curves: the curves, in drawing order. Those with the role "reference" are drawn first, below all others.

    Example:
        >>> Panel("roar", "% of tokens erased", "accuracy [%]", curves=[]).title
        'roar'
    """

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]


def curves_figure(panels: Sequence[Panel], *, names: Sequence[str] | None = None, max_columns: int = 3) -> Figure:
    """Returns a figure with the panels side by side and one legend below them.

    Args:
        panels: at least one panel.
        names: names of curves in the order of their colors, with all names in the panels; None for the order in which
            the panels name them.
        max_columns: largest number of panels in a row.

    Example:
        >>> curve = Curve("gradient", x=[0, 100], mean=[90.0, 50.0], low=[88.0, 45.0], high=[91.0, 56.0])
        >>> figure = curves_figure([Panel("roar", "% of tokens erased", "accuracy [%]", [curve])])
        >>> [text.get_text() for text in figure.legends[0].get_texts()]
        ['gradient']
    """
    num_columns = min(len(panels), max_columns)
    num_rows = math.ceil(len(panels) / num_columns)
    size = (max(4.2 * num_columns, 5.0), 3.1 * num_rows + 0.6)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    curves = [curve for panel in panels for curve in panel.curves]
    if names is None:
        names = list(dict.fromkeys(curve.name for curve in curves if curve.role != "reference"))
    # (role is "reference", position, name) -> line. The legend is sorted by these keys, so references come last
    lines: dict[tuple[bool, int, str], Line2D] = {}
    for panel, axis in zip(panels, axes, strict=False):
        for curve in sorted(panel.curves, key=lambda curve: curve.role != "reference"):
            place = names.index(curve.name) if curve.role != "reference" else 0
            line = _draw_curve(axis, curve, place)
            if curve.role != "control":
                lines.setdefault((curve.role == "reference", place, curve.name), line)
        _label_axis(axis, panel)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    entries = {key[2]: lines[key] for key in sorted(lines)}
    if any(curve.role == "control" for curve in curves):
        entries[CONTROLS_LABEL] = Line2D([], [], color=REFERENCE_COLOR, linestyle="--", linewidth=1.2)
    _draw_legend(figure, entries)
    return figure


def figure_image(figure: Figure) -> np.ndarray:
    """Returns a figure as an image [height, width, 3] uint8.

    Example:
        >>> curve = Curve("gradient", x=[0, 100], mean=[90.0, 50.0], low=[88.0, 45.0], high=[91.0, 56.0])
        >>> figure_image(curves_figure([Panel("roar", "% of tokens erased", "accuracy [%]", [curve])])).shape
        (555, 750, 3)
    """
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg), "only an Agg canvas holds pixels"
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def save_png(image: np.ndarray, file: Path) -> None:
    """Writes an image [height, width, 3] uint8 in the PNG format, even if the file has another suffix.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "white.png"
        >>> save_png(np.full((20, 30, 3), 255, dtype=np.uint8), file)
        >>> Image.open(file).size
        (30, 20)
    """
    Image.fromarray(image).save(file, format="PNG", dpi=(DOTS_PER_INCH, DOTS_PER_INCH))


def _draw_curve(axis: Axes, curve: Curve, position: int) -> Line2D:
    """Draws a curve and returns its line. The index `position` selects a color and a marker."""
    color = REFERENCE_COLOR if curve.role == "reference" else COLORS[position % len(COLORS)]
    (line,) = axis.plot(
        curve.x,
        curve.mean,
        color=color,
        linestyle="--" if curve.role == "control" else "-",
        linewidth=1.6 if curve.role == "curve" else 1.2,
        marker=MARKERS[position % len(MARKERS)] if curve.role == "curve" else None,
        markersize=3.5,
    )
    if curve.role != "control":  # controls get no interval band, because too many bands would hide the curves
        axis.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.18, linewidth=0)
    return line


def _label_axis(axis: Axes, panel: Panel) -> None:
    axis.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axis.grid(color="#DDDDDD", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _draw_legend(figure: Figure, entries: dict[str, Line2D]) -> None:
    """Draws the legend below the panels, in rows of about the same length."""
    per_row = max(1, int(figure.get_figwidth() / (0.6 + 0.085 * max(map(len, entries)))))
    num_rows = math.ceil(len(entries) / per_row)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=math.ceil(len(entries) / num_rows),
        frameon=False,
        fontsize="small",
    )
