"""Newcomers at a stale lock: the claim of the one that may remove it, and what ends a wait for that claim."""

import errno
import os
import time
from pathlib import Path

import pytest

from lightning_xai.runs.locks.lock import _claim, _remove, check_owned, release, take
from lightning_xai.runs.locks.owner import Owner
from tests.runs.processes import FORK, owner_in, write_lock


def compete(lock_file: Path, barrier, results) -> None:
    for round_number in range(ROUNDS):
        barrier.wait()
        try:
            take(lock_file)
            results.put((round_number, "won"))
        except ValueError:
            results.put((round_number, "refused"))
        barrier.wait()
        try:
            check_owned()
        except ValueError:
            results.put((round_number, "lost"))
        release()
        barrier.wait()
        if lock_file.exists():
            results.put((round_number, "left"))
        barrier.wait()
        write_lock(lock_file, started="1")


ROUNDS = 25


@pytest.mark.slow
def test_of_several_newcomers_at_one_stale_lock_one_wins(lock_file):
    write_lock(lock_file, started="1")
    barrier, results = FORK.Barrier(4), FORK.SimpleQueue()
    processes = [FORK.Process(target=compete, args=(lock_file, barrier, results)) for _ in range(4)]
    for process in processes:
        process.start()
    found = [results.get() for _ in range(4 * ROUNDS)]
    for process in processes:
        process.join()
    assert results.empty()
    for round_number in range(ROUNDS):
        outcomes = sorted(outcome for number, outcome in found if number == round_number)
        assert outcomes == ["refused", "refused", "refused", "won"]


def test_newcomer_that_is_late_does_not_touch_the_lock_of_a_faster_one(lock_file):
    stale = write_lock(lock_file, started="1")
    take(lock_file)
    before = lock_file.stat()
    assert _remove(lock_file, stale.to_json().encode(), Owner.of_this_process())
    assert (lock_file.stat().st_ino, lock_file.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)
    check_owned()


def test_newcomer_waits_for_the_one_that_removes_a_stale_lock(lock_file):
    stale = write_lock(lock_file, started="1")
    claim = _claim(lock_file, stale.to_json().encode())
    write_lock(claim)  # by this process, which runs

    def remove() -> None:
        time.sleep(0.2)
        assert owner_in(lock_file) == stale
        lock_file.unlink()
        claim.unlink()

    process = FORK.Process(target=remove, daemon=True)
    process.start()
    take(lock_file)
    process.join()
    assert process.exitcode == 0
    check_owned()


def test_newcomer_gives_up_if_the_one_that_removes_a_stale_lock_never_ends(lock_file):
    claim = _claim(lock_file, write_lock(lock_file, started="1").to_json().encode())
    write_lock(claim)  # by this process, which runs
    with pytest.raises(ValueError, match=f"^{lock_file.parent} belongs to process"):
        take(lock_file, patience=0.1)


def test_claim_is_given_up_if_the_stale_lock_cannot_be_removed(lock_file, monkeypatch):
    write_lock(lock_file, started="1")
    unlink = Path.unlink

    def refuse(file: Path, *arguments: bool, **options: bool) -> None:
        if file == lock_file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        unlink(file, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(ValueError, match="owner.lock"):
            take(lock_file)
    assert [path.name for path in lock_file.parent.iterdir()] == ["owner.lock"]
    take(lock_file)


@pytest.mark.parametrize("num_killed", [1, 2])
def test_newcomer_that_was_killed_while_it_removed_a_stale_lock_does_not_block(lock_file, num_killed):
    file = lock_file
    for _ in range(num_killed):
        file = _claim(file, write_lock(file, started="1").to_json().encode())
    write_lock(file, started="1")
    take(lock_file)
    assert [path.name for path in lock_file.parent.iterdir()] == ["owner.lock"]
