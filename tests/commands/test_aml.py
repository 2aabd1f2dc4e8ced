"""AML from the command line: a fit, its test with pAML and fAML, explain, refusals, two processes."""

import copy
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertModel

from lightning_xai.models.checkpoints.checkpoint import load_trained, read_checkpoint
from lightning_xai.runs.fingerprint import weights_hash
from tests.commands.conftest import BERT, ERASER, NETWORK, command, numbers, planted, refusal, save
from tests.commands.test_processes import TWO, run_ranks
from tests.functional.text.test_alignment import byte_level

pytestmark = pytest.mark.slow

COMP: dict[str, Any] = {
    "class_path": "lightning_xai.metrics.faithfulness.Comprehensiveness",
    "init_args": {"sizes": {"percentages": [20, 50], "rounding": "floor"}, "explained": "predicted"},
}


def attribution(**arguments: Any) -> dict[str, Any]:
    return {"class_path": "lightning_xai.attributions.aml.AMLAttribution", "init_args": {"scorer": None} | arguments}


def aml_config(trained: Path, **model: Any) -> dict[str, Any]:
    network = copy.deepcopy(NETWORK)
    network["init_args"]["dropout"] = 0.0
    methods = {"paml": attribution(), "faml": attribution(num_steps=2, lr=0.01, metric=COMP)}
    explaining = {
        "class_path": "lightning_xai.callbacks.attributions.ComputeAttributions",
        "init_args": {"methods": methods, "targets": "predicted"},
    }
    return {
        "model": {
            "class_path": "lightning_xai.objectives.aml.AML",
            "init_args": {"network": network, "explained": str(trained), "metric": COMP} | model,
        },
        "data": planted(),
        "checkpoint": {"monitor": "val/aml/comprehensiveness", "mode": "max"},
        "trainer": {
            "accelerator": "cpu", "max_epochs": 1, "val_check_interval": 0.5, "enable_progress_bar": False,
            "callbacks": [explaining, ERASER],
        },
    }  # fmt: skip


def test_a_run_explains_its_network_and_says_what_chose_the_scores(fitted, tmp_path):
    config = save(aml_config(fitted.path), tmp_path / "aml.yaml")
    printed = command("fit", "--config", config, "--runs_dir", tmp_path / "runs")
    run = tmp_path / "runs" / "aml" / "seed0"
    results = pd.read_parquet(run / "results.parquet")
    chosen = results[results["preset"] == "eraser"].groupby("method")["selected_on"].unique()
    assert {name: list(values) for name, values in chosen.items()} == {
        "paml": ["validation:comprehensiveness"],
        "faml": ["comprehensiveness"],
    }
    assert "selected on comprehensiveness: faml" in printed
    (kept,) = re.findall(r"faml: tuning steps that gave the best scores \(number of explanations\): (.*)", printed)
    assert sum(map(int, re.findall(r"\((\d+)\)", kept))) == 7 + 16  # a metric tunes on validation
    assert weights_hash(load_trained(str(run)).network) == weights_hash(load_trained(str(fitted.path)).network)

    before = numbers(run / "results.csv")
    command("test", "--config", run / "config.yaml")
    pd.testing.assert_frame_equal(numbers(run / "results.csv"), before)

    method = f'{{"class_path": "lightning_xai.attributions.aml.AMLAttribution", "init_args": {{"scorer": "{run}"}}}}'
    page = tmp_path / "explain.html"
    explained = command("explain", "--ckpt", fitted.path, "--text", "w1 w2 w3", "--method", method, "--html", page)
    assert "AMLAttribution" in explained and page.exists()


