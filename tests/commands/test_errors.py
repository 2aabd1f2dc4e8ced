"""Mistakes of a user end in one line before training, with the value and the remedy. The corrected command runs."""

import copy
import csv
from argparse import ArgumentError

import pytest
from lightning import Callback

from tests.commands.conftest import ERASER, METHODS, NETWORK, ROOT, changed, command, refusal, save, tiny_config

pytestmark = pytest.mark.slow

COMPREHENSIVENESS = "lightning_xai.metrics.faithfulness.Comprehensiveness"
RANDOM = "lightning_xai.attributions.random.Random"
EVALUATION = "lightning_xai.callbacks.evaluation.AttributionEvaluation"
EVIDENCE_OVERLAP = "lightning_xai.metrics.plausibility.EvidenceOverlap"


@pytest.fixture
def fit(tmp_path):
    """Returns a function that gives the arguments of a fit with changes to a tiny configuration."""

    def fit(change=lambda config: None, *arguments, **trainer):
        config = tiny_config(**({"callbacks": [], "max_epochs": 1} | trainer))
        change(config)
        return ["fit", "--config", save(config, tmp_path / "tiny.yaml"), "--runs_dir", tmp_path / "runs", *arguments]

    return fit


def files_source(folder, rows: dict[str, list[tuple[str, str]]]):
    """Returns a source of CSV files with the given rows of (text, label)."""
    for split, lines in rows.items():
        with (folder / f"{split}.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([("text", "label"), *lines])
    return {
        "class_path": "lightning_xai.data.sources.files.Files",
        "init_args": {
            "data_files": {split: str(folder / f"{split}.csv") for split in rows},
            "text_column": "text", "label_column": "label", "class_names": ["negative", "positive"],
        },
    }  # fmt: skip


GOOD = [("w1 w2", "negative"), ("w3 w4", "positive")]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (changed("trainer.max_epoch", 3), ["max_epoch"]),
        (changed("model.init_args.learning_rate", 3), ["learning_rate"]),
        (changed("data.init_args.source.init_args.num_trains", 3), ["num_trains"]),
        (changed("model.class_path", "lightning_xai.objectives.supervised.Supervise"), ["Supervise"]),
        (changed("data.init_args.batch_size", "many"), ["batch_size", "many"]),
    ],
    ids=["trainer", "model", "source", "class_path", "type"],
)
def test_misspelt_setting_is_named(fit, change, named):
    message = refusal(*fit(change))
    assert all(name in message for name in named)
    assert len(message) < 500


def test_a_report_of_no_experiment_is_refused_in_a_line():
    assert refusal("racu").startswith("error: no experiment is named")


@pytest.mark.parametrize("argv", [["--fit"], ["fti"]], ids=["option", "misspelt"])
def test_unknown_command_is_named_with_those_there_are(argv):
    message = refusal(*argv)
    assert "is not a command" in message and "fit, validate, test, predict, search, data, explain" in message


def test_missing_configuration_is_named_with_those_there_are():
    message = refusal("fit", "--config", "tmm.yaml")
    assert "'tmm.yaml'" in message and "tm.yaml" in message.replace("tmm.yaml", "")


def test_missing_part_of_a_configuration_is_named(fit):
    assert "network/minilmm.yaml" in refusal(*fit(changed("model.init_args.network", "network/minilmm.yaml")))


@pytest.mark.parametrize("setting", ["extra_test_splits", "predict_split"])
def test_unknown_split_is_named_with_those_there_are(fit, setting):
    value = ["tset"] if setting == "extra_test_splits" else "tset"
    argv = fit(changed(f"data.init_args.{setting}", value))
    argv[0] = "fit" if setting == "extra_test_splits" else "predict"
    message = refusal(*argv, *([] if argv[0] == "fit" else ["--ckpt_path", "initial"]))
    assert "'tset'" in message and "train, validation, test" in message


@pytest.mark.parametrize("split", ["train", "test"])
def test_label_out_of_range_is_named_with_its_row_before_training(fit, tmp_path, split):
    rows = {name: list(GOOD) for name in ("train", "validation", "test")}
    rows[split].append(("w5", "neutral"))
    message = refusal(*fit(changed("data.init_args.source", files_source(tmp_path, rows))))
    assert "neutral" in message and split in message
    assert not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize("split", ["train", "test"])
def test_empty_split_is_named_before_training(fit, tmp_path, split):
    rows = {name: list(GOOD) for name in ("train", "validation", "test")} | {split: []}
    message = refusal(*fit(changed("data.init_args.source", files_source(tmp_path, rows))))
    assert split in message
    assert not list(tmp_path.rglob("*.ckpt"))


def test_corrected_command_runs_where_the_mistaken_one_stopped(fit, tmp_path):
    rows = {name: list(GOOD) for name in ("train", "validation", "test")}
    refusal(*fit(changed("data.init_args.source", files_source(tmp_path, rows | {"test": []}))))
    assert "classification" in command(*fit(changed("data.init_args.source", files_source(tmp_path, rows))))


