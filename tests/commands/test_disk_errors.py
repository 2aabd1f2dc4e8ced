"""A full or a read-only disk ends a command in one line; with space again, the command ends as if nothing happened."""

import subprocess
import threading

import pytest
import torch

from lightning_xai.commands.disk_errors import one_line_for_disks
from tests.commands.conftest import command, refusal, save, tiny_config, weights
from tests.runs.conftest import mounted  # noqa: F401  # a fixture

FULL = "cannot be written (No space left on device): free some space and run this again; earlier files are kept"


@pytest.mark.slow
def test_run_on_a_disk_that_was_full_and_read_only_has_the_weights_of_another_run(mounted, fitted, tmp_path):  # noqa: F811
    disk = mounted("size=360k")  # has space for two checkpoints, but not for a part of the next
    argv = ["fit", "--config", save(tiny_config(callbacks=[]), tmp_path / "tiny.yaml"), "--runs_dir", disk / "runs"]
    run = disk / "runs" / "tiny" / "seed0"
    message = refusal(*argv)
    assert message.endswith(FULL) and "checkpoints/" in message
    assert {file.name for file in (run / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    assert torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["epoch"] == 0

    subprocess.run(["mount", "-o", "remount,ro,size=2m", disk], check=True)
    assert "owner.lock cannot be written (Read-only file system)" in refusal(*argv)

    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
    assert "resuming from last.ckpt" in command(*argv)
    for name, tensors in weights(fitted.path).items():
        assert all(torch.equal(weights(run)[name][key], tensor) for key, tensor in tensors.items())
    assert not list(disk.rglob("*.partial")) and not list(disk.rglob("*.lock"))


def test_thread_that_meets_a_full_disk_prints_no_traceback(monkeypatch):
    printed: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda raised: printed.append(raised.exc_value))

    def write(error: Exception) -> None:
        raise error

    full, other = OSError(28, "No space left on device"), KeyError("lr")
    with one_line_for_disks():
        for error in (full, other):
            thread = threading.Thread(target=write, args=(error,))
            thread.start()
            thread.join()
    assert printed == [other]


def test_other_errors_keep_their_type():
    with pytest.raises(RuntimeError, match="shapes"), one_line_for_disks():
        raise RuntimeError("shapes differ")
