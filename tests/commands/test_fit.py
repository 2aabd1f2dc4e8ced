import json
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_xai.callbacks.results import COLUMNS
from lightning_xai.commands.stage_runs import run_stages
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash
from lightning_xai.objectives.supervised import Supervised
from tests.commands.conftest import HEATMAPS, METHODS, command, numbers, refusal, save, tiny_config


@pytest.fixture(scope="module")
def events(fitted) -> list[EventAccumulator]:
    files = sorted(fitted.path.glob("events*"))
    return [EventAccumulator(str(file), size_guidance={"images": 0}).Reload() for file in files]


def tags(events, kind) -> set[str]:
    return {tag for accumulator in events for tag in accumulator.Tags()[kind]}


def test_run_folder_holds_everything_of_the_run(fitted):
    found = {str(file.relative_to(fitted.path)) for file in fitted.path.rglob("*") if file.is_file()}
    found = {name for name in found if not name.startswith("events.")}
    assert found == {
        "config.yaml", "manifest.json", "checkpoints/best.ckpt", "checkpoints/last.ckpt", "results.csv",
        "results.json", "results.parquet", "heatmaps/test.html", "hparams.yaml",
    }  # fmt: skip
    assert [path.name for path in fitted.runs_dir.iterdir()] == ["tiny"]


def test_results_have_one_row_for_each_split_preset_method_and_metric(fitted):
    table = pd.read_csv(fitted.path / "results.csv", keep_default_na=False)
    assert list(table.columns) == COLUMNS
    assert not table.duplicated(["split", "preset", "method", "metric"]).any()
    explained = table[table["preset"] == "eraser"]
    assert set(explained["method"]) == {"random", "input_x_gradient", "att_in_grad"}
    assert set(explained["split"]) == {"test"}
    assert set(table[table["preset"] == ""]["split"]) == {"validation", "test"}


def test_results_say_seed_checkpoint_counts_and_cost(fitted):
    table = pd.read_parquet(fitted.path / "results.parquet")
    assert set(table["seed"]) == {0}
    assert set(table["checkpoint"]) == {checkpoint_hash(str(fitted.path / "checkpoints" / "best.ckpt"))}
    assert set(table[table["split"] == "test"]["num_examples"]) == {7}
    cost = table[table["preset"] != ""].drop_duplicates("method").set_index("method")
    assert cost.loc["random", "forward_passes"] == 0
    assert cost["backward_passes"]["input_x_gradient"] >= 1
    assert (cost["seconds"] > 0).all()


def test_csv_and_parquet_hold_the_same_numbers(fitted):
    csv = pd.read_csv(fitted.path / "results.csv", keep_default_na=False, na_values={"value": [""]})
    parquet = pd.read_parquet(fitted.path / "results.parquet")
    pd.testing.assert_series_equal(csv["value"], parquet["value"])


@pytest.mark.slow
def test_last_checkpoint_is_of_the_last_epoch_even_when_that_is_not_the_best(tmp_path):
    config = tiny_config(callbacks=[], max_epochs=3)
    config["model"]["init_args"]["optimizer"]["init_args"]["lr"] = 0.0  # no epoch improves on the first
    command("fit", "--config", save(config, tmp_path / "still.yaml"), "--runs_dir", tmp_path)
    checkpoints = tmp_path / "still" / "seed0" / "checkpoints"
    epochs = {file.stem: torch.load(file, weights_only=True)["epoch"] for file in checkpoints.iterdir()}
    assert epochs == {"best": 0, "last": 2}


def test_last_checkpoint_knows_the_best_one(fitted):
    callbacks = torch.load(fitted.path / "checkpoints" / "last.ckpt", weights_only=True)["callbacks"]
    (best,) = [state for key, state in callbacks.items() if "val/log_loss" in key]
    table = numbers(fitted.path / "results.csv").set_index(["split", "metric"])["value"]
    assert float(best["best_model_score"]) == pytest.approx(table["validation", "log_loss"])


