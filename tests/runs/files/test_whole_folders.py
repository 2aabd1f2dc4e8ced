"""Folders that appear whole or not at all, and work that one of several processes does."""

import errno
import multiprocessing
import os
import platform
import time
from pathlib import Path

import pytest

from lightning_xai.data.corpora.cache import write_corpus
from lightning_xai.data.tables.stored_rows import stored_rows
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.runs.files.whole_folders import remove_remains, set_aside, write_whole_folder
from lightning_xai.runs.locks.shared_work import found_or_made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_error_leaves_no_remains(tmp_path):
    def write(partial):
        (partial / "a").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ValueError, match="corpus cannot be written .No space left on device.: free some space"):
        write_whole_folder(tmp_path / "corpus", write)
    assert names(tmp_path) == []


def test_a_folder_is_for_its_owner_only(tmp_path):
    write_whole_folder(tmp_path / "cache" / "corpus", lambda partial: (partial / "a").write_text("x"))
    assert [(tmp_path / "cache" / name).stat().st_mode & 0o777 for name in ("", "corpus")] == [0o700, 0o700]


def test_who_finds_the_folder_there_keeps_it(tmp_path):
    folder = tmp_path / "corpus"

    def write(partial):
        (partial / "a").write_text("second")
        os.mkdir(folder)
        (folder / "a").write_text("first")

    assert write_whole_folder(folder, write) is False
    assert (folder / "a").read_text() == "first" and names(tmp_path) == ["corpus"]


def test_a_damaged_folder_stays_readable_for_those_that_opened_it(tmp_path):
    folder = tmp_path / "corpus"
    write_whole_folder(folder, lambda partial: (partial / "a").write_text("old"))
    with (folder / "a").open() as reader:
        set_aside(folder)
        assert write_whole_folder(folder, lambda partial: (partial / "a").write_text("new"))
        assert reader.read() == "old" and (folder / "a").read_text() == "new"


def write_one(folder: Path, barrier) -> None:
    barrier.wait()
    write_whole_folder(folder, lambda partial: [(partial / str(i)).write_text(str(os.getpid())) for i in range(20)])


@pytest.mark.slow
def test_processes_without_a_lock_write_one_whole_folder(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    workers = [context.Process(target=write_one, args=(tmp_path / "corpus", barrier)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4 and names(tmp_path) == ["corpus"]
    assert len({(tmp_path / "corpus" / str(i)).read_text() for i in range(20)}) == 1


def make_one(folder: Path, barrier) -> None:
    barrier.wait()

    def make() -> str:
        with (folder / "log").open("a") as log:
            log.write("made\n")
        time.sleep(0.3)
        (folder / "result").write_text("words")
        return "words"

    find = lambda: (folder / "result").read_text() if (folder / "result").exists() else None  # noqa: E731
    assert found_or_made(find, make, folder / "result.lock", waiting="waiting") == "words"


@pytest.mark.slow
def test_one_of_several_processes_does_the_work(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    workers = [context.Process(target=make_one, args=(tmp_path, barrier)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    assert (tmp_path / "log").read_text() == "made\n" and names(tmp_path) == ["log", "result"]


def test_work_that_fails_gives_up_its_lock(tmp_path):
    def fail():
        raise ValueError("no words")

    with pytest.raises(ValueError, match="no words"):
        found_or_made(lambda: None, fail, tmp_path / "a.lock", waiting="waiting")
    assert found_or_made(lambda: None, lambda: 3, tmp_path / "a.lock", waiting="waiting") == 3


def test_a_disk_that_cannot_rename_over_a_file_is_named(tmp_path):
    (tmp_path / "corpus").write_text("a file")
    with pytest.raises(ValueError, match="corpus cannot be written"):
        write_whole_folder(tmp_path / "corpus", lambda partial: None)
    assert names(tmp_path) == ["corpus"]


def test_full_disk_during_an_encoding_is_one_line_and_leaves_no_remains(small_disk):
    rows = [{"text": "w1 w2 w3", "labels": 0, "id": str(i)} for i in range(6000)]
    with pytest.raises(
        ValueError, match="corpus cannot be written .No space left on device.: free some space"
    ) as raised:
        write_corpus(small_disk / "corpus", rows, VocabularyEncoder(words=95))
    assert "\n" not in str(raised.value) and names(small_disk) == []


def test_full_disk_while_a_large_table_is_stored_is_one_line_and_leaves_no_remains(small_disk):
    rows = ({"text": "w1 w2 w3 " * 40, "labels": 0, "id": str(i)} for i in range(20000))
    with pytest.raises(ValueError, match="No space left on device.*free some space") as raised:
        stored_rows(rows, ["text", "labels", "id"], folder=small_disk, in_memory=0)
    assert "\n" not in str(raised.value) and names(small_disk) == []


def test_files_of_killed_processes_are_removed_and_others_are_kept(tmp_path):
    (tmp_path / f"rows-0a1b.{platform.node()}.4194999.partial").write_text("killed")
    (tmp_path / "rows-0a1b.elsewhere.17.partial").write_text("unknown")
    remove_remains(tmp_path)
    assert names(tmp_path) == ["rows-0a1b.elsewhere.17.partial"]
