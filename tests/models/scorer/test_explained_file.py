"""The network that an AML run explains is found by its hash, also after both were moved together."""

import hashlib
import shutil

import pytest

from lightning_xai.models.scorer.explained_file import explained_path


def hash_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@pytest.fixture
def facts(tmp_path):
    """Facts of the run runs/aml/seed0, which explains runs/f.ckpt."""
    checkpoint = tmp_path / "runs" / "aml" / "seed0" / "checkpoints" / "best.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    file = tmp_path / "runs" / "f.ckpt"
    file.write_bytes(b"weights")
    return {"path": str(file), "hash": hash_of(str(file)), "relative": "../../f.ckpt"}


def test_runs_that_were_moved_together_find_each_other(tmp_path, facts):
    shutil.move(tmp_path / "runs", tmp_path / "moved")
    run = tmp_path / "moved" / "aml" / "seed0"
    for place in (run, run / "checkpoints" / "best.ckpt"):
        assert hash_of(explained_path(facts, str(place), hash_of)) == facts["hash"]


def test_another_file_at_the_relative_path_is_not_taken(tmp_path, facts):
    shutil.move(tmp_path / "runs", tmp_path / "moved")
    (tmp_path / "moved" / "f.ckpt").write_bytes(b"other weights")
    with pytest.raises(ValueError, match="which is gone: restore this file"):
        explained_path(facts, str(tmp_path / "moved" / "aml" / "seed0"), hash_of)


def test_a_run_alone_that_was_moved_still_finds_the_network(tmp_path, facts):
    shutil.move(tmp_path / "runs" / "aml", tmp_path / "elsewhere")
    assert explained_path(facts, str(tmp_path / "elsewhere" / "seed0"), hash_of) == facts["path"]
