"""Every YAML file in configs/ parses, and experiments run on tiny networks. New files are found without a list."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from lightning_xai.commands.main import main
from lightning_xai.commands.search import arguments_of_trials
from lightning_xai.commands.searched_run import SearchedRun
from lightning_xai.search.plan import SearchPlan
from tests.commands.conftest import BERT, METHODS, NETWORK, PLM_CA, ROOT, Fitted, planted, save, tiny_config
from tests.commands.conftest import plain as plain  # a fixture
from tests.data.prompts import llama_folder

CONFIGS = ROOT / "configs"
EXPERIMENTS = sorted(path for path in CONFIGS.glob("*.yaml") if not path.stem.endswith("_teacher"))
TEACHERS = sorted(CONFIGS.glob("*_teacher.yaml"))
# they have dozens of runs, of which only the first is tried; it measures no attributions
CHAINS = {path.stem for path in EXPERIMENTS if path.stem.startswith(("fresh", "roar"))}
PRESET_OF = {"few_shot": "aml"}  # of experiments without the preset eraser
QUICK = {"tm"}  # experiments that run in the quick tests, too
UNMEASURED = CHAINS | {"stability"}  # without a preset
BILSTM: dict[str, Any] = {
    "class_path": "lightning_xai.models.bilstm.BiLSTMAttention", "init_args": {"embedding_size": 8, "hidden_size": 4},
}  # fmt: skip
PRESET_OF_PAPER = {"ferreira2024": "er", "ferreira2024_minilm": "er_plausibility"}  # folder -> preset
OF_PAPERS = (*PRESET_OF_PAPER, "li2023", "li2023_minilm", "mdace")  # folders of experiments for a paper's tables
CLASSIFIERS = sorted(CONFIGS.glob("*/*_classifier.yaml"))  # settings that replace those of an experiment
PAPER = sorted({path for folder in OF_PAPERS for path in (CONFIGS / folder).glob("*.yaml")} - set(CLASSIFIERS))
RUN_OF_PAPER = [path for path in PAPER if path.parent.name in PRESET_OF_PAPER]
SEARCHES = sorted((CONFIGS / "search").glob("*.yaml"))
PARTS = sorted(set(CONFIGS.glob("*/**/*.yaml")) - {*PAPER, *CLASSIFIERS, *SEARCHES})
DATA, NETWORKS, METHOD_PARTS = (
    [part for part in PARTS if part.parent.name == folder] for folder in ("data", "network", "roar")
)
CALLBACK_PARTS = [part for part in PARTS if part not in DATA + NETWORKS + METHOD_PARTS]
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
    return ["--model.init_args.path", "MODEL"] if experiment.stem.startswith("evaluate") else []


RUNS = [pytest.param(e, marks=[] if e.stem in QUICK else [pytest.mark.slow]) for e in EXPERIMENTS]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", RUNS, ids=names(EXPERIMENTS))
def test_experiment_parses(experiment):
    found = parsed("--config", str(experiment), *required(experiment))
    assert found["model"]["class_path"].startswith("lightning_xai.objectives.")
    assert found["trainer"]["callbacks"] or experiment.stem == "tm"  # mdace/tm.yaml trains one epoch, without stopping


@pytest.mark.slow
@pytest.mark.parametrize("experiment", PAPER, ids=names(PAPER))
def test_experiment_of_a_paper_parses(experiment):
    test_experiment_parses(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("teacher", TEACHERS, ids=names(TEACHERS))
def test_teacher_parses_over_its_student(teacher):
    student = teacher.with_name(teacher.name.replace("_teacher", ""))
    found = parsed("--config", str(student), "--config", str(teacher))
    assert found["model"]["class_path"] == yaml.safe_load(teacher.read_text())["model"]["class_path"]


@pytest.mark.slow
def test_classifiers_of_fresh_are_trained_like_the_baseline_whatever_trained_the_extractor():
    fresh = ["--trainer.callbacks", "chains/fresh_li2023.yaml"]
    baseline = parsed("--config", "li2023/baseline.yaml", *fresh)
    named = baseline["trainer"]["callbacks"]["init_args"]["classifier"]
    classifier = parsed("--config", "li2023/regex.yaml", *fresh, "--config", named)
    assert not baseline["model"]["init_args"].pop("terms") and not classifier["model"]["init_args"].pop("terms")
    assert classifier == baseline


def class_path(part: Path) -> str:
    return yaml.safe_load(part.read_text())["class_path"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(max(len(DATA), len(NETWORKS))), ids=str)
def test_data_and_network_parse_where_they_belong(number, tmp_path):
    data, network = DATA[number % len(DATA)], NETWORKS[number % len(NETWORKS)]
    config = tiny_config(callbacks=[]) | {"data": str(data)}
    config["model"]["init_args"]["network"] = str(network)
    found = parsed("--config", save(config, tmp_path / "config.yaml"))
    assert found["data"]["class_path"] == class_path(data), data
    assert found["model"]["init_args"]["network"]["class_path"] == class_path(network), network


@pytest.mark.slow
def test_methods_and_callbacks_parse_where_they_belong(tmp_path):
    compute = {"class_path": METHODS["class_path"], "init_args": {"methods": {p.stem: str(p) for p in METHOD_PARTS}}}
    config = tiny_config(callbacks=[compute, *map(str, CALLBACK_PARTS)])
    found, *callbacks = parsed("--config", save(config, tmp_path / "config.yaml"))["trainer"]["callbacks"]
    methods = {name: method["class_path"] for name, method in found["init_args"]["methods"].items()}
    assert methods == {part.stem: class_path(part) for part in METHOD_PARTS}
    assert [callback["class_path"] for callback in callbacks] == [class_path(part) for part in CALLBACK_PARTS]


@pytest.mark.slow
@pytest.mark.parametrize("search", SEARCHES, ids=names(SEARCHES))
def test_search_names_settings_and_metrics_of_its_runs(search, tmp_path):
    plan = SearchPlan.of(yaml.safe_load(search.read_text()))
    argv = arguments_of_trials(plan, [f"--runs_dir={tmp_path}", "--experiment=search"])
    assert list(SearchedRun(argv, plan).directions) == list(plan.metrics)


@pytest.mark.parametrize("part", DATA, ids=lambda p: p.stem)
def test_data_leave_the_tokenizer_to_the_network(part):
    encoder = yaml.safe_load(part.read_text())["init_args"].get("encoder") or {}
    assert encoder.get("init_args", {}).get("path") is None


def run_tiny(experiment: Path, folder: Path, plain: Fitted, **trainer: Any) -> pd.DataFrame:
    """Returns the results of an experiment on a tiny network, one epoch, trainer arguments replaced."""
    segmented = "plm_ca" in experiment.read_text()
    sizes: dict[str, Any] = {"num_train": 8, "num_validation": 8, "num_test": 4, "signals_per_document": [1, 1]}
    data = planted(multilabel=segmented, **sizes)
    data["init_args"]["extra_test_splits"] = None
    network = {**(PLM_CA if segmented else NETWORK)}
    network["init_args"] = {**network["init_args"], "path": None, "config": BERT}
    if segmented:
        network["init_args"]["num_layers"] = None  # the tiny network has fewer layers than a shortened one
    if "bilstm" in experiment.read_text():
        network = BILSTM
    trainer = {"accelerator": "cpu", "max_epochs": 1, "enable_progress_bar": False} | trainer
    tiny = {"data": data, "trainer": trainer}
    argv = ["test" if experiment.stem == "evaluate" else "fit", "--config", str(experiment)]
    if experiment.stem == "evaluate":
        tiny["model"] = {"init_args": {"path": str(plain.path)}}
    elif experiment.stem == "few_shot":
        argv[0] = "test"
        tiny["model"] = {"init_args": {"network": {"init_args": {"path": llama_folder(folder / "llama")}}}}
        answers = {"class0": " negative", "class1": " positive"}
        prompt = {"path": None, "verbalizers": answers, "shots": 2, "fill": "unk", "max_length": 256}
        data["init_args"]["encoder"] = {"class_path": "lightning_xai.data.prompt.PromptEncoder", "init_args": prompt}
    else:
        search = {"search": {"num_steps": 3}} if "token_masking" in experiment.read_text() else {}
        tiny["model"] = {"init_args": {"network": network} | search}
    if experiment.stem.startswith("constrained"):  # a tiny network meets no bound in an epoch
        tiny["model"]["init_args"]["constraints"] = {"guidance": {"bound": 1.0, "validation_bound": 10.0}}
    if experiment.stem in CHAINS:
        argv += ["--follow_up", "false"]
    main([*argv, "--config", save(tiny, folder / "tiny.yaml"), "--runs_dir", str(folder / "runs")])
    return pd.read_parquet(folder / "runs" / experiment.stem / "seed0" / "results.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", RUNS, ids=names(EXPERIMENTS))
def test_experiment_runs_on_a_tiny_network(experiment, tmp_path, plain, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no earlier runs are
    results, preset = run_tiny(experiment, tmp_path, plain), PRESET_OF.get(experiment.stem, "eraser")
    assert experiment.stem in UNMEASURED or len(results[results["preset"] == preset]) > 0
    assert results["value"].notna().any()


@pytest.mark.slow
@pytest.mark.parametrize("experiment", RUN_OF_PAPER, ids=names(RUN_OF_PAPER))
def test_experiment_of_a_paper_runs_on_a_tiny_network(experiment, tmp_path, plain, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = run_tiny(experiment, tmp_path, plain)
    presets = set(results.loc[results["value"].notna(), "preset"])
    assert presets == {"", PRESET_OF_PAPER[experiment.parent.name]}


def measure(plain: Fitted, folder: Path, **trainer: Any) -> pd.DataFrame:
    """Returns the results of a test with every preset, trainer arguments replaced."""
    config = tiny_config(callbacks=[METHODS, *map(str, PRESETS)], **trainer)
    config["model"] = {
        "class_path": "lightning_xai.objectives.evaluation.Evaluation", "init_args": {"path": str(plain.path)},
    }  # fmt: skip
    main(["test", "--config", save(config, folder / "all.yaml"), "--runs_dir", str(folder / "runs")])
    return pd.read_parquet(folder / "runs" / "all" / "seed0" / "results.parquet")


@pytest.mark.slow
def test_every_preset_measures_a_trained_network_in_one_test(plain, tmp_path):
    results = measure(plain, tmp_path)
    measured = results[results["preset"] != ""]
    assert set(measured["preset"]) == {path.stem for path in PRESETS}
    assert measured["value"].notna().all()
