"""`run.py stability`, and configs/stability.yaml: trained seeds are compared, also with an untrained network."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lightning_xai.runs.stores.store import RaggedStore, RaggedWriter
from tests.commands.conftest import command, methods, planted, refusal, save, tiny_config
from tests.commands.test_processes import TWO, run_ranks

Row = tuple[tuple[int, int], np.ndarray]  # key and values


def stability_config(folder: Path) -> str:
    explained = methods("input_x_gradient.InputXGradient")
    explained["init_args"]["targets"] = "gold"
    others = {"others": ["tiny/seed*"]}
    callbacks = [
        explained,
        {"class_path": "lightning_xai.callbacks.attribution_cache.AttributionCacheWriter"},
        {"class_path": "lightning_xai.callbacks.stability.Stability", "init_args": others},
    ]
    config = tiny_config(callbacks=callbacks, max_epochs=1) | {"data": planted(num_train=24, num_validation=8)}
    return save(config, folder / "tiny.json")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, list[str]]:
    """The folder of two trained seeds, and what their commands printed."""
    folder = tmp_path_factory.mktemp("stability")
    argv = ["fit", "--config", stability_config(folder), "--runs_dir", folder / "runs", "--seed_everything"]
    return folder, [command(*argv, seed) for seed in (0, 1)]


def untrained_argv(folder: Path, experiment: str) -> list[str | Path]:
    """Returns the command that tests an untrained network, which is then compared with the trained seeds."""
    place: list[str | Path] = ["--runs_dir", folder / "runs", "--experiment", experiment]
    return ["test", "--config", folder / "tiny.json", "--ckpt_path", "initial", *place]


@pytest.mark.slow
def test_first_seed_is_compared_with_nothing(trained):
    _, printed = trained
    assert "so nothing is compared" in printed[0] and "stability of input_x_gradient on test" in printed[1]


@pytest.mark.slow
def test_untrained_network_is_compared_with_all_seeds(trained):
    folder, _ = trained
    printed = command(*untrained_argv(folder, "untrained"))
    assert "the network is used as the configuration builds it" in printed
    table = pd.read_csv(folder / "runs" / "untrained" / "seed0" / "stability" / "test.csv")
    assert table.query("metric == 'jaccard'")[["run", "other"]].to_numpy().tolist() == [
        ["untrained.seed0", "tiny.seed0"], ["untrained.seed0", "tiny.seed1"], ["tiny.seed0", "tiny.seed1"],
    ]  # fmt: skip
    assert (folder / "runs" / "untrained" / "seed0" / "attributions" / "test" / "input_x_gradient").is_dir()
    results = pd.read_parquet(folder / "runs" / "untrained" / "seed0" / "results.parquet")
    assert set(results.query("preset == 'stability' and split == 'test'")["num_examples"]) == {7}


@pytest.fixture
def runs(trained, tmp_path) -> list[Path]:
    """Copies of the two seeds in folders of two experiments."""
    source = trained[0] / "runs" / "tiny"
    return [Path(shutil.copytree(source / f"seed{k}", tmp_path / "runs" / "ab"[k] / "seed0")) for k in (0, 1)]


def scores_of(run: Path, split: str = "test") -> Path:
    return run / "attributions" / split / "input_x_gradient"


def change_rows(store: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    """Replaces the rows [(key, values)] of a store by those that `change` returns for them."""
    old = RaggedStore(store)
    rows = change([(key, np.array(old.get(*key))) for key in old.keys()])
    (store / "0.rows").unlink()
    with RaggedWriter(store, metadata=old.metadata) as writer:
        for (index, target), values in rows:
            writer.add(index, target, values)


def test_stored_scores_compare_as_the_callback_does(trained, tmp_path):
    seeds = [trained[0] / "runs" / "tiny" / f"seed{k}" for k in (1, 0)]
    printed = command("stability", *seeds, "--split", "test", "--output", tmp_path)
    for suffix in ("csv", "png"):
        assert (tmp_path / f"test.{suffix}").read_bytes() == (seeds[0] / "stability" / f"test.{suffix}").read_bytes()
    matrix = printed[: printed.index("\nwritten: ")]
    assert "2 seed0" in matrix and matrix in trained[1][1]


@pytest.mark.slow
def test_every_split_and_method_in_common_is_compared_without_network_and_data(runs):
    for run in runs:
        for path in [*run.glob("checkpoints"), *run.glob("config.yaml"), *run.glob("results.*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(scores_of(run), scores_of(run).with_name("copy"))
    shutil.copytree(scores_of(runs[0]), scores_of(runs[0]).with_name("of_one_run"))
    command("stability", *runs)
    tables = {f.stem: pd.read_csv(f) for f in (runs[0].parents[1] / "report" / "stability").glob("*.csv")}
    assert {split: sorted(set(table["method"])) for split, table in tables.items()} == {
        "test": ["copy", "input_x_gradient"],  # validation only if it is named
    }
    assert set(tables["test"]["run"] + " " + tables["test"]["other"]) == {"a.seed0 b.seed0"}


def test_only_named_methods_are_compared(runs, tmp_path):
    for run in runs:
        shutil.copytree(scores_of(run), scores_of(run).with_name("copy"))
    printed = command("stability", *runs, "--method", "copy", "--percentage", 50, "--output", tmp_path / "here")
    assert printed.count("stability of copy on test") == 1 and "Jaccard of the top 50 %" in printed
    assert "input_x_gradient" not in printed and not (tmp_path / "here" / "validation.csv").exists()


@pytest.mark.slow
def test_scores_without_token_masks_are_refused_until_a_test_adds_the_masks(trained, tmp_path):
    copy = shutil.copytree(trained[0] / "runs" / "tiny", tmp_path / "runs" / "tiny")
    runs = [copy / "seed0", copy / "seed1"]
    shutil.rmtree(scores_of(runs[1]) / "tokens")
    before = (scores_of(runs[1]) / "0.values").read_bytes()
    message = refusal("stability", *runs, "--split", "test")
    assert "seed1/attributions/test/input_x_gradient does not tell which tokens of the example with index 0" in message
    assert "test that run again to add the token masks" in message
    command("test", "--config", runs[1] / "config.yaml")
    assert (scores_of(runs[1]) / "0.values").read_bytes() == before
    assert "stability of input_x_gradient on test" in command("stability", *runs, "--split", "test")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "no run is named: name the folders of two or more runs"),
        (["a/seed0"], "a/seed0 cannot be compared: name the folders of two or more runs"),
        (["a/seed0", "c/seed0"], "c/seed0 does not exist: fit and test that run first"),
        (["a/seed0", "b/../a/seed0"], "a/seed0 is named twice"),
        (["a/seed0", "b/seed0", "--percentage", "0"], "percentage is 0.0: give percent above 0"),
        (["a/seed0", "b/seed0", "--split", "tset"], "on tset in common (a/seed0 has test/input_x_gradient, validation"),
        (["a/seed0", "b/seed0", "--method", "ig"], "no scores by ig in common (a/seed0 has test/input_x_gradient"),
        (
            ["a/seed0", "b/seed0", "--split", "test", "--method", "ig"],
            "a/seed0 has no scores by ig on test, only test/",
        ),
    ],
)
def test_impossible_comparison_is_refused_by_name(runs, monkeypatch, arguments, message):
    monkeypatch.chdir(runs[0].parents[1])
    assert message in refusal("stability", *arguments)


def test_runs_without_scores_in_common_are_named(runs):
    shutil.rmtree(runs[1] / "attributions")
    message = refusal("stability", *runs)
    assert f"{runs[1]} has none): test the runs with the same methods and an AttributionCacheWriter" in message


def test_method_with_other_settings_is_refused(runs):
    file = scores_of(runs[1]) / "store.json"
    facts = json.loads(file.read_text())
    facts["method"]["pooling"] = "other"
    file.write_text(json.dumps(facts))
    message = refusal("stability", *runs)
    assert "b/seed0" in message and "'pooling': 'other'" in message and "use the same method settings" in message


@pytest.mark.parametrize(
    "store, change, message",
    [
        (
            "",
            lambda rows: rows[1:],
            "b/seed0/attributions/test/input_x_gradient has no scores for class",
        ),
        ("", lambda rows: [*rows, ((99, 0), rows[0][1])], "has scores for class 0 of the example with index 99, which"),
        ("", lambda rows: [(rows[0][0], rows[0][1][:-1]), *rows[1:]], "tokens for the example with index 0, "),
        ("tokens", lambda rows: rows[1:], "does not tell which tokens of the example with index 0 may be explained"),
        (
            "tokens",
            lambda rows: [(rows[0][0], 1 - rows[0][1]), *rows[1:]],
            "do not have the same explainable tokens in the example with index 0",
        ),
    ],
    ids=["missing", "additional", "length", "no mask", "other mask"],
)
def test_scores_of_other_examples_are_refused_before_anything_is_written(runs, store, change, message):
    change_rows(scores_of(runs[1]) / store, change)
    assert message in refusal("stability", *runs)
    assert not (runs[0].parents[1] / "report").exists()


@pytest.mark.slow
def test_two_processes_compare_as_one_does(trained):
    folder, _ = trained
    command(*untrained_argv(folder, "one"))
    codes, outputs = run_ranks(*untrained_argv(folder, "two"), *TWO, folder=folder)
    assert codes == [0, 0], outputs
    assert [output.count("below the diagonal") for output in outputs] == [1, 0]
    one, two = (pd.read_csv(folder / "runs" / name / "seed0" / "stability" / "test.csv") for name in ("one", "two"))
    pd.testing.assert_frame_equal(two.replace("two.seed0", "one.seed0"), one, check_exact=True)
