"""Validation losses of experiments whose objectives have the same term: the log loss and the term's loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from lightning_xai.commands.validation_losses import best_validation_losses
from lightning_xai.report.scatter import PointPanel, scatter_figure
from lightning_xai.report.tables import Column, text_table
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.settings import changed_settings

MAY_DIFFER = ("init_args.weight", "init_args.validate")  # settings of a term that do not change the meaning of its loss


@dataclass(frozen=True)
class TradeOff:
    """The losses of all runs on the validation split, each at the run's best checkpoint.

    Attributes:
        term: name of the term.
        points: a table with the columns experiment, run, x (the term's loss) and y (the log loss).
        bound: validation bound of the constrained runs; None if no run has one.

    Example:
        >>> points = pd.DataFrame([("tm", "seed0", 0.25, 0.5)], columns=["experiment", "run", "x", "y"])
        >>> print(TradeOff("guidance", points, bound=None).table(["tm", "igr"]))
        validation losses of the best checkpoints, mean (sample deviation) over seeds
             guidance  log_loss
        tm     0.2500    0.5000
        igr         -         -
    """

    term: str
    points: pd.DataFrame
    bound: float | None

    def table(self, names: Sequence[str], *, width: int = 80) -> str:
        """Returns a text table of the mean losses, with a row for each of the experiments `names`."""
        columns = []
        for header, column in ((self.term, "x"), ("log_loss", "y")):
            cells = {str(name): _cell(values) for name, values in self.points.groupby("experiment")[column]}
            columns.append(Column(header, [cells.get(name, "-") for name in names]))
        title = "validation losses of the best checkpoints, mean (sample deviation) over seeds"
        return text_table(names, columns, title=title, width=width)

    def figure(self) -> Figure:
        """Returns a figure that plots the log loss against the term's loss, with a line at the bound."""
        return scatter_figure([PointPanel("validation losses", self.term, "log_loss", self.points, self.bound)])


def read_trade_off(experiments: Mapping[str, Path], term: str) -> TradeOff:
    """Reads the losses of all runs that have a best checkpoint.

    Args:
        experiments: name -> folder of the experiment.
        term: name of the term.

    Raises:
        ValueError: no run has a best checkpoint, a run did not log the loss of the term in validation, the term's
            settings (except its weight) differ between the runs, or the runs have different bounds.

    Example:
        >>> read_trade_off({"tm": Path("runs/none")}, "guidance")
        Traceback (most recent call last):
        ValueError: no run has a best checkpoint, so there is no trade-off to plot: leave out --trade_off
    """
    rows, bounds, settings = [], set(), {}
    for name, folder in experiments.items():
        for run in runs_of(folder):
            losses = best_validation_losses(run, (term, "log_loss"))
            if losses is None:
                continue
            rows.append((name, run.path.name, losses[term], losses["log_loss"]))
            bounds.add((run.manifest.get("bounds") or {}).get(term, (None, None))[1])
            settings[str(run.path)] = run.settings or {}
    if not rows:
        raise ValueError("no run has a best checkpoint, so there is no trade-off to plot: leave out --trade_off")
    _check_same_term(settings, term)
    given = sorted(bound for bound in bounds if bound is not None)
    if len(given) > 1:
        shown = ", ".join(f"{bound:g}" for bound in given)
        raise ValueError(f"the runs have different bounds for {term}: {shown}; compare experiments with the same bound")
    points = pd.DataFrame(rows, columns=["experiment", "run", "x", "y"])
    return TradeOff(term, points, given[0] if given else None)


def _check_same_term(settings: Mapping[str, Mapping[str, Any]], term: str) -> None:
    """Raises ValueError if the losses of a term are not the same quantity in all runs.

    Args:
        settings: folder of a run -> settings of the run, empty if they are unknown.
        term: name of the term.
    """
    terms = {run: term_settings(given, term) for run, given in settings.items()}
    (first, reference), *others = [(run, given) for run, given in terms.items() if given] or [("", {})]
    for run, given in others:
        known, other = without_new_options(reference, given), without_new_options(given, reference)
        for name in without_free_settings(changed_settings(known, other)):
            raise ValueError(
                f"the term {term} has {name} = {other.get(name)} in {run}, but {known.get(name)} in {first}: compare "
                "experiments in which only the weight of the term differs"
            )


def term_settings(settings: Mapping[str, Any], term: str) -> dict[str, Any]:
    """Returns a term's part of a run's settings.

    Example:
        >>> term_settings({"model.init_args.terms.vat.init_args.weight": 0.5}, "vat")
        {'init_args.weight': 0.5}
    """
    prefix = f"model.init_args.terms.{term}."
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def without_free_settings(names: Iterable[str]) -> list[str]:
    """Returns the names of a term's settings that change the meaning of its loss.

    Example:
        >>> without_free_settings(["class_path", "init_args.weight.0", "init_args.score"])
        ['class_path', 'init_args.score']
    """
    return [name for name in names if not f"{name}.".startswith(tuple(f"{free}." for free in MAY_DIFFER))]


def _cell(values: pd.Series) -> str:
    return f"{values.mean():.4f} ({values.std():.4f})" if len(values) > 1 else f"{values.mean():.4f}"
