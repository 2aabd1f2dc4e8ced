"""How processes that SLURM or torchrun has started find each other."""

import pytest
from lightning.pytorch.plugins.environments import LightningEnvironment, SLURMEnvironment
from lightning.pytorch.plugins.io import AsyncCheckpointIO

from lightning_xai.commands.slurm import plugins_of_job, slurm_environment

SLURM = {"NTASKS": "1", "JOB_NAME": "train", "JOB_ID": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0"}


@pytest.fixture
def job(monkeypatch):
    """A process of a SLURM job."""
    for name, value in SLURM.items():
        monkeypatch.setenv(f"SLURM_{name}", value)


def test_no_environment_outside_a_job(monkeypatch):
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    assert slurm_environment() is None


def test_job_is_not_requeued_by_lightning(job):
    environment = slurm_environment()
    assert environment is not None and not environment.auto_requeue


def test_processes_of_torchrun_within_a_job_are_left_to_it(job, monkeypatch):
    for name in ("RANK", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "0")
    assert slurm_environment() is None


@pytest.mark.parametrize("given", [None, [], AsyncCheckpointIO(), [AsyncCheckpointIO()]])
def test_given_plugins_keep_the_environment_that_does_not_requeue(job, given):
    plugins = plugins_of_job(given)
    assert plugins is not None
    *others, environment = plugins
    assert isinstance(environment, SLURMEnvironment) and not environment.auto_requeue
    assert others == (given if isinstance(given, list) else [given] if given else [])


@pytest.mark.parametrize("given", [LightningEnvironment(), SLURMEnvironment(auto_requeue=True)])
def test_environment_that_the_user_gives_stays_alone(job, given):
    assert plugins_of_job([given]) == [given]


def test_no_plugins_outside_a_job(monkeypatch):
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    assert plugins_of_job(None) is None
