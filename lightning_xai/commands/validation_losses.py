"""Reads the validation losses at a run's best checkpoint from TensorBoard files."""

from __future__ import annotations

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_xai.models.checkpoints.loading import read_tensors
from lightning_xai.runs.folder import RunFolder


def best_validation_losses(run: RunFolder, names: tuple[str, ...]) -> dict[str, float] | None:
    """Returns name -> value of val/<name> that a run logged at its best checkpoint; None if it has no best checkpoint.

    Args:
        run: a run that was trained with a TensorBoard logger.
        names: names of losses, such as "log_loss" and the name of a term.

    Raises:
        ValueError: the best checkpoint is damaged, the run did not log one of the losses in validation, or up to its
            best checkpoint, it never logged all of them at the same step.

    Example:
        >>> from pathlib import Path
        >>> print(best_validation_losses(RunFolder(Path("runs/none")), ("log_loss",)))
        None
    """
    file = run.checkpoint("best")
    if file is None:
        return None
    checkpoint = read_tensors(file, mmap=True)
    # Lightning logs a value under the number of training batches so far, `_batches_that_stepped` (batches over which
    # Lightning accumulates gradients count as one). `global_step` counts the optimizer's steps, and is smaller if the
    # objective accumulates gradients itself
    counters = checkpoint.get("loops", {}).get("fit_loop", {}).get("epoch_loop.state_dict", {})
    step = counters.get("_batches_that_stepped", checkpoint["global_step"])
    events = EventAccumulator(str(run.path), size_guidance={"scalars": 0})
    events.Reload()
    logged = set(events.Tags()["scalars"])
    values: list[dict[int, float]] = []  # for each loss: step -> value
    for name in names:
        scalars = events.Scalars(f"val/{name}") if f"val/{name}" in logged else []
        if not scalars:
            raise ValueError(
                f"{run.path} logged no val/{name}: train this run with a logger and with the term (`validate: true`, "
                "and `weight: 0` if the term must not affect training)"
            )
        values.append({event.step: event.value for event in reversed(scalars) if event.step <= step})
    # a later test also logs val/log_loss, perhaps on other data, but no losses of terms. So only steps at which all
    # losses were logged are used
    common = set.intersection(*map(set, values))
    if not common:
        raise ValueError(
            f"{run.path} never logged {', '.join(names)} at the same step up to its best checkpoint: train it again"
        )
    return {name: value[max(common)] for name, value in zip(names, values, strict=True)}
