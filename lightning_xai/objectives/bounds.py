"""Computes the bounds of a constraint from runs that minimize only the constrained loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from lightning.pytorch.callbacks import EarlyStopping, Timer

from lightning_xai.models.checkpoints.checkpoint import read_checkpoint
from lightning_xai.objectives.constraint_checks import logged_name
from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.evaluation_settings import training_settings
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.settings import changed_settings

BoundPreset = Literal["paper", "code"]
LOGGED_STEPS = 50  # the authors' code logs the training loss only once in 50 batches
# settings that affect how small a loss can get. They must be the same in the constrained run and in the runs that find
# its bounds
SHARED = (
    "data.", "model.class_path",
    *(f"trainer.{name}" for name in (
        "max_", "min_", "limit_", "overfit_batches", "precision", "strategy", "devices", "num_nodes",
        "use_distributed_sampler", "check_val_every_n_epoch", "val_check_interval", "reload_dataloaders_every_n_epochs",
    )),
    *(f"model.init_args.{name}" for name in (
        "network.", "optimizer.", "warmup_fraction", "decay", "head_lr_factor", "accumulate_grad_batches",
        "gradient_clip_val",
    )),
)  # fmt: skip


class Bounds(NamedTuple):
    """The upper bounds that a constraint sets on one loss, in training and in validation."""

    bound: float
    validation_bound: float


def bound_run(run: RunFolder, name: str, seed: int, bounds_dir: str | None = None) -> RunFolder:
    """Returns the folder of the run that minimizes only the loss `name`, with the given seed.

    The folder does not depend on the seed of `run`, so all runs of an experiment have the same bounds. It lies in
    `bounds_dir`; by default, this is the folder of the experiment with "_bounds" added to its name.

    Example:
        >>> from pathlib import Path
        >>> bound_run(RunFolder(Path("runs/er/seed7")), "guidance", 0).path.as_posix()
        'runs/er_bounds/guidance/seed0'
        >>> bound_run(RunFolder(Path("runs/er_wide/seed7")), "guidance", 0, "runs/er_bounds").path.as_posix()
        'runs/er_bounds/guidance/seed0'
    """
    default = run.experiment_dir.with_name(f"{run.experiment_dir.name}_bounds")
    return RunFolder((Path(bounds_dir) if bounds_dir else default) / name / f"seed{seed}")


def options_of_bound_run(run: RunFolder, name: str, seed: int) -> list[str]:
    """Returns command-line options that turn a constrained run into the run that minimizes only the loss `name`.

    Args:
        run: the folder of the new run, from `bound_run`.
        name: name of the loss.
        seed: seed of the new run.

    Example:
        >>> run = bound_run(RunFolder(Path("runs/er/seed7")), "guidance", 0)
        >>> options_of_bound_run(run, "guidance", 0)[:3]
        ['--runs_dir=runs', '--experiment=er_bounds/guidance', '--seed_everything=0']
    """
    bounds_dir = run.experiment_dir.parent
    return [
        f"--runs_dir={bounds_dir.parent}", f"--experiment={bounds_dir.name}/{name}", f"--seed_everything={seed}",
        f"--model.init_args.only={name}", "--test_after_fit=false",
        "--model.init_args.bound_margin=1.5", "--model.init_args.bounds_dir=null",  # these have no effect there
        f"--checkpoint.monitor={logged_name(name)}", "--checkpoint.mode=min",
    ]  # fmt: skip


def bounds_of_runs(
    runs: Sequence[tuple[str, int, RunFolder]], preset: BoundPreset = "paper", margin: float = 1.5
) -> dict[str, Bounds]:
    """Returns name of a loss -> its bounds, from the last checkpoints of the runs that minimized only this loss.

    Args:
        runs: for each run, the name of its loss, its seed and its folder.
        preset, margin: as in `bounds_from`.

    Raises:
        ValueError: a run is not finished, or as in `bounds_from`.

    Example:
        >>> bounds_of_runs([("guidance", 0, RunFolder(Path("runs/er_bounds/guidance/seed0")))])
        Traceback (most recent call last):
        ValueError: the bound of guidance is 'auto', but the run runs/er_bounds/guidance/seed0, which finds this \