def test_missing_model_folder_is_named(fit):
    path = {"class_path": NETWORK["class_path"], "init_args": {"path": "models/none"}}
    assert "models/none" in refusal(*fit(changed("model.init_args.network", path)))


@pytest.mark.parametrize("command_name", ["fit", "test", "validate", "predict"])
def test_checkpoint_of_another_shape_is_named_with_the_first_difference(fitted, fit, command_name):
    def wider(config):
        config["model"]["init_args"]["network"]["init_args"]["config"]["intermediate_size"] = 20

    checkpoint = fitted.path / "checkpoints" / "best.ckpt"
    argv = fit(wider, "--ckpt_path", checkpoint)
    message = refusal(command_name, *argv[1:])
    assert str(checkpoint) in message
    assert "intermediate.dense.bias is (24,) in the checkpoint, but (20,) here" in message


def test_missing_checkpoint_is_named(fit):
    assert "none.ckpt" in refusal("test", *fit()[1:], "--ckpt_path", "none.ckpt")


def test_best_checkpoint_of_a_run_that_was_never_fitted_is_refused(fit):
    assert "no best checkpoint" in refusal("test", *fit()[1:], "--ckpt_path", "best")


def test_file_that_is_no_checkpoint_is_refused(fit, tmp_path):
    (tmp_path / "text.ckpt").write_text("hello")
    assert "text.ckpt" in refusal("test", *fit()[1:], "--ckpt_path", tmp_path / "text.ckpt")


def test_unknown_monitor_is_named_with_those_there_are(fit):
    message = refusal(*fit(lambda config: config.update(checkpoint={"monitor": "val/acuracy"})))
    assert "'val/acuracy'" in message and "val/accuracy" in message


def test_mode_that_would_keep_the_worst_checkpoint_is_refused(fit):
    message = refusal(*fit(lambda config: config.update(checkpoint={"monitor": "val/accuracy"})))
    assert "'min'" in message and "'max'" in message


@pytest.mark.parametrize(
    ("monitor", "mode", "parts"),
    [
        ("val/acuracy", "max", ["EarlyStopping.monitor is 'val/acuracy'", "val/accuracy, "]),
        ("val/accuracy", "min", ["EarlyStopping.mode is 'min'", "'max'"]),
        ("val_loss", "min", ["EarlyStopping.monitor is 'val_loss'", "val/log_loss"]),
        ("train/los", "min", ["EarlyStopping.monitor is 'train/los'", "choose one of train/loss"]),
    ],
)
def test_monitor_of_a_callback_is_checked_before_the_training(fit, monitor, mode, parts):
    stop = {"class_path": "EarlyStopping", "init_args": {"monitor": monitor, "mode": mode}}
    message = refusal(*fit(lambda config: config["trainer"].update(callbacks=[stop])))
    assert all(part in message for part in parts)


@pytest.mark.parametrize(("setting", "value"), [("dirpath", "elsewhere"), ("filename", "{epoch}")])
def test_checkpoints_away_from_the_run_are_refused(fit, setting, value):
    assert value in refusal(*fit(lambda config: config.update(checkpoint={setting: value})))


def test_evaluation_without_attributions_is_refused(fit):
    assert "ComputeAttributions" in refusal(*fit(callbacks=[ERASER]))


@pytest.mark.parametrize(
    ("metric", "arguments", "sentence"),
    [
        (COMPREHENSIVENESS, {"sizes": {"counts": {"first": 3, "last": 1}}}, "holds no number: give last >= 3"),
        (COMPREHENSIVENESS, {"sizes": {"counts": []}}, "error: counts are []: give one or more numbers"),
        (COMPREHENSIVENESS, {"sizes": {"counts": [-1]}}, "error: counts are [-1]: give one or more numbers"),
        (COMPREHENSIVENESS, {"sizes": {"counts": [1], "window": 0}}, "error: window is 0: give at least 1"),
        (COMPREHENSIVENESS, {"sizes": {"percentages": []}}, "error: percentages is empty: list at least one"),
        (EVIDENCE_OVERLAP, {"threshold": {"num_points": 1}}, "error: num_points is 1: give at least 2"),
    ],
)
def test_wrong_value_inside_a_metric_is_named_whichever_type_it_has(fit, tmp_path, metric, arguments, sentence):
    evaluation = {
        "class_path": "lightning_xai.callbacks.evaluation.AttributionEvaluation",
        "init_args": {"preset": "wrong", "metrics": [{"class_path": metric, "init_args": arguments}]},
    }
    preset = save(evaluation, tmp_path / "preset.yaml")
    message = refusal("test", *fit(callbacks=[METHODS])[1:], "--trainer.callbacks+", preset)
    assert sentence in message and len(message) < 120


def test_evaluation_is_refused_to_fit(fitted, fit):
    evaluation = {
        "class_path": "lightning_xai.objectives.evaluation.Evaluation", "init_args": {"path": str(fitted.path)},
    }  # fmt: skip
    assert f"trains nothing: use run.py test to evaluate {fitted.path}, or" in refusal(
        *fit(changed("model", evaluation))
    )