def test_fit_ends_with_tables_within_80_columns(fitted):
    lines = fitted.printed.splitlines()
    assert "test, preset eraser (explanations: 7 counted, none skipped)" in lines
    assert [line for line in lines if len(line) > 80 and "/" not in line] == []  # paths may be long
    assert str(fitted.path / "results.csv") in fitted.printed


def test_fit_begins_with_the_sizes_of_network_and_data(fitted):
    assert "Supervised, HFClassifier," in fitted.printed
    assert "train: 48 examples of 10 tokens" in fitted.printed


def test_events_hold_training_validation_and_test_scalars(events):
    found = tags(events, "scalars")
    assert {"val/accuracy", "test/accuracy", "test/eraser/att_in_grad/comprehensiveness"} <= found
    assert "hp/test/accuracy" in found  # the HParams tab's final metric
    assert "hp_metric" not in found


def test_events_hold_heatmaps_as_images(events):
    assert {"heatmaps/test/0", "heatmaps/test/1", "heatmaps/test/2"} == tags(events, "images")


@pytest.mark.slow
def test_test_of_another_checkpoint_keeps_the_results_of_the_run(fitted, plain, plain_copy):
    checkpoint = fitted.path / "checkpoints" / "last.ckpt"
    printed = command("test", "--config", plain_copy / "config.yaml", "--ckpt_path", checkpoint)
    assert numbers(plain_copy / "results.csv").equals(numbers(plain.path / "results.csv"))
    beside = plain_copy / f"results_{checkpoint_hash(str(checkpoint))}.csv"
    assert str(beside) in printed
    assert set(numbers(beside)["checkpoint"]) == {checkpoint_hash(str(checkpoint))}


@pytest.mark.slow
def test_test_on_other_examples_keeps_the_results_of_the_run(plain, plain_copy):
    printed = command("test", "--config", plain_copy / "config.yaml", "--data.init_args.max_examples", '{"test": 3}')
    assert numbers(plain_copy / "results.csv").equals(numbers(plain.path / "results.csv"))
    (beside,) = plain_copy.glob("results_*.csv")
    assert str(beside) in printed
    assert set(numbers(beside).query("split == 'test' and preset == ''")["num_examples"]) == {3}


@pytest.mark.slow
@pytest.mark.parametrize("subcommand", ["test", "predict"])
def test_a_command_on_other_examples_keeps_the_heatmaps_of_the_run(fitted, run_copy, subcommand):
    page = "heatmaps/test.html"
    logs = sorted(run_copy.glob("events*"))
    printed = command(subcommand, "--config", run_copy / "config.yaml", "--data.init_args.max_examples", '{"test": 2}')
    assert sorted(run_copy.glob("events*")) == logs and list((run_copy / subcommand).glob("events*"))
    assert (run_copy / page).read_bytes() == (fitted.path / page).read_bytes()
    (beside,) = run_copy.glob("heatmaps_*/test.html")
    assert f"written: {beside}" in printed
    assert beside.parent.name.split("_", 1)[1] in "".join(path.stem for path in run_copy.glob("*_*.csv"))


@pytest.mark.slow
@pytest.mark.parametrize("change", [pytest.param("checkpoint", marks=pytest.mark.slow), "evaluation"])
def test_predictions_of_other_weights_or_methods_keep_those_of_the_run(run_copy, tmp_path, change):
    argv = ["predict", "--config", run_copy / "config.yaml"]
    command(*argv)
    first = {name: (run_copy / name).read_bytes() for name in ("predictions_test.csv", "heatmaps/test.html")}
    if change == "checkpoint":
        network = torch.load(run_copy / "checkpoints" / "best.ckpt", weights_only=True)
        network["state_dict"] = {name: weights / 2 for name, weights in network["state_dict"].items()}
        torch.save(network, run_copy / "other.ckpt")
        argv += ["--ckpt_path", run_copy / "other.ckpt"]
    else:
        argv += ["--config", save({"trainer": {"callbacks": [METHODS, HEATMAPS]}}, tmp_path / "other.yaml")]
    printed = command(*argv)
    assert {name: (run_copy / name).read_bytes() for name in first} == first
    (beside,) = run_copy.glob("predictions_test_*.csv")
    assert f"written: {beside}" in printed
    same = pd.read_csv(beside).equals(pd.read_csv(run_copy / "predictions_test.csv"))
    assert same == (change == "evaluation")


