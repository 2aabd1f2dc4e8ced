"""Tiny runs of the command line: planted data and a random BERT of two layers, everything in a temporary folder."""

import contextlib
import copy
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest
import torch

from lightning_xai.commands.main import main

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[2]
PRELOADED = [
    "lightning_xai.commands.stage_runs",
    "lightning_xai.data.module",
    "lightning_xai.models.plm_ca",
]  # their imports take seconds
COST_COLUMNS = ["forward_passes", "backward_passes", "seconds", "peak_memory_mb"]
BERT: dict[str, Any] = {
    "model_type": "bert", "vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
NETWORK: dict[str, Any] = {
    "class_path": "lightning_xai.models.hf_classifier.HFClassifier",
    "init_args": {"config": BERT, "dropout": 0.1},
}
PLM_CA: dict[str, Any] = {
    "class_path": "lightning_xai.models.plm_ca.PLMCA",
    "init_args": {"config": BERT, "segment_length": 8, "dropout": 0.1},
}


def methods(*names: str) -> dict[str, Any]:
    """Returns a ComputeAttributions with methods named as "file.Class"."""
    prefix = "lightning_xai.attributions"
    chosen = {name.split(".")[0]: {"class_path": f"{prefix}.{name}"} for name in names}
    return {"class_path": "lightning_xai.callbacks.attributions.ComputeAttributions", "init_args": {"methods": chosen}}


METHODS = methods("random.Random", "input_x_gradient.InputXGradient", "att_in_grad.AttInGrad")
ERASER = str(ROOT / "configs" / "presets" / "eraser.yaml")
HEATMAPS = {"class_path": "lightning_xai.callbacks.heatmaps.Heatmaps", "init_args": {"num_documents": 3}}


def planted(**source: Any) -> dict[str, Any]:
    """Returns the data of all tiny runs, with arguments of the source replaced."""
    sizes = {"num_train": 48, "num_validation": 16, "num_test": 7, "words_per_document": [4, 12]}
    return {
        "class_path": "lightning_xai.data.module.TextDataModule",
        "init_args": {
            "source": {"class_path": "lightning_xai.data.sources.planted.Planted", "init_args": sizes | source},
            "encoder": {
                "class_path": "lightning_xai.data.vocabulary.VocabularyEncoder",
                "init_args": {"words": 95, "max_length": 32},
            },
            "batch_size": 8,
        },
    }


def tiny_config(**trainer: Any) -> dict[str, Any]:
    """Returns a supervised run of two epochs with all evaluation callbacks, trainer arguments replaced."""
    defaults = {
        "accelerator": "cpu", "max_epochs": 2, "enable_progress_bar": False, "callbacks": [METHODS, ERASER, HEATMAPS],
    }  # fmt: skip
    return {
        "model": {
            "class_path": "lightning_xai.objectives.supervised.Supervised",
            "init_args": {
                "network": copy.deepcopy(NETWORK),
                "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 5e-3}},
            },
        },
        "data": planted(),
        "trainer": copy.deepcopy(defaults | trainer),
    }


def changed(path: str, value):
    """Returns a change of the setting at a dotted path."""

    def change(config):
        *parents, last = path.split(".")
        for parent in parents:
            config = config[int(parent)] if isinstance(config, list) else config[parent]
        config[last] = value

    return change


def save(config: dict[str, Any], path: Path) -> str:
    """Writes a configuration, JSON being YAML, and returns its path."""
    path.write_text(json.dumps(config))
    return str(path)


def command(*argv: Any) -> str:
    """Runs one command line in this process and returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main([str(argument) for argument in argv])
    return printed.getvalue()


def refusal(*argv: Any) -> str:
    """Returns the line with which a command line refuses to run."""
    with pytest.raises(SystemExit) as caught:
        command(*argv)
    message = str(caught.value.code)
    assert message.startswith("error: ") and "\n" not in message
    return message


def numbers(file: Path) -> pd.DataFrame:
    """Returns a results table without the columns of cost, which differ between runs of the same numbers."""
    hashes = {"checkpoint": str}  # a hash of decimal digits is no number
    return pd.read_csv(file, keep_default_na=False, dtype=hashes).drop(columns=COST_COLUMNS)


def weights(run: Path) -> dict[str, dict[str, torch.Tensor]]:
    """Returns the weights in a run's checkpoints, by the checkpoint's name."""
    files = {name: run / "checkpoints" / f"{name}.ckpt" for name in ("best", "last")}
    return {name: torch.load(file, weights_only=True)["state_dict"] for name, file in files.items()}


class Fitted(NamedTuple):
    """A finished run, which tests must not change: of `tiny_config()`, or `plain`."""

    config: str  # the file it was started with
    runs_dir: Path
    path: Path
    printed: str


@pytest.fixture(scope="session")
def fitted(tmp_path_factory) -> Fitted:
    folder = tmp_path_factory.mktemp("fitted")
    config = save(tiny_config(), folder / "tiny.yaml")
    printed = command("fit", "--config", config, "--runs_dir", folder / "runs")
    return Fitted(config, folder / "runs", folder / "runs" / "tiny" / "seed0", printed)


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> Fitted:
    """A finished run of one epoch without callbacks, which is cheap to test again; tests must not change it."""
    folder = tmp_path_factory.mktemp("plain")
    config = save(tiny_config(max_epochs=1, callbacks=[]), folder / "tiny.yaml")
    printed = command("fit", "--config", config, "--runs_dir", folder / "runs")
    return Fitted(config, folder / "runs", folder / "runs" / "tiny" / "seed0", printed)


@pytest.fixture
def plain_copy(plain, tmp_path) -> Path:
    return Path(shutil.copytree(plain.path, tmp_path / "runs" / "tiny" / "seed0"))


@pytest.fixture
def run_copy(fitted, tmp_path) -> Path:
    """A copy of the finished run in another place, as after moving a folder of runs."""
    return Path(shutil.copytree(fitted.path, tmp_path / "moved" / "tiny" / "seed0"))


@pytest.fixture(scope="session")
def whole_roar(tmp_path_factory) -> tuple[Path, str]:
    """The folder of runs of a ROAR chain that nothing interrupted, and what it printed; tests must not change it."""
    from tests.commands.roar_runs import roar_config  # that file imports this one

    folder = tmp_path_factory.mktemp("whole")
    printed = command("fit", "--config", roar_config(folder), "--runs_dir", folder / "runs")
    return folder / "runs" / "roar", printed
