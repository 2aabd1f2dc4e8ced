"""Table and figure of validation losses: the log loss, and the loss of a term that several experiments share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from lightning_xai.report.scatter import PointPanel, scatter_figure
from lightning_xai.report.tables import Column, text_table

COLUMNS = ["experiment", "run", "x", "y", "plausibility"]


@dataclass(frozen=True)
class TradeOff:
    """The losses of all runs on the validation split, each at the run's best checkpoint.

    Attributes:
        term: name of the term.
        points: a table with the columns experiment, run, x (the term's loss), y (the log loss) and plausibility (of the
            method that the term guides; NaN if the run did not measure it on the validation split).
        metric: the plausibility metric.
        bound: validation bound of the constrained runs; None if no run has one.

    Example:
        >>> points = pd.DataFrame([("tm", "seed0", 0.25, 0.5, 0.75)], columns=COLUMNS)
        >>> print(TradeOff("guidance", points, "auroc", bound=None).table(["tm", "igr"]))
        losses and plausibility (auroc of the method that guidance guides) on the
        validation split, at the best checkpoints, mean (sample deviation) over seeds
             guidance  log_loss   auroc
        tm     0.2500    0.5000  0.7500
        igr         -         -       -
    """

    term: str
    points: pd.DataFrame
    metric: str
    bound: float | None

    def table(self, names: Sequence[str], *, width: int = 80) -> str:
        """Returns a text table of means, with a row for each of the experiments `names`.

        The column of the plausibility is left out if no run measured it.
        """
        columns, quantity = [], "losses"
        shown = {self.term: "x", "log_loss": "y"}
        if self.points["plausibility"].notna().any():
            shown[self.metric] = "plausibility"
            quantity += f" and plausibility ({self.metric} of the method that {self.term} guides)"
        for header, column in shown.items():
            groups = self.points.dropna(subset=column).groupby("experiment")[column]
            cells = {str(name): _cell(values) for name, values in groups}
            columns.append(Column(header, [cells.get(name, "-") for name in names]))
        title = f"{quantity} on the validation split, at the best checkpoints, mean (sample deviation) over seeds"
        return text_table(names, columns, title=title, width=width)

    def figure(self, names: Sequence[str]) -> Figure:
        """Returns a figure that plots the log loss against the term's loss, with a line at the bound.

        The experiments `names` are in the order of their colors.
        """
        panel = PointPanel("validation losses", self.term, "log_loss", self.points, self.bound)
        return scatter_figure([panel], names=names)


def _cell(values: pd.Series) -> str:
    return f"{values.mean():.4f} ({values.std():.4f})" if len(values) > 1 else f"{values.mean():.4f}"
