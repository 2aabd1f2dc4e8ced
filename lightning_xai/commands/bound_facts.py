"""Determines facts for the manifest of a run that trains under constraints: the bounds, and whether they were met."""

from __future__ import annotations

from typing import Any

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.checkpoints.checkpoint import read_checkpoint
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.progress import say


def bound_facts(run: RunFolder, objective: Any) -> dict[str, Any]:
    """Returns facts for the manifest of a trained run: "bounds", and "bound_met" (whether the run met its bounds).

    Returns {} if the objective has no bounds, or if the run only serves to find a bound. The best checkpoint is
    chosen only among epochs that meet the bounds, so a run without a best checkpoint did not meet them. For such a run,
    this function prints that there is no best checkpoint, and the smallest validation loss of every constraint.

    Args:
        run: the run, whose training has ended.
        objective: the run's objective. Objectives with bounds have the attributes `bound_met`, `bounds`
            and `minima`.

    Example:
        >>> from pathlib import Path
        >>> bound_facts(RunFolder(Path("runs/tm/seed0")), objective=None)
        {}
    """
    if getattr(objective, "only", None) is not None or not hasattr(objective, "bound_met"):
        return {}
    bounds, minima, file = objective.bounds, objective.minima, run.checkpoint("last") or run.checkpoint("best")
    if not minima and file is not None:  # an earlier process has trained the run
        saved = read_checkpoint(str(file))
        bounds, minima = saved["bounds"], saved["minima"]
    is_met = run.checkpoint("best") is not None
    if not is_met:
        say(f"{run.path}: no epoch met the bounds, so there is no best checkpoint, and nothing is tested")
        for name, limits in bounds.items():
            if (smallest := minima.get(f"val/{name}")) is not None:
                limit = Constraint(*limits).validation_limit
                say(f"  {name}: smallest loss in validation {smallest:.4g}; an epoch must be below {limit:.4g}")
    return {"bound_met": is_met, "bounds": bounds}


def seeds_that_met(run: RunFolder) -> str:
    """Returns a line that says how many seeds of the run's experiment met the bounds; "" if `run` has no bounds.

    Example:
        >>> from pathlib import Path
        >>> seeds_that_met(RunFolder(Path("runs/tm/seed0")))
        ''
    """
    if "bound_met" not in run.manifest:
        return ""
    met = [bool(other.manifest["bound_met"]) for other in runs_of(run.experiment_dir) if "bound_met" in other.manifest]
    return f"{sum(met)} of {quantity(len(met), 'seed')} of {run.experiment_dir} met the bounds"
