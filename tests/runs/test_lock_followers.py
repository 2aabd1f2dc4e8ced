"""The other processes of a distributed command: which lock they follow, and when they stop."""

import os

import pytest

from lightning_xai.runs.locks.lock import check_owned, follow, release
from lightning_xai.runs.locks.owner import launch_id
from tests.runs.processes import owner_in, owner_of, write_lock


@pytest.fixture
def launched(monkeypatch):
    """Makes this process one of a distributed launch."""
    launch_id.cache_clear()
    monkeypatch.setenv("MASTER_PORT", "29500")
    yield
    launch_id.cache_clear()


@pytest.mark.parametrize("facts", [{"host": "node1"}, {"pid": os.getppid(), "launch": ""}], ids=["launch", "parent"])
def test_other_processes_follow_the_first_of_their_command(lock_file, launched, facts):
    write_lock(lock_file, **facts)
    follow(lock_file)
    check_owned()
    write_lock(lock_file, host="node2", launch="")
    with pytest.raises(ValueError, match="ends without writing"):
        check_owned()
    release()
    assert lock_file.exists()


def test_other_processes_are_refused_like_the_first(lock_file):
    with owner_of(lock_file), pytest.raises(ValueError, match="belongs to process"):
        follow(lock_file)


@pytest.mark.parametrize("facts", [{"started": "1"}, {"host": "node2"}], ids=["ended", "silent"])
def test_other_processes_do_not_wait_for_ever_and_take_nothing(lock_file, facts):
    before = write_lock(lock_file, **facts)
    follow(lock_file, patience=0.2)
    assert owner_in(lock_file) == before
    check_owned()
