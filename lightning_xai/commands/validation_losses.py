"""The validation losses of a run's best checkpoint, which TensorBoard's files hold."""

from __future__ import annotations

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_xai.runs.folder import RunFolder


def best_validation_losses(run: RunFolder, names: tuple[str, ...]) -> dict[str, float] | None:
    """Returns name -> val/<name> at the step of the run's best checkpoint; None if the run has no best checkpoint.

    Args:
        run: a run that was trained with a TensorBoard logger.
        names: names of losses, such as "log_loss" and the name of a term.

    Raises:
        ValueError: the run did not log one of the losses in validation.

    Example:
        >>> from pathlib import Path
        >>> print(best_validation_losses(RunFolder(Path("runs/none")), ("log_loss",)))
        None
    """
    file = run.checkpoint("best")
    if file is None:
        return None
    step = torch.load(file, map_location="cpu", weights_only=True, mmap=True)["global_step"]
    events = EventAccumulator(str(run.path), size_guidance={"scalars": 0})
    events.Reload()
    logged = set(events.Tags()["scalars"])
    values = {}
    for name in names:
        # validation numbers are logged one step before the checkpoint's, or at its step
        earlier = [e.value for e in events.Scalars(f"val/{name}") if e.step <= step] if f"val/{name}" in logged else []
        if not earlier:
            raise ValueError(
                f"{run.path} logged no val/{name}: train it with a logger and with the term (weight 0 for none, and "
                "validate: true)"
            )
        values[name] = earlier[-1]
    return values
