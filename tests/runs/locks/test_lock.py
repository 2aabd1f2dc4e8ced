"""One owner a folder: who is refused, whose lock is taken over, and that an owner without its lock writes nothing."""

import os
import signal
import time

import numpy as np
import pytest

from lightning_xai.runs.locks.lock import check_owned, release, require_free, take
from lightning_xai.runs.locks.owner import Owner
from lightning_xai.runs.stores.store import RaggedStore, RaggedWriter
from tests.runs.processes import (
    FORK,
    WAIT_SECONDS,
    contained_with_proc,
    contained_without_proc,
    owner_in,
    owner_of,
    pause,
    write_lock,
)


def test_second_owner_is_refused_with_the_first_and_a_remedy(lock_file):
    with owner_of(lock_file) as (process, _):
        with pytest.raises(ValueError) as error:
            take(lock_file)
        first = owner_in(lock_file)
    message = str(error.value)
    assert f"{lock_file.parent} belongs to process {process.pid} on {first.host} since {first.since}" in message
    assert "--experiment" in message and first.command in message and "\n" not in message


def test_lock_is_free_after_its_release(lock_file):
    with owner_of(lock_file) as (_, ask):
        ask("release")
        take(lock_file)
    assert owner_in(lock_file).pid == os.getpid()
    release()
    assert list(lock_file.parent.iterdir()) == []


def test_owner_may_take_its_lock_again(lock_file):
    take(lock_file)
    take(lock_file)
    require_free(lock_file)
    check_owned()


@pytest.mark.parametrize("is_reaped", [True, False], ids=["gone", "zombie"])
def test_lock_of_a_killed_process_does_not_block(lock_file, is_reaped):
    with owner_of(lock_file) as (process, _):
        os.kill(process.pid, signal.SIGKILL)
        if is_reaped:
            process.join()
        else:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        take(lock_file)
    assert owner_in(lock_file).pid == os.getpid()
    assert [path.name for path in lock_file.parent.iterdir()] == ["owner.lock"]


def test_later_process_of_the_same_number_does_not_keep_a_lock(lock_file):
    write_lock(lock_file, started="1")
    take(lock_file)


ELSEWHERE = [{"host": "node2"}, {"boot": "before"}, {"namespace": "pid:[7]"}, {"boot": "", "started": ""}]
IDS = ["machine", "boot", "container of the same host name", "unknown"]


@pytest.mark.parametrize("facts", ELSEWHERE, ids=IDS)
def test_silent_owner_elsewhere_is_taken_over_after_a_wait_that_is_announced(lock_file, facts, capsys):
    write_lock(lock_file, **facts)
    began = time.monotonic()
    take(lock_file, patience=0.3)
    assert time.monotonic() - began >= 0.3
    assert "waiting up to 0 s" in capsys.readouterr().out
    assert owner_in(lock_file).pid == os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("facts", ELSEWHERE, ids=IDS)
def test_owner_elsewhere_that_touches_its_lock_keeps_it(lock_file, facts):
    first = write_lock(lock_file, **facts)

    has_touched = FORK.Event()

    def touch() -> None:
        while True:
            os.utime(lock_file)
            has_touched.set()
            time.sleep(0.05)

    process = FORK.Process(target=touch, daemon=True)
    process.start()
    try:
        assert has_touched.wait(WAIT_SECONDS)
        with pytest.raises(ValueError, match="belongs to process"):
            take(lock_file, patience=20)  # ends at the first touch that it sees
    finally:
        process.kill()
        process.join()
    assert owner_in(lock_file) == first