@pytest.mark.slow
def test_validate_measures_the_best_checkpoint(fitted, run_copy):
    printed = command("validate", "--config", run_copy / "config.yaml")
    table = numbers(fitted.path / "results.csv").query("preset == ''").set_index(["split", "metric"])["value"]
    assert f"{table['validation', 'log_loss']:.4f}" in printed
    assert "validation, preset eraser" in printed
    written = [line for line in printed.splitlines() if line.startswith("written")]
    assert written == [f"written: {run_copy / 'heatmaps' / 'validation.html'}"]
    without = command("validate", "--config", run_copy / "config.yaml", "--trainer.callbacks", "[]")
    assert "written" not in without  # the page of before is still there


@pytest.mark.slow
def test_predict_draws_heatmaps(run_copy):
    (run_copy / "heatmaps" / "test.html").unlink()
    printed = command("predict", "--config", run_copy / "config.yaml")
    page = run_copy / "heatmaps" / "test.html"
    assert page.is_file() and f"written: {page}" in printed


@pytest.mark.slow
def test_predict_writes_the_class_and_all_probabilities_of_every_example(plain_copy):
    printed = command("predict", "--config", plain_copy / "config.yaml")
    file = plain_copy / "predictions_test.csv"
    table = pd.read_csv(file)
    assert f"written: {file}" in printed and list(table) == ["id", "predicted", "p(class0)", "p(class1)"]
    probabilities = table[["p(class0)", "p(class1)"]].to_numpy()
    assert np.allclose(probabilities.sum(axis=1), 1) and table["id"].is_unique
    assert list(table["predicted"]) == [f"class{c}" for c in probabilities.argmax(axis=1)]
    results = pd.read_csv(plain_copy / "results.csv").query("split == 'test' and metric == 'accuracy'")
    assert len(table) == results["num_examples"].item()


