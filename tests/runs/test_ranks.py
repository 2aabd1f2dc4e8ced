"""The number of a process, by whatever has started it."""

import pytest

from lightning_xai.runs.ranks import gather, rank


@pytest.mark.parametrize("name", ["RANK", "LOCAL_RANK", "SLURM_PROCID"])
def test_number_comes_from_the_environment_before_there_is_a_group(monkeypatch, name):
    for other in ("RANK", "LOCAL_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(other, raising=False)
    assert rank() == 0
    monkeypatch.setenv(name, "3")
    assert rank() == 3


def test_global_number_precedes_the_local_one(monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert rank() == 5


def test_one_process_gathers_its_own_value():
    value = {"a": 1}
    assert gather(value) == [value]
