"""Checkpoints are written whole beside their place, and a cut one is named."""

import os
import tempfile

import pytest
import torch

from lightning_xai.runs.files.checkpoint_files import require_whole, save_checkpoint


def test_checkpoint_does_not_pass_through_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    file = tmp_path / "checkpoints" / "last.ckpt"
    save_checkpoint({"weights": torch.ones(3)}, file)
    assert torch.load(file, weights_only=True)["weights"].tolist() == [1, 1, 1]
    assert [path.name for path in file.parent.iterdir()] == ["last.ckpt"]


def test_earlier_checkpoint_stays_on_a_full_disk(small_disk):
    file = small_disk / "last.ckpt"
    save_checkpoint({"weights": torch.ones(10_000)}, file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"last.ckpt cannot be written \(No space left on device\): free some space"):
        save_checkpoint({"weights": torch.ones(60_000)}, file)
    assert file.read_bytes() == before
    assert [path.name for path in small_disk.iterdir()] == ["last.ckpt"]
    with pytest.raises(ValueError, match="No space left"):  # there is no room for two
        save_checkpoint({"weights": torch.ones(56_000)}, file)
    require_whole(file)


def test_file_has_the_same_bytes_whatever_its_name(tmp_path):
    for name in ("last", "best"):
        save_checkpoint({"weights": torch.ones(3)}, tmp_path / f"{name}.ckpt")
    assert (tmp_path / "last.ckpt").read_bytes() == (tmp_path / "best.ckpt").read_bytes()


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_cut_checkpoint_names_itself_and_the_remedy(tmp_path, share):
    file = tmp_path / "last.ckpt"
    save_checkpoint({"weights": torch.ones(1000)}, file)
    require_whole(file)
    size = int(share * file.stat().st_size)
    os.truncate(file, size)
    with pytest.raises(ValueError, match=rf"last.ckpt is incomplete \({size:,} bytes\): remove it and run fit again"):
        require_whole(file)


def test_zeros_after_a_power_cut_are_incomplete(tmp_path):
    (tmp_path / "last.ckpt").write_bytes(bytes(5000))
    with pytest.raises(ValueError, match="is incomplete"):
        require_whole(tmp_path / "last.ckpt")


def test_file_of_another_kind_passes(tmp_path):
    (tmp_path / "text.ckpt").write_text("hello")
    require_whole(tmp_path / "text.ckpt")
