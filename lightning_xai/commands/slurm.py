"""Sets up Lightning for runs in SLURM jobs."""

from __future__ import annotations

from typing import Any

from lightning.fabric.plugins import ClusterEnvironment
from lightning.pytorch.plugins.environments import SLURMEnvironment, TorchElasticEnvironment


def slurm_environment() -> SLURMEnvironment | None:
    """Returns Lightning's SLURM environment without its handling of signals; None if SLURM did not start the processes.

    On a signal, Lightning would save a checkpoint in the middle of an epoch, and the resumed run would see some batches
    twice. Instead, the scripts in `slurm/` requeue the job, and the run continues after its last finished epoch.

    Example:
        >>> import os
        >>> slurm_environment() is None or "SLURM_NTASKS" in os.environ
        True
    """
    started = SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
    return SLURMEnvironment(auto_requeue=False) if started else None


def plugins_of_job(given: Any) -> list[Any] | None:
    """Returns the user's plugins and, in a SLURM job, a SLURM environment unless the user gives a cluster environment.

    Returns None if there are no plugins.

    Args:
        given: the user's plugins: None, one plugin, or a list.

    Example:
        >>> from lightning.pytorch.plugins.environments import LightningEnvironment
        >>> [type(plugin).__name__ for plugin in plugins_of_job(LightningEnvironment())]
        ['LightningEnvironment']
    """
    plugins = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    environment = slurm_environment()
    if environment is not None and not any(isinstance(plugin, ClusterEnvironment) for plugin in plugins):
        plugins.append(environment)
    return plugins or None