@pytest.mark.parametrize("contents", ["", "{", '{"pid": 1}', "null"])
def test_incomplete_lock_is_watched_like_one_from_elsewhere(lock_file, contents, capsys):
    lock_file.parent.mkdir()
    lock_file.write_text(contents)
    take(lock_file, patience=0.1)
    assert "another command" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "now", "is_taken"),
    [
        ({"JOB_ID": "7"}, {"JOB_ID": "7", "RESTART_COUNT": "1"}, True),
        ({"JOB_ID": "7", "RESTART_COUNT": "1"}, {"JOB_ID": "7", "RESTART_COUNT": "2"}, True),
        ({"ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "3"}, {"ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "3"}, False),
        (
            {"ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "3"},
            {"ARRAY_JOB_ID": "7", "ARRAY_TASK_ID": "4", "RESTART_COUNT": "1"},
            False,
        ),
        ({"JOB_ID": "7"}, {"JOB_ID": "8", "RESTART_COUNT": "1"}, False),
        ({}, {"RESTART_COUNT": "1"}, False),
    ],
)
def test_only_a_later_start_of_the_same_slurm_task_takes_over_at_once(lock_file, monkeypatch, before, now, is_taken):
    for name, value in before.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    write_lock(lock_file)  # the process of this pid runs, as a requeued one that has not ended yet
    for name, value in now.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    if is_taken:
        take(lock_file)
    else:
        with pytest.raises(ValueError, match="belongs to"):
            take(lock_file)


def test_paused_owner_on_the_same_machine_keeps_its_lock(lock_file):
    with owner_of(lock_file, touch_seconds=0.05) as (process, ask):
        pause(process)
        with pytest.raises(ValueError, match="belongs to"):
            take(lock_file, patience=0.2)
        os.kill(process.pid, signal.SIGCONT)
        assert ask("check") == ""


@pytest.mark.slow
def test_paused_owner_elsewhere_that_wakes_up_writes_nothing(lock_file):
    target = lock_file.parent / "manifest.json"
    with owner_of(lock_file, host="node2", touch_seconds=0.05) as (process, ask):
        assert ask(target) == ""
        pause(process)
        take(lock_file, patience=0.5)
        target.write_text("by the second owner")
        os.kill(process.pid, signal.SIGCONT)
        message = ask(target)
    assert f"{lock_file.parent} belongs to process {os.getpid()}" in message and "ends without writing" in message
    assert target.read_text() == "by the second owner"
    check_owned()


def test_row_of_a_store_is_not_written_after_a_take_over(lock_file, tmp_path, monkeypatch):
    take(lock_file)
    with RaggedWriter(tmp_path / "store") as writer:
        writer.add(0, 0, np.array([1.0]))
        write_lock(lock_file, host="node2")
        later = time.monotonic() + 2
        monkeypatch.setattr(time, "monotonic", lambda: later)  # rows ask once a second
        with pytest.raises(ValueError, match="belongs to process .* on node2"):
            writer.add(1, 0, np.array([2.0]))
    assert RaggedStore(tmp_path / "store").keys() == [(0, 0)]
    release()
    assert owner_in(lock_file).host == "node2"


def test_removed_folder_ends_its_owner(lock_file):
    take(lock_file)
    lock_file.unlink()
    with pytest.raises(ValueError, match="lost its lock"):
        check_owned()


def test_lock_of_a_folder_covers_the_locks_within(lock_file):
    take(lock_file)
    take(lock_file.parent / "attributions" / "owner.lock")
    assert not (lock_file.parent / "attributions").exists()
    take(lock_file.parent.parent / "other" / "owner.lock")
    assert (lock_file.parent.parent / "other" / "owner.lock").exists()


def test_locks_of_two_folders_do_not_block_each_other(lock_file):
    with owner_of(lock_file), owner_of(lock_file.parent / "gradient" / "owner.lock"):
        take(lock_file.parent.parent / "roar" / "owner.lock")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a pid namespace")
@pytest.mark.parametrize("run", [contained_with_proc, contained_without_proc])
def test_two_containers_of_one_host_name_share_a_lock(lock_file, run):
    with owner_of(lock_file, touch_seconds=0.1, run=run):
        first = owner_in(lock_file)
        assert first.host == Owner.of_this_process().host and first.pid == 1  # here, 1 is another process
        with pytest.raises(ValueError, match="belongs to process 1 on"):
            take(lock_file, patience=20)  # ends at the first touch that it sees
    lock_file.write_text(first.to_json())
    take(lock_file, patience=0.2)