def test_data_of_other_classes_than_the_evaluated_network_is_refused(fitted, fit):
    def change(config):
        config["model"] = {
            "class_path": "lightning_xai.objectives.evaluation.Evaluation", "init_args": {"path": str(fitted.path)},
        }  # fmt: skip
        config["data"]["init_args"]["source"]["init_args"]["num_classes"] = 3

    message = refusal("test", *fit(change)[1:])
    assert "2 classes, ['class0', 'class1'], but the data has 3, " in message
    assert "(new in the data: ['class2']): choose data with" in message


@pytest.mark.parametrize("subcommand", ["fit", "test", "validate", "predict"])
def test_checkpoint_of_another_number_of_classes_is_refused_by_their_names(subcommand, plain, tmp_path):
    line = refusal(
        subcommand, "--config", plain.config, "--data.init_args.source.init_args.num_classes=3", "--runs_dir", tmp_path,
        "--ckpt_path", plain.path / "checkpoints" / "best.ckpt",
    )  # fmt: skip
    classes = "['class0', 'class1'], but the data has 3, ['class0', 'class1', 'class2'] (new"
    assert f"best.ckpt has 2 classes, {classes}" in line
    assert "classifier" not in line and not list(tmp_path.rglob("*.ckpt"))


def test_teacher_of_another_number_of_classes_is_refused_by_their_names(plain, tmp_path):
    config = tiny_config(max_epochs=1, callbacks=[])
    config["data"]["init_args"]["source"]["init_args"]["num_classes"] = 3
    config["model"]["class_path"] = "lightning_xai.objectives.token_masking.TokenMasking"
    config["model"]["init_args"]["teacher"] = str(plain.path)
    line = refusal("fit", "--config", save(config, tmp_path / "tm.yaml"), "--runs_dir", tmp_path / "runs")
    assert "has 2 classes, ['class0', 'class1'], but the data has 3, " in line and "['class2']" in line


class Faulty(Callback):
    """A callback with a fault that no user can correct."""

    def setup(self, trainer, pl_module, stage):
        raise KeyError("weights")


def test_a_fault_keeps_its_traceback(fit):
    with pytest.raises(KeyError, match="weights"):
        command(*fit(callbacks=[{"class_path": f"{__name__}.Faulty"}]))


@pytest.mark.parametrize("arguments", [["--seed_everything", "-1"], ["--foo"], ["--trainer.devices", "0"]])
def test_user_errors_keep_their_traceback_by_an_environment_variable(fit, monkeypatch, arguments):
    monkeypatch.setenv("LIGHTNING_XAI_TRACEBACK", "1")
    with pytest.raises((ValueError, ArgumentError)):
        command(*fit(), *arguments)


def test_threshold_that_no_split_tunes_is_refused_before_the_fit(tmp_path):
    config = tiny_config(callbacks=[METHODS, str(ROOT / "configs" / "presets" / "edin.yaml")])
    config["data"]["init_args"]["tune_on_validation"] = False
    message = refusal("fit", "--config", save(config, tmp_path / "untuned.yaml"), "--runs_dir", tmp_path / "runs")
    assert "must be tuned on the validation split" in message
    assert "set data.init_args.tune_on_validation to true, or choose a preset that tunes nothing" in message
    assert not list((tmp_path / "runs").rglob("*.ckpt"))


@pytest.mark.parametrize("experiment", ["../../x", "/x", "a//b", "a/", ".", "-rf"])
def test_experiment_that_leaves_the_folder_of_all_runs_is_refused(fit, tmp_path, experiment):
    message = refusal(*fit(), f"--experiment={experiment}")
    assert message.startswith(f"error: experiment is {experiment!r}: choose a name that ")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (changed("trainer.callbacks.0.init_args.methods", {"../x": {"class_path": RANDOM}}), "a name in methods is"),
        (changed("trainer.callbacks.1.init_args.preset", "a/b"), "preset is 'a/b'"),
        (changed("trainer.callbacks.1.init_args.metrics.0.init_args", {"name": "../x"}), "a metric's name is '../x'"),
    ],
    ids=["method", "preset", "metric"],
)
def test_name_that_becomes_a_path_is_refused_before_training(fit, tmp_path, change, named):
    evaluation = {"preset": "mine", "metrics": [{"class_path": "lightning_xai.metrics.complexity.Entropy"}]}
    callbacks = [METHODS, {"class_path": EVALUATION, "init_args": evaluation}]
    assert named in refusal(*fit(change, callbacks=copy.deepcopy(callbacks)))
    assert not (tmp_path / "runs").exists() or not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize("split", ["../x", "a/b", "x" * 300])
def test_split_that_cannot_be_a_file_is_refused_before_training(fit, tmp_path, split):
    rows = {name: list(GOOD) for name in ("train", "validation", "test", "extra")}
    source = files_source(tmp_path, rows)
    source["init_args"]["data_files"][split] = source["init_args"]["data_files"].pop("extra")
    assert "a split's name is" in refusal(*fit(changed("data.init_args.source", source)))
    assert not list(tmp_path.rglob("*.ckpt"))
