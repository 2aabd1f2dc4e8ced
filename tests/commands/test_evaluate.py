"""Trained networks of any origin are explained and measured without training."""

import pandas as pd
import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash
from tests.commands.conftest import (
    BERT,
    ERASER,
    HEATMAPS,
    METHODS,
    PLM_CA,
    command,
    numbers,
    planted,
    refusal,
    save,
    tiny_config,
)

pytestmark = pytest.mark.slow


def evaluate(path, tmp_path, data=None, callbacks=(METHODS, ERASER)) -> pd.DataFrame:
    """Returns the results of evaluating the network at `path`, with values by split, preset, method and metric."""
    config = {"data": data or planted(), "trainer": tiny_config(callbacks=list(callbacks))["trainer"]}
    argv = ["--config", "evaluate.yaml", "--config", save(config, tmp_path / "here.yaml"), "--experiment", "measured"]
    command("test", *argv, "--model.init_args.path", path, "--runs_dir", tmp_path / "runs")
    return numbers(tmp_path / "runs" / "measured" / "seed0" / "results.csv")


@pytest.mark.parametrize("part", ["", "checkpoints/best.ckpt"], ids=["run", "checkpoint"])
def test_run_is_evaluated_with_the_numbers_of_its_own_test(fitted, tmp_path, part):
    found, wanted = evaluate(fitted.path / part, tmp_path), numbers(fitted.path / "results.csv")
    pd.testing.assert_frame_equal(found.drop(columns="experiment"), wanted.drop(columns="experiment"), check_exact=True)


def test_hugging_face_folder_is_evaluated_and_its_hash_noted(tmp_path):
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**BERT, num_labels=2)).save_pretrained(
        tmp_path / "model"
    )
    found = evaluate(tmp_path / "model", tmp_path)
    assert set(found["checkpoint"]) == {checkpoint_hash(str(tmp_path / "model"))}
    assert set(found["method"]) == {"", "random", "input_x_gradient", "att_in_grad"}


def test_decision_threshold_of_a_multi_label_checkpoint_comes_along(tmp_path):
    config = tiny_config(max_epochs=1, callbacks=[])
    config["data"] = planted(num_classes=3, multilabel=True, signals_per_document=[1, 1])
    config["model"]["init_args"]["network"] = PLM_CA
    command("fit", "--config", save(config, tmp_path / "multi.yaml"), "--runs_dir", tmp_path / "runs")
    run = tmp_path / "runs" / "multi" / "seed0"
    threshold = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]["decision_threshold"]
    assert float(threshold) != 0.5
    found = evaluate(run, tmp_path, config["data"], callbacks=()).query("preset == ''")
    assert found["value"].tolist() == numbers(run / "results.csv")["value"].tolist()


def test_checkpoints_of_other_origin_do_not_overwrite_each_other(plain, tmp_path):
    evaluate(plain.path, tmp_path, callbacks=())
    AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**BERT, num_labels=2)).save_pretrained(
        tmp_path / "model"
    )
    evaluate(tmp_path / "model", tmp_path, callbacks=())
    files = {file.name for file in (tmp_path / "runs" / "measured" / "seed0").glob("*.csv")}
    assert files == {"results.csv", f"results_{checkpoint_hash(str(tmp_path / 'model'))}.csv"}


def test_an_evaluation_of_other_data_keeps_the_results_and_heatmaps_of_the_first(plain, tmp_path):
    first = evaluate(plain.path, tmp_path, callbacks=(METHODS, HEATMAPS))
    run = tmp_path / "runs" / "measured" / "seed0"
    page = (run / "heatmaps" / "test.html").read_bytes()
    again = evaluate(plain.path, tmp_path, planted(num_test=3), callbacks=(METHODS, HEATMAPS))
    assert again.equals(first) and (run / "heatmaps" / "test.html").read_bytes() == page
    (beside,) = run.glob("results_*.csv")
    assert set(numbers(beside).query("split == 'test' and preset == ''")["num_examples"]) == {3}
    (folder,) = run.glob("heatmaps_*")
    assert folder.name.removeprefix("heatmaps") == beside.stem.removeprefix("results")


@pytest.mark.parametrize("subcommand", ["test", "predict", "data"])
def test_an_evaluation_without_a_network_names_its_options_before_the_tokenizer(subcommand):
    line = refusal(subcommand, "--config", "evaluate.yaml")
    assert line.startswith("error: Evaluation has neither path nor network: ")
    assert "(--model.init_args.path MODEL)" in line and "(--model.init_args.network)" in line


@pytest.mark.parametrize(
    ("options", "network"),
    [
        ([], "a network (--model.init_args.path MODEL)"),
        (["--model.init_args.path", "no/run"], "no/run"),
        (["--model.init_args.network", "minilm.yaml"], "its network"),
    ],
)
def test_a_fit_of_an_evaluation_names_the_command_that_evaluates(options, network):
    line = refusal("fit", "--config", "evaluate.yaml", *options)
    assert line.startswith(f"error: Evaluation trains nothing: use run.py test to evaluate {network}, or fit ")
