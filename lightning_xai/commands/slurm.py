"""What a run under SLURM does differently."""

from __future__ import annotations

from lightning.pytorch.plugins.environments import SLURMEnvironment, TorchElasticEnvironment


def slurm_environment() -> SLURMEnvironment | None:
    """Returns SLURM's environment without Lightning's answer to its signals, or None if others start the processes.

    That answer saves a checkpoint within an epoch, from which a run goes on with batches that it has had already. The
    scripts in `slurm/` requeue a job instead, which goes on from the end of its last epoch.
    """
    started = SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
    return SLURMEnvironment(auto_requeue=False) if started else None
