"""Hashes of contents: remembered by the state of the files, and computed again if the state changes."""

import os

import pytest

from lightning_xai.data.corpora.file_hashes import FileHashes
from lightning_xai.functional.model_files.file_digest import sha256_of

OLD = 1_600_000_000


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data" / "docs").mkdir(parents=True)
    for name in ("a.txt", "docs/b.txt"):
        (tmp_path / "data" / name).write_text(name)
        os.utime(tmp_path / "data" / name, (OLD, OLD))
    return tmp_path


def test_the_hash_of_a_file_is_that_of_its_contents(folder):
    file = folder / "data" / "a.txt"
    assert FileHashes(folder / "hashes").of(file) == sha256_of(file)


def test_a_folder_is_remembered_as_one_and_changes_with_names_and_contents(folder):
    hashes = FileHashes(folder / "hashes")
    first = hashes.of(folder / "data")
    assert hashes.of(folder / "data") == first and len(list((folder / "hashes").iterdir())) == 1
    (folder / "data" / "a.txt").rename(folder / "data" / "c.txt")
    renamed = hashes.of(folder / "data")
    (folder / "data" / "c.txt").write_text("other")
    assert len({first, renamed, hashes.of(folder / "data")}) == 3


def test_a_remembered_content_is_not_read_again_unless_it_is_verified(folder):
    file = folder / "data" / "a.txt"
    first = FileHashes(folder / "hashes").of(file)
    file.write_text("A.TXT")
    os.utime(file, (OLD, OLD))  # the same size, inode and time
    assert FileHashes(folder / "hashes").of(file) == first
    assert FileHashes(folder / "hashes", verify=True).of(file) == sha256_of(file) != first


def test_a_file_that_has_just_changed_is_not_remembered(folder):
    file = folder / "data" / "new.txt"
    file.write_text("new")
    FileHashes(folder / "hashes").of(file)
    assert not (folder / "hashes").exists()


def test_damaged_memory_is_replaced(folder):
    hashes, file = FileHashes(folder / "hashes"), folder / "data" / "a.txt"
    first = hashes.of(file)
    next((folder / "hashes").iterdir()).write_text("{")
    assert hashes.of(file) == first == hashes.of(file)


def test_a_missing_file_has_no_hash(folder):
    assert FileHashes(folder / "hashes").of(folder / "none") == ""
