"""Reads the validation losses of experiments whose objectives have the same term."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lightning_xai.commands.validation_losses import best_validation_losses
from lightning_xai.report.comparison.trade_off import COLUMNS, TradeOff
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.settings import changed_settings

MEASURED = re.compile(r"trainer\.callbacks\.\d+\.init_args\.methods\.(?P<method>[^.]+)\.(?P<setting>.+)")
MAY_DIFFER = ("init_args.weight", "init_args.validate")  # settings of a term that do not change the meaning of its loss


def read_trade_off(experiments: Mapping[str, Path], term: str, plausible: pd.DataFrame, *, metric: str) -> TradeOff:
    """Reads the losses of all runs that have a best checkpoint, and the plausibility of the method that a term guides.

    Args:
        experiments: name -> folder of the experiment.
        term: name of the term.
        plausible: plausibility on the validation split, with the columns experiment, seed, method and value.
        metric: name of the plausibility metric.

    Raises:
        ValueError: no run has a best checkpoint, a run did not log the loss of the term in validation, the term's
            settings (except its weight) differ between the runs, or the runs have different bounds.

    Example:
        >>> read_trade_off({"tm": Path("runs/none")}, "guidance", pd.DataFrame(), metric="rationale/auroc")
        Traceback (most recent call last):
        ValueError: no run has a best checkpoint, so there is no trade-off to plot: leave out --trade_off
    """
    rows, settings = [], {}
    bounds: dict[bool, set[float]] = {True: set(), False: set()}  # of runs with and without a best checkpoint
    columns = [plausible[name] for name in ("experiment", "seed", "method", "value")] if len(plausible) else []
    known = {(name, f"seed{seed}", method): value for name, seed, method, value in zip(*columns, strict=True)}
    for name, folder in experiments.items():
        for run in runs_of(folder):
            losses = best_validation_losses(run, (term, "log_loss"))
            bounds[losses is not None] |= validation_bounds(run.manifest, term)
            if losses is None:
                continue
            settings[str(run.path)] = run.settings or {}
            guided = guided_method(settings[str(run.path)], term)
            auroc = known.get((name, run.path.name, guided), math.nan)
            rows.append((name, run.path.name, losses[term], losses["log_loss"], auroc))
    if not rows:
        raise ValueError("no run has a best checkpoint, so there is no trade-off to plot: leave out --trade_off")
    _check_same_term(settings, term)
    given = sorted(bounds[True] or bounds[False])
    if len(given) > 1:
        shown = ", ".join(f"{bound:g}" for bound in given)
        raise ValueError(f"the runs have different bounds for {term}: {shown}; compare experiments with the same bound")
    return TradeOff(term, pd.DataFrame(rows, columns=COLUMNS), metric, given[0] if given else None)


def validation_bounds(manifest: Mapping[str, Any], term: str) -> set[float]:
    """Returns the bound with which a run's loss of a term is compared in validation; empty if the run has none.

    Example:
        >>> validation_bounds({"bounds": {"guidance": [0.04, None]}}, "guidance"), validation_bounds({}, "guidance")
        ({0.04}, set())
    """
    bound, in_validation = (manifest.get("bounds") or {}).get(term, (None, None))
    given = bound if in_validation is None else in_validation
    return set() if given is None else {given}


def _check_same_term(settings: Mapping[str, Mapping[str, Any]], term: str) -> None:
    """Raises ValueError if the losses of a term are not the same quantity in all runs.

    Args:
        settings: folder of a run -> settings of the run, empty if they are unknown.
        term: name of the term.
    """
    prefix = f"model.init_args.terms.{term}."
    terms = {run: {name: given[name] for name in given if name.startswith(prefix)} for run, given in settings.items()}
    (first, reference), *others = [(run, given) for run, given in terms.items() if given] or [("", {})]
    for run, given in others:
        known, other = without_new_options(reference, given), without_new_options(given, reference)
        changed = [name.removeprefix(prefix) for name in changed_settings(known, other)]
        for name in without_free_settings(changed):
            values = other.get(prefix + name), known.get(prefix + name)
            raise ValueError(
                f"the term {term} has {name} = {values[0]} in {run}, but {values[1]} in {first}: compare experiments "
                "in which only the weight of the term differs"
            )


def term_settings(settings: Mapping[str, Any], term: str) -> dict[str, Any]:
    """Returns a term's part of a run's settings.

    Example:
        >>> term_settings({"model.init_args.terms.vat.init_args.weight": 0.5}, "vat")
        {'init_args.weight': 0.5}
    """
    prefix = f"model.init_args.terms.{term}."
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


def guided_method(settings: Mapping[str, Any], term: str) -> str | None:
    """Returns the name under which a run measures the method that a term guides; None if it does not measure it.

    Example:
        >>> measured = {"trainer.callbacks.0.init_args.methods.saliency.class_path": "Gradient"}
        >>> guided_method(measured | {"model.init_args.terms.er.init_args.method.class_path": "Gradient"}, "er")
        'saliency'
    """
    prefix = "init_args.method."
    guided = {
        name.removeprefix(prefix): value
        for name, value in term_settings(settings, term).items()
        if name.startswith(prefix)
    }
    methods: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        if found := MEASURED.fullmatch(name):
            methods.setdefault(found["method"], {})[found["setting"]] = value
    return next((name for name, method in methods.items() if method == guided), None)


def without_free_settings(names: Iterable[str]) -> list[str]:
    """Returns the names of a term's settings that change the meaning of its loss.

    Example:
        >>> without_free_settings(["class_path", "init_args.weight.0", "init_args.score"])
        ['class_path', 'init_args.score']
    """
    return [name for name in names if not f"{name}.".startswith(tuple(f"{free}." for free in MAY_DIFFER))]
