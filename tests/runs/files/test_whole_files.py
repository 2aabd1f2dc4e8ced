"""Files are whole at every moment, also on disks that are full, read-only or of another user."""

import errno
import os
import platform
from pathlib import Path

import pytest

from lightning_xai.runs.files.disk import disk_message
from lightning_xai.runs.files.whole_files import partial_file, remove_partial_files, write_json, write_whole
from lightning_xai.runs.locks.lock import release, take

FULL = r"manifest.json cannot be written \(No space left on device\): free some space and run this again"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_full_disk_is_one_line_and_leaves_the_earlier_file(small_disk):
    file = small_disk / "manifest.json"
    write_json(file, {"status": "running"})
    before = file.read_bytes()
    with pytest.raises(ValueError, match=FULL) as error:
        write_json(file, {"status": "x" * 300_000})
    assert "\n" not in str(error.value)
    assert file.read_bytes() == before and names(small_disk) == ["manifest.json"]
    write_json(file, {"status": "finished"})
    assert "finished" in file.read_text()


def test_read_only_disk_is_one_line_and_leaves_the_earlier_file(small_disk, make_read_only):
    file = small_disk / "manifest.json"
    write_json(file, {"status": "running"})
    make_read_only(small_disk)
    with pytest.raises(ValueError, match=r"cannot be written \(Read-only file system\): choose a folder"):
        write_json(file, {"status": "finished"})
    with pytest.raises(ValueError, match=r"cannot be written \(Read-only file system\)"):
        take(small_disk / "owner.lock")
    assert "running" in file.read_text()


def test_folder_of_another_user_is_one_line(as_nobody, readable_folder):
    write_json(readable_folder / "manifest.json", {"status": "running"})
    message = as_nobody(lambda folder: write_json(folder / "manifest.json", {}), readable_folder)
    assert "manifest.json cannot be written (Permission denied): choose a folder that you may write to" in message
    message = as_nobody(lambda folder: take(folder / "owner.lock"), readable_folder)
    assert "owner.lock cannot be written (Permission denied)" in message
    assert names(readable_folder) == ["manifest.json"]


def test_full_disk_leaves_no_lock(small_disk):
    (small_disk / "filling").write_bytes(bytes(256 * 1024))
    with pytest.raises(ValueError, match="No space left"):
        take(small_disk / "owner.lock")
    assert names(small_disk) == ["filling"]
    (small_disk / "filling").unlink()
    take(small_disk / "owner.lock")
    release()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_interrupted_write_leaves_the_earlier_file_only(tmp_path, error):
    file = tmp_path / "table.csv"
    write_whole(file, lambda partial: partial.write_text("old"))

    def write(partial):
        partial.write_text("ne")
        raise error

    with pytest.raises(error):
        write_whole(file, write)
    assert file.read_text() == "old" and names(tmp_path) == ["table.csv"]


def test_only_partial_files_of_ended_processes_are_removed(tmp_path):
    host, parent = platform.node(), os.getppid()
    living = [partial_file(tmp_path / "last.ckpt").name, f"best.ckpt.{host}.{parent}.partial"]
    ended = [f"best.ckpt.{host}.4194305.partial", f"a.json.node2.{parent}.partial", f"manifest.json.{parent}.partial"]
    for name in [*living, *ended, "last.ckpt"]:
        (tmp_path / name).touch()
    remove_partial_files(tmp_path)
    assert names(tmp_path) == sorted([*living, "last.ckpt"])


@pytest.mark.parametrize("name", ["runs/events.out", b"runs/events.out"])
def test_file_that_an_error_names_is_named(name):
    message = disk_message(PermissionError(errno.EACCES, "Permission denied", name))
    assert message is not None and message.startswith("runs/events.out cannot be written (Permission denied): ")


def test_contents_are_on_the_disk_before_the_rename_and_the_name_after_it(tmp_path, monkeypatch):
    file, replace = tmp_path / "last.ckpt", Path.replace
    done: list[str] = []

    def renamed(partial: Path, target: Path) -> Path:
        done.append("renamed")
        return replace(partial, target)

    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.readlink(f"/proc/self/fd/{handle}")))
    monkeypatch.setattr(Path, "replace", renamed)
    write_whole(file, lambda partial: partial.write_text("weights"))
    assert done == [str(partial_file(file)), "renamed", str(tmp_path)]
