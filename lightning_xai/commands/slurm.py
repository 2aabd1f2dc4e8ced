"""Runs in jobs of SLURM."""

from __future__ import annotations

from lightning.pytorch.plugins.environments import SLURMEnvironment, TorchElasticEnvironment


def slurm_environment() -> SLURMEnvironment | None:
    """Returns SLURM's environment without Lightning's handling of its signals, or None if SLURM starts no processes.

    Lightning would save a checkpoint within an epoch, and the resumed run would see some batches twice. The scripts in
    `slurm/` requeue the job instead, and the run goes on from the end of its last epoch.

    Example:
        >>> import os
        >>> slurm_environment() is None or "SLURM_NTASKS" in os.environ
        True
    """
    started = SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
    return SLURMEnvironment(auto_requeue=False) if started else None
