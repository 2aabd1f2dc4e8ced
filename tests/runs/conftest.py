"""Real disks that are full or read-only, a user who may not write, and the lock file of a folder."""

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_xai.runs.locks.lock import release
from tests.runs.processes import FORK

NOBODY = 65534


@pytest.fixture
def mounted(tmp_path):
    """Returns a function that mounts a disk in memory with the given options."""
    mounts: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"disk{len(mounts)}"
        folder.mkdir()
        found = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True)
        if found.returncode:
            pytest.skip(f"this user may not mount a disk: {found.stderr.strip()}")
        mounts.append(folder)
        return folder

    yield mount
    for folder in mounts:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def small_disk(mounted) -> Path:
    """A disk of 256 KiB."""
    return mounted("size=256k")


@pytest.fixture
def make_read_only(mounted) -> Callable[[Path], object]:
    """Returns a function that makes a mounted disk read-only."""
    return lambda disk: subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


@pytest.fixture
def as_nobody():
    """Returns a function that runs another one as an unprivileged user and returns the message of its ValueError."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")

    def run(action: Callable[[Path], object], folder: Path) -> str:
        here, there = FORK.Pipe()

        def child() -> None:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                action(folder)
                there.send("")
            except ValueError as error:
                there.send(str(error))

        process = FORK.Process(target=child)
        process.start()
        process.join()
        return here.recv()

    return run


@pytest.fixture
def readable_folder() -> Path:
    """A folder that every user may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    return folder


@pytest.fixture
def lock_file(tmp_path):
    """Path of a lock file in a folder that does not exist yet; a lock taken there is released in the end."""
    yield tmp_path / "run" / "owner.lock"
    release()