@pytest.mark.slow
def test_finished_run_is_not_repeated_and_prints_its_table_again(fitted):
    before = (fitted.path / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    printed = command("fit", "--config", fitted.config, "--runs_dir", fitted.runs_dir)
    assert (fitted.path / "checkpoints" / "last.ckpt").stat().st_mtime_ns == before
    assert "finished already" in printed
    assert printed[printed.index("classification") :] == fitted.printed[fitted.printed.index("classification") :]


@pytest.mark.slow
def test_other_settings_in_the_folder_of_a_run_are_refused_by_name(fitted):
    message = refusal("fit", "--config", fitted.config, "--runs_dir", fitted.runs_dir, "--trainer.max_epochs", 3)
    assert "trainer.max_epochs was 2, now 3" in message
    assert "--experiment" in message


@pytest.mark.slow
def test_relative_interpolation_sees_command_line_overrides(tmp_path):
    config = tiny_config(callbacks=[], fast_dev_run=True)
    config["data"]["init_args"]["eval_batch_size"] = "${.batch_size}"
    config["trainer"]["max_epochs"] = "${..data.init_args.batch_size}"
    file = save(config, tmp_path / "linked.yaml")
    cli = run_stages(["fit", "--config", file, "--runs_dir", str(tmp_path), "--data.init_args.batch_size", "5"])
    assert cli.settings["data.init_args.eval_batch_size"] == 5
    assert cli.settings["trainer.max_epochs"] == 5


@pytest.mark.slow
def test_fit_without_its_test_is_tested_when_asked_later(tmp_path):
    config = save(tiny_config(callbacks=[], max_epochs=1), tmp_path / "tiny.yaml")
    arguments = ["--config", config, "--runs_dir", tmp_path / "runs"]
    path = tmp_path / "runs" / "tiny" / "seed0"
    assert "classification" not in command("fit", *arguments, "--test_after_fit", "false")
    assert not (path / "results.csv").exists()
    assert json.loads((path / "manifest.json").read_text())["status"] == "finished"
    trained = (path / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    assert "classification" in command("fit", *arguments)
    assert (path / "checkpoints" / "last.ckpt").stat().st_mtime_ns == trained


@pytest.mark.slow
def test_fast_dev_run_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command(
        "fit", "--config", save(tiny_config(fast_dev_run=True, callbacks=[METHODS, HEATMAPS]), tmp_path / "tiny.yaml")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.mark.slow
def test_seed_of_the_run_shuffles_the_data(plain):
    dry = ["--trainer.fast_dev_run", "true", "--seed_everything", "3"]
    assert run_stages(["fit", "--config", plain.config, *dry]).datamodule.seed == 3


@pytest.mark.slow
def test_every_seed_has_a_folder_of_its_own(plain, tmp_path):
    command("fit", "--config", plain.config, "--runs_dir", tmp_path, "--seed_everything", 3)
    assert set(numbers(tmp_path / "tiny" / "seed3" / "results.csv")["seed"]) == {3}


@pytest.mark.slow
def test_run_killed_in_its_test_is_only_tested_again(plain, plain_copy):
    manifest = json.loads((plain_copy / "manifest.json").read_text())
    (plain_copy / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
    for file in plain_copy.glob("results.*"):
        file.unlink()
    trained = (plain_copy / "checkpoints" / "last.ckpt").read_bytes()
    command("fit", "--config", plain.config, "--runs_dir", plain_copy.parents[1])
    assert (plain_copy / "checkpoints" / "last.ckpt").read_bytes() == trained
    pd.testing.assert_frame_equal(numbers(plain_copy / "results.csv"), numbers(plain.path / "results.csv"))
    assert json.loads((plain_copy / "manifest.json").read_text())["status"] == "finished"


@pytest.mark.slow
def test_network_without_a_checkpoint_is_tested_only_if_the_untrained_network_is_asked_for(plain, tmp_path):
    for name in ("test", "predict"):
        message = refusal(name, "--config", plain.config, "--runs_dir", tmp_path, "--experiment", "typo")
        assert (
            "typo/seed0 has no checkpoint, and its network has no pretrained weights" in message
            and not (tmp_path / "typo").exists()
        )
    printed = command("test", "--config", plain.config, "--runs_dir", tmp_path, "--ckpt_path", "initial")
    assert "the network is used as the configuration builds it, without a checkpoint" in printed
    (digest,) = set(numbers(tmp_path / "tiny" / "seed0" / "results.csv")["checkpoint"])
    assert len(digest) == 12


@pytest.mark.slow
@pytest.mark.parametrize("plugins", [None, [{"class_path": "lightning.pytorch.plugins.io.AsyncCheckpointIO"}]])
def test_lightning_neither_saves_nor_requeues_at_the_signal_of_slurm(tmp_path, monkeypatch, plugins):
    names = {"NTASKS": "1", "JOB_NAME": "train", "JOB_ID": "1", "PROCID": "0", "LOCALID": "0", "NODEID": "0"}
    for name, value in names.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    handlers = []
    monkeypatch.setattr(Supervised, "on_train_start", lambda _self: handlers.append(signal.getsignal(signal.SIGUSR1)))
    config = save(tiny_config(callbacks=[], max_epochs=1, plugins=plugins), tmp_path / "tm.yaml")
    command("fit", "--config", config, "--runs_dir", tmp_path / "runs", "--test_after_fit", "false")
    assert handlers == [signal.SIG_DFL]