bound, is not finished: use run.py fit, which finishes that run first
    """
    minima: dict[str, list[Mapping[str, float]]] = {}
    for name, _, run in runs:
        if not run.is_finished:
            raise ValueError(
                f"the bound of {name} is 'auto', but the run {run.path}, which finds this bound, is not finished: "
                "use run.py fit, which finishes that run first"
            )
        minima.setdefault(name, []).append(read_checkpoint(str(run.checkpoint("last")))["minima"])
    return {name: bounds_from(found, name, preset, margin) for name, found in minima.items()}


def bounds_from(
    minima: Sequence[Mapping[str, float]], name: str, preset: BoundPreset = "paper", margin: float = 1.5
) -> Bounds:
    """Returns the bounds of a loss, computed from runs that minimized only this loss.

    The bound in training is `margin` times the mean, over these runs, of the smallest training loss. The bound in
    validation is the mean, over these runs, of the smallest validation loss.

    Args:
        minima: for each run, a dictionary of its smallest losses: "train/<name>" -> the smallest mean over a training
            epoch, "val/<name>" -> the smallest mean over the validation split, and "batch/<name>" -> the smallest loss
            of a micro-batch, where only every 50th step counts.
        name: name of the loss.
        preset: which training losses are used. "paper" takes means over epochs. "code" takes losses of single
            micro-batches, as the authors' code does; the bound in training is then smaller.
        margin: factor of the smallest training loss; 1.5 in the paper.

    Raises:
        ValueError: `preset` is "code", but a run has fewer than 50 steps; or `preset` is "paper", but a run has no
            validation at the end of a training epoch.

    Example:
        >>> bounds_from([{"train/igr": 0.2, "val/igr": 0.3}, {"train/igr": 0.4, "val/igr": 0.5}], "igr")
        Bounds(bound=0.45, validation_bound=0.4)
        >>> bounds_from([{"train/igr": 0.2, "batch/igr": 0.1, "val/igr": 0.3}], "igr", "code")
        Bounds(bound=0.15, validation_bound=0.3)

    Reference: Ferreira et al. (2024), "Explanation Regularisation through the Lens of Attributions", arXiv 2407.16693,
        Appendix. The authors' README says that the bounds are means over runs.
    """
    source = "train" if preset == "paper" else "batch"
    if not all(f"{source}/{name}" in found for found in minima):
        if preset == "paper":
            raise ValueError(
                f"a run for the bound of {name} has no loss over a whole training epoch, which `bound_preset: paper` "
                "needs: train for at least one epoch, with a validation at its end"
            )
        raise ValueError(
            f"bound_preset is '{preset}', which uses the loss of every {LOGGED_STEPS}th step, but a run for the bound "
            f"of {name} has fewer steps: set `bound_preset: paper`, or train for more steps"
        )
    train, validation = (sum(found[f"{part}/{name}"] for found in minima) / len(minima) for part in (source, "val"))
    return Bounds(round(margin * train, 12), round(validation, 12))


def check_same_settings(run: RunFolder, other: RunFolder, name: str) -> None:
    """Raises ValueError if a run for a bound differs from `run` in settings that affect the smallest loss.

    Args:
        run: the constrained run.
        other: the run that minimized only the loss `name`.
        name: name of the loss.
    """
    if run.settings is None:  # a dry run writes no manifest, so its settings are not known
        return
    ours, theirs = (_shared(training_settings(part.settings or {}), name) for part in (run, other))
    changed = changed_settings(without_new_options(ours, theirs), without_new_options(theirs, ours))
    if changed:
        shown = ", ".join(changed[:3])
        raise ValueError(
            f"{other.path} found the bound of {name} with other settings ({shown}): choose another "
            f"--experiment (without bounds_dir), or remove the folder {other.experiment_dir}"
        )


def _shared(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the settings that affect the smallest loss `name`, with the callbacks that stop numbered from 0."""
    beginnings = (*SHARED, f"model.init_args.terms.{name}.")
    shared = {key: value for key, value in settings.items() if key.startswith(beginnings)}
    shared.pop("data.init_args.seed", None)
    number = 0
    for position in range(len(settings)):
        prefix = f"trainer.callbacks.{position}."
        if (class_path := settings.get(f"{prefix}class_path")) is None:
            break
        if _can_stop(str(class_path)):
            callback = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
            if str(class_path).endswith(".ConstrainedStopping"):  # runs for a bound do not use these two
                callback = {key: callback[key] for key in callback if not key.endswith((".monitor", "_when_met"))}
            shared |= {f"trainer.callbacks.{number}.{key}": value for key, value in callback.items()}
            number += 1
    return shared


def _can_stop(class_path: str) -> bool:
    """Returns whether a callback can end a training early; False if its class is unknown."""
    try:
        return issubclass(imported_class(class_path, object), EarlyStopping | Timer)
    except ValueError:
        return False
