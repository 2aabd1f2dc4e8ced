"""Weights of hub ids and folders are found and read in all forms in which transformers saves them."""

import json
import os
from pathlib import Path

import pytest
import torch

from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash, load_trained
from lightning_xai.models.pretrained.weight_files import weight_files
from tests.conftest import tiny_classifier


def save_whole(network, folder: Path) -> None:
    network.save_pretrained(folder)


def save_shards(network, folder: Path) -> None:
    network.save_pretrained(folder, max_shard_size="10KB")


def save_bin(network, folder: Path) -> None:
    network.config.save_pretrained(folder)
    torch.save(network.state_dict(), folder / "pytorch_model.bin")


def save_bin_shards(network, folder: Path) -> None:
    network.config.save_pretrained(folder)
    weights = list(network.state_dict().items())
    files = {"pytorch_model-00001-of-00002.bin": weights[:20], "pytorch_model-00002-of-00002.bin": weights[20:]}
    for name, part in files.items():
        torch.save(dict(part), folder / name)
    index = {"metadata": {}, "weight_map": {key: name for name, part in files.items() for key, _ in part}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))


FORMS = {save_whole: 1, save_shards: 3, save_bin: 1, save_bin_shards: 2}


@pytest.fixture
def network():
    network = tiny_classifier("bert").transformer
    network.config.architectures = [type(network).__name__]
    return network


@pytest.mark.parametrize("save", FORMS)
def test_weights_of_a_hub_id_are_those_of_a_folder(save, network, hub_copy):
    folder = hub_copy("someone/model")
    save(network, folder)
    files = weight_files("someone/model")
    assert files == weight_files(str(folder)) and len(files) >= FORMS[save]
    loaded = load_trained("someone/model").network.state_dict()
    assert all(torch.equal(weight, loaded[f"transformer.{name}"]) for name, weight in network.state_dict().items())
    assert checkpoint_hash("someone/model") == checkpoint_hash(str(folder))


def test_a_hash_follows_every_shard(network, hub_copy):
    folder = hub_copy("someone/model")
    save_bin_shards(network, folder)
    before = checkpoint_hash("someone/model")
    with (folder / "pytorch_model-00002-of-00002.bin").open("ab") as file:
        file.write(b" ")
    assert checkpoint_hash("someone/model") != before


def test_a_missing_shard_is_named(network, hub_copy):
    folder = hub_copy("someone/model")
    save_bin_shards(network, folder)
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(ValueError, match="someone/model: the shard pytorch_model-00002-of-00002.bin is missing"):
        checkpoint_hash("someone/model")
    with pytest.raises(ValueError, match="someone/model: the weights cannot be loaded") as error:
        load_trained("someone/model")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name, message",
    [
        ("someone/else", "someone/else: neither a folder with .safetensors or .bin"),
        ("no/such/folder", "there is no no/such/folder: give a model folder"),
        ("/no/such/folder", "there is no /no/such/folder: give a model folder"),
    ],
)
def test_a_place_without_weights_is_named(name, message, hub_copy):
    with pytest.raises(ValueError, match=f"^{message}"):
        checkpoint_hash(name)


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("place", ["folder", "hub id"])
@pytest.mark.parametrize("form", ["zip", "old"])
def test_pickled_code_in_bin_files_never_runs(form, place, network, hub_copy, tmp_path):
    folder, marker = hub_copy("someone/model"), tmp_path / "ran"
    network.config.save_pretrained(folder)
    torch.save(
        network.state_dict() | {"extra": Attack(str(marker))},
        folder / "pytorch_model.bin",
        _use_new_zipfile_serialization=form == "zip",
    )
    path = str(folder) if place == "folder" else "someone/model"
    with pytest.raises(ValueError, match=f"^{path}: the weights cannot be loaded .*holds pickled code") as error:
        load_trained(path)
    assert "\n" not in str(error.value) and "weights_only" not in str(error.value) and not marker.exists()
