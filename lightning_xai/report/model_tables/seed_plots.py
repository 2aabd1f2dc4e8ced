"""Box plots of values over seeds, with a point for each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from lightning_xai.report.curves import COLORS, MARKERS
from lightning_xai.report.scatter import panel_axes


class Boxes(NamedTuple):
    """One panel of box plots, with a box for each group and series.

    Attributes:
        title: label of the vertical axis.
        groups: name of a group -> name of a series -> values of the runs. Groups are side by side on the horizontal
            axis; each series has its own color.

    Example:
        >>> Boxes("f1 [%]", {"B_U": {"attention": [36.0, 37.5]}}).title
        'f1 [%]'
    """

    title: str
    groups: Mapping[str, Mapping[str, Sequence[float]]]


def boxes_figure(panels: Sequence[Boxes]) -> Figure:
    """Returns a figure with the panels side by side. Each series has the same color in all panels.

    Boxes show the first quartile, the median and the third quartile. Points show all runs.

    Example:
        >>> panel = Boxes("f1 [%]", {"B_U": {"attention": [36.0, 37.5]}, "TM": {"attention": [37.0, 38.0]}})
        >>> [text.get_text() for text in boxes_figure([panel]).axes[0].get_xticklabels()]
        ['B_U', 'TM']
    """
    names = list(dict.fromkeys(name for panel in panels for series in panel.groups.values() for name in series))
    figure, axes = panel_axes(len(panels))
    for panel, axis in zip(panels, axes, strict=False):
        for place, series in enumerate(panel.groups.values()):
            width = 0.7 / max(len(series), 1)
            for number, (name, values) in enumerate(series.items()):
                center = place + (number - (len(series) - 1) / 2) * width
                color = COLORS[names.index(name) % len(COLORS)]
                axis.boxplot(
                    [list(values)], positions=[center], widths=0.8 * width, showfliers=False, manage_ticks=False,
                    boxprops={"color": color}, whiskerprops={"color": color}, capprops={"color": color},
                    medianprops={"color": color, "linewidth": 2},
                )  # fmt: skip
                marker = MARKERS[names.index(name) % len(MARKERS)]
                label = name if name not in axis.get_legend_handles_labels()[1] else None
                axis.plot([center] * len(values), values, marker, color=color, markersize=3, alpha=0.6, label=label)
        axis.set_xticks(range(len(panel.groups)), list(panel.groups), rotation=20 if len(panel.groups) > 3 else 0)
        axis.set_ylabel(panel.title)
    if len(names) > 1:
        axes[0].legend(fontsize="small", frameon=False)
    return figure