def test_a_checkpoint_that_another_metric_chooses_is_refused(fitted, tmp_path):
    config = aml_config(fitted.path)
    config["checkpoint"] = {"monitor": "val/accuracy", "mode": "max"}
    line = refusal("fit", "--config", save(config, tmp_path / "aml.yaml"), "--runs_dir", tmp_path / "runs")
    assert "set monitor to val/aml/comprehensiveness and mode to max" in line


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"loss": {"kept_weight": -1.0}}, "kept_weight is -1.0: give a factor of at least 0"),
        ({"explained": "nowhere"}, "explained nowhere does not exist"),
        ({"metric": {"class_path": "lightning_xai.metrics.plausibility.EvidenceOverlap"}}, "reads gold labels"),
    ],
)
def test_settings_are_refused_in_one_line(model, message, plain, tmp_path):
    config = aml_config(plain.path, **model)
    config["trainer"]["callbacks"] = []  # the refusals need none, and reading them takes most of the time
    argv = ["--config", save(config, tmp_path / "aml.yaml"), "--runs_dir", tmp_path / "runs"]
    assert message in refusal("fit", *argv)


def test_a_network_that_errs_is_explained_for_the_classes_that_it_predicts(fitted, tmp_path):
    checkpoint = read_checkpoint(str(fitted.path))
    checkpoint["state_dict"]["network.transformer.classifier.bias"] += torch.tensor([100.0, 0.0])
    torch.save(checkpoint, tmp_path / "biased.ckpt")  # predicts class 0 for every text
    config = aml_config(tmp_path / "biased.ckpt")
    argv = ["--config", save(config, tmp_path / "aml.yaml"), "--runs_dir", tmp_path / "runs"]
    command("fit", *argv)
    config["trainer"]["callbacks"][0]["init_args"]["targets"] = "gold_or_predicted"
    argv = ["--config", save(config, tmp_path / "gold.yaml"), "--runs_dir", tmp_path / "runs"]
    assert "targets is gold_or_predicted, but the scorer explains only the predicted class" in refusal("fit", *argv)


def test_a_file_that_is_to_train_the_network_must_train_one(plain, tmp_path):
    (tmp_path / "first.yaml").write_text("seed_everything: 0\n")
    config = aml_config(plain.path, explained=str(tmp_path / "first.yaml"))
    config["trainer"]["callbacks"] = []
    line = refusal("fit", "--config", save(config, tmp_path / "aml.yaml"), "--runs_dir", tmp_path / "runs")
    assert "set `model` in" in line and "first.yaml to an objective that trains the network" in line


def test_a_run_on_two_processes_has_the_numbers_of_one(fitted, tmp_path):
    config = save(aml_config(fitted.path), tmp_path / "aml.yaml")
    argv = ["fit", "--config", config, "--runs_dir", tmp_path / "runs", "--trainer.max_epochs", "1", *TWO]
    codes, outputs = run_ranks(*argv, folder=tmp_path)
    assert codes == [0, 0], outputs
    run = tmp_path / "runs" / "aml" / "seed0"
    two = numbers(run / "results.csv")
    command("test", "--config", run / "config.yaml", "--trainer.devices", "1", "--trainer.strategy", "auto")
    pd.testing.assert_frame_equal(numbers(run / "results.csv"), two, rtol=1e-4, atol=1e-5)


def test_a_scorer_with_a_tokenizer_of_its_own(fitted, tmp_path):
    folder = tmp_path / "scorer"
    BertModel(BertConfig(**(BERT | {"vocab_size": 320}))).save_pretrained(folder)
    byte_level().tokenizer.save_pretrained(folder)
    config = aml_config(fitted.path, scorer={"path": str(folder), "align": "max"})
    run = tmp_path / "runs" / "aml" / "seed0"
    command("fit", "--config", save(config, tmp_path / "aml.yaml"), "--runs_dir", tmp_path / "runs")
    results = pd.read_parquet(run / "results.parquet")
    assert set(results[results["preset"] == "eraser"]["method"]) == {"paml", "faml"}
    method = f'{{"class_path": "lightning_xai.attributions.aml.AMLAttribution", "init_args": {{"scorer": "{run}"}}}}'
    explained = command("explain", "--ckpt", fitted.path, "--text", "w1 w2 w3", "--method", method)
    assert "AMLAttribution" in explained
    config["model"]["init_args"]["scorer"]["align"] = "none"
    argv = ["--config", save(config, tmp_path / "equal.yaml"), "--runs_dir", tmp_path / "runs"]
    assert "tokenizer" in refusal("fit", *argv)
