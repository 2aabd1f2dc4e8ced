"""Every YAML file in configs/ parses, and experiments run on tiny networks. New files are found without a list."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from lightning_xai.commands.main import main
from tests.commands.conftest import BERT, METHODS, NETWORK, PLM_CA, ROOT, Fitted, planted, save, tiny_config
from tests.commands.conftest import fitted as fitted  # a fixture
from tests.data.prompts import llama_folder

CONFIGS = ROOT / "configs"
EXPERIMENTS = sorted(path for path in CONFIGS.glob("*.yaml") if not path.stem.endswith("_teacher"))
TEACHERS = sorted(CONFIGS.glob("*_teacher.yaml"))
# they have dozens of runs, of which only the first is tried; it measures no attributions
CHAINS = {path.stem for path in EXPERIMENTS if path.stem.startswith(("fresh", "roar"))}
PRESET_OF = {"few_shot": "aml"}  # of experiments without the preset eraser
UNMEASURED = CHAINS | {"stability"}  # without a preset
BILSTM: dict[str, Any] = {
    "class_path": "lightning_xai.models.bilstm.BiLSTMAttention", "init_args": {"embedding_size": 8, "hidden_size": 4},
}  # fmt: skip
PARTS = sorted(CONFIGS.glob("*/**/*.yaml"))
PRESETS = sorted((CONFIGS / "presets").glob("*.yaml"))


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(CONFIGS)) for path in paths]


def parsed(*argv: str) -> dict:
    """Returns the whole configuration of a fit as --print_config gives it."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as caught:
        main(["fit", *argv, "--print_config"])
    assert caught.value.code in (0, None), caught.value.code
    return yaml.safe_load(printed.getvalue())


def required(experiment: Path) -> list[str]:
    """Returns the arguments that an experiment needs on the command line, since no file can know them."""
    return ["--model.init_args.path", "MODEL"] if experiment.stem == "evaluate" else []


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=names(EXPERIMENTS))
def test_experiment_parses(experiment):
    found = parsed("--config", str(experiment), *required(experiment))
    assert found["model"]["class_path"].startswith("lightning_xai.objectives.")
    assert found["trainer"]["callbacks"]


@pytest.mark.parametrize("teacher", TEACHERS, ids=names(TEACHERS))
def test_teacher_parses_over_its_student(teacher):
    student = teacher.with_name(teacher.name.replace("_teacher", ""))
    found = parsed("--config", str(student), "--config", str(teacher))
    assert found["model"]["class_path"] == yaml.safe_load(teacher.read_text())["model"]["class_path"]


@pytest.mark.parametrize("part", PARTS, ids=names(PARTS))
def test_part_parses_where_it_belongs(part, tmp_path):
    config = tiny_config(callbacks=[METHODS])
    if part.parent.name == "data":
        config["data"] = str(part)
    elif part.parent.name == "network":
        config["model"]["init_args"]["network"] = str(part)
    elif part.parent.parent.name == "methods":
        config["trainer"]["callbacks"][0]["init_args"]["methods"] = {part.stem: str(part)}
    else:
        config["trainer"]["callbacks"] = [str(part)]
    found = parsed("--config", save(config, tmp_path / "config.yaml"))
    callback = found["trainer"]["callbacks"][0]
    where = {
        "data": found["data"],
        "network": found["model"]["init_args"]["network"],
        "roar": callback["init_args"].get("methods", {}).get(part.stem),
    }
    assert where.get(part.parent.name, callback)["class_path"] == yaml.safe_load(part.read_text())["class_path"]


@pytest.mark.parametrize("part", [p for p in PARTS if p.parent.name == "data"], ids=lambda p: p.stem)
def test_data_say_how_many_examples_they_take_whatever_they_replace(part):
    # --data merges with the data that it replaces, and would keep their max_examples
    assert "max_examples" in yaml.safe_load(part.read_text())["init_args"]


def run_tiny(experiment: Path, folder: Path, fitted: Fitted, **trainer: Any) -> pd.DataFrame:
    """Returns the results of an experiment on a tiny network, one epoch, trainer arguments replaced."""
    segmented = "plm_ca" in experiment.read_text()
    data = planted(num_train=8, multilabel=segmented, signals_per_document=[1, 1])
    data["init_args"]["extra_test_splits"] = None
    network = {**(PLM_CA if segmented else NETWORK)}
    network["init_args"] = {**network["init_args"], "path": None, "config": BERT}
    if "bilstm" in experiment.read_text():
        network = BILSTM
    trainer = {"accelerator": "cpu", "max_epochs": 1, "enable_progress_bar": False} | trainer
    tiny = {"data": data, "trainer": trainer}
    argv = ["test" if experiment.stem == "evaluate" else "fit", "--config", str(experiment)]
    if experiment.stem == "evaluate":
        tiny["model"] = {"init_args": {"path": str(fitted.path)}}
    elif experiment.stem == "few_shot":
        argv[0] = "test"
        tiny["model"] = {"init_args": {"network": {"init_args": {"path": llama_folder(folder / "llama")}}}}
        answers = {"class0": " negative", "class1": " positive"}
        prompt = {"path": None, "verbalizers": answers, "shots": 2, "fill": "unk", "max_length": 256}
        data["init_args"]["encoder"] = {"class_path": "lightning_xai.data.prompt.PromptEncoder", "init_args": prompt}
    else:
        tiny["model"] = {"init_args": {"network": network}}
    if experiment.stem in CHAINS:
        argv += ["--follow_up", "false"]
    main([*argv, "--config", save(tiny, folder / "tiny.yaml"), "--runs_dir", str(folder / "runs")])
    return pd.read_parquet(folder / "runs" / experiment.stem / "seed0" / "results.parquet")


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=names(EXPERIMENTS))
def test_experiment_runs_on_a_tiny_network(experiment, tmp_path, fitted, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no earlier runs are
    results, preset = run_tiny(experiment, tmp_path, fitted), PRESET_OF.get(experiment.stem, "eraser")
    assert experiment.stem in UNMEASURED or len(results[results["preset"] == preset]) > 0
    assert results["value"].notna().any()


def measure(fitted: Fitted, folder: Path, **trainer: Any) -> pd.DataFrame:
    """Returns the results of a test with every preset, trainer arguments replaced."""
    config = tiny_config(callbacks=[METHODS, *map(str, PRESETS)], **trainer)
    config["model"] = {
        "class_path": "lightning_xai.objectives.evaluation.Evaluation", "init_args": {"path": str(fitted.path)},
    }  # fmt: skip
    main(["test", "--config", save(config, folder / "all.yaml"), "--runs_dir", str(folder / "runs")])
    return pd.read_parquet(folder / "runs" / "all" / "seed0" / "results.parquet")


def test_every_preset_measures_a_trained_network_in_one_test(fitted, tmp_path):
    results = measure(fitted, tmp_path)
    measured = results[results["preset"] != ""]
    assert set(measured["preset"]) == {path.stem for path in PRESETS}
    assert measured["value"].notna().all()
