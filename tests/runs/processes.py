"""Other processes that own a folder while a test goes on, and lock files as they would write them."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import platform
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from lightning_xai.runs.files.whole_files import write_whole
from lightning_xai.runs.locks.lock import check_owned, release, take
from lightning_xai.runs.locks.owner import Owner

FORK = multiprocessing.get_context("fork")
CANNOT = "cannot"  # answer of a process that may not start a pid namespace
WAIT_SECONDS = 300  # only for a process that never answers; a slow machine needs a part of it


def write_lock(file: Path, **facts) -> Owner:
    """Writes a lock file as another process would; by default, it names this process."""
    owner = replace(Owner.of_this_process(), **facts)
    file.parent.mkdir(exist_ok=True)
    file.write_text(owner.to_json())
    return owner


def owner_in(file: Path) -> Owner:
    owner = Owner.from_json(file.read_bytes())
    assert owner is not None
    return owner


def hold(file: Path, pipe: Connection, host: str | None, touch_seconds: float) -> None:
    """Takes a lock, and then does what the pipe asks for: sends "" after it, or the error's message."""
    if host is not None:
        platform.node = lambda: host  # as on another machine
    take(file, touch_seconds=touch_seconds)
    pipe.send(os.getpid())
    while True:
        asked = pipe.recv()
        try:
            if asked == "check":
                check_owned()
            elif isinstance(asked, Path):
                write_whole(asked, lambda partial: partial.write_text("by the first owner"))
            else:
                release()
            pipe.send("")
        except ValueError as error:
            pipe.send(str(error))


def contained(lock_file: Path, pipe: Connection, host: str | None, touch_seconds: float, *, has_proc: bool) -> None:
    """Holds a lock in a new pid namespace, in which this process has number 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x20000000 | 0x00020000):  # CLONE_NEWPID | CLONE_NEWNS
        pipe.send(CANNOT)
        return
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    libc.prctl(1, signal.SIGKILL)  # ends with its parent
    if has_proc:
        libc.mount(None, b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
        libc.mount(b"proc", b"/proc", b"proc", 0, None)
    hold(lock_file, pipe, host, touch_seconds)


def contained_with_proc(*arguments) -> None:
    contained(*arguments, has_proc=True)


def contained_without_proc(*arguments) -> None:
    contained(*arguments, has_proc=False)


def pause(process: Any) -> None:
    """Stops a child process, and returns when all of its threads stand still."""
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


@contextlib.contextmanager
def owner_of(
    file: Path, *, host: str | None = None, touch_seconds: float = 20.0, run: Callable[..., None] = hold
) -> Iterator[tuple[Any, Callable[[Any], str]]]:
    """Yields a process that owns a lock file, and a function that asks the process for something."""
    here, there = FORK.Pipe()
    process = FORK.Process(target=run, args=(file, there, host, touch_seconds), daemon=True)
    process.start()

    def ask(what: Any) -> str:
        here.send(what)
        assert here.poll(WAIT_SECONDS)
        return here.recv()

    assert here.poll(WAIT_SECONDS)
    is_running = here.recv() != CANNOT
    try:
        if not is_running:
            pytest.skip("this system does not allow a new pid namespace")
        yield process, ask
    finally:
        process.kill()
        process.join()
