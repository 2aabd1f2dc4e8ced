"""The environment of runs in SLURM jobs."""

from __future__ import annotations

from lightning.pytorch.plugins.environments import SLURMEnvironment, TorchElasticEnvironment


def slurm_environment() -> SLURMEnvironment | None:
    """Returns a SLURM environment that does not handle signals, or None if SLURM did not start the processes.

    Lightning would save a checkpoint in mid-epoch on a signal, and the resumed run would see some batches twice.
    Instead, the scripts in `slurm/` requeue the job, and the run continues after its last finished epoch.

    Example:
        >>> import os
        >>> slurm_environment() is None or "SLURM_NTASKS" in os.environ
        True
    """
    started = SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
    return SLURMEnvironment(auto_requeue=False) if started else None
