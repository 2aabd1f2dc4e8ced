"""The FRESH chain by one command: its runs, its table, and kills."""

import functools
import json
import shutil
import weakref
from pathlib import Path

import pandas as pd
import pytest
import torch

from lightning_xai.data.corpora.corpus import Corpus
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.runs.stores.store import RaggedStore
from tests.commands.conftest import command, planted, refusal, save, tiny_config, weights
from tests.commands.test_chain import kill_when, status
from tests.commands.test_processes import TWO, kill_ranks_when, run_ranks

pytestmark = pytest.mark.slow


def fresh_config(folder: Path, **options) -> str:
    methods = {"gradient": {"class_path": "lightning_xai.attributions.gradient.Gradient"}}
    fresh = {
        "class_path": "lightning_xai.chains.fresh.FRESH", "init_args": {"methods": methods, "ratio": 0.3} | options,
    }  # fmt: skip
    config = tiny_config(callbacks=[fresh]) | {"data": planted(num_train=24, num_validation=8)}
    return save(config, folder / "fresh.json")


def rationales(runs: Path) -> dict[str, list]:
    stores = {s: RaggedStore(runs / "seed0" / "erasures" / "gradient" / s) for s in ("train", "validation", "test")}
    return {split: [store.get(*key).tolist() for key in store.keys()] for split, store in stores.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, str]:
    """The folder of runs of a chain that nothing interrupted, and what it printed."""
    folder = tmp_path_factory.mktemp("whole")
    printed = command("fit", "--config", fresh_config(folder), "--runs_dir", folder / "runs")
    return folder / "runs" / "fresh", printed


def test_each_stage_is_a_finished_run_of_its_own(whole):
    runs, printed = whole
    assert status(runs / "seed0") == status(runs / "gradient" / "seed0") == "finished"
    announced = [line for line in printed.splitlines() if line.startswith("FRESH stage")]
    assert announced[0] == "FRESH stage 1 of 2: extractor, full text"
    assert announced[1].startswith("FRESH stage 2 of 2: rationales of gradient, ")


def test_full_text_stands_beside_the_rationales(whole):
    runs, printed = whole
    table = pd.read_csv(runs / "seed0" / "fresh.csv", float_precision="round_trip").query("metric == 'macro_f1'")
    assert table[["method", "split", "run"]].to_records(index=False).tolist() == [
        ("full text", "test", "fresh/seed0"),
        ("gradient", "test", "fresh/gradient/seed0"),
    ]
    for value, run in table[["value", "run"]].itertuples(index=False, name=None):
        results = pd.read_parquet(runs.parent / run / "results.parquet")
        assert value == results.query("split == 'test' and metric == 'macro_f1'")["value"].item()
    assert "FRESH, macro_f1 in percent" in printed and "full text" in printed


@pytest.fixture(scope="module")
def own_classifier(tmp_path_factory) -> Path:
    """A folder with fresh.json, classifier.json and the finished runs of their chain."""
    folder = tmp_path_factory.mktemp("classifier")
    save({"trainer": {"max_epochs": 1}, "model": {"init_args": {"terms": None}}}, folder / "classifier.json")
    methods = {name.lower(): {"class_path": name} for name in ("Gradient", "Random")}
    config = fresh_config(folder, classifier="classifier.json", methods=methods)
    command("fit", "--config", config, "--runs_dir", folder / "runs")
    return folder


@pytest.mark.slow
def test_classifier_is_trained_as_its_own_configuration_says(own_classifier):
    runs = own_classifier / "runs" / "fresh"
    assert (runs / "seed0" / "config.yaml").read_text().count("max_epochs: 2") == 1
    for method in ("gradient", "random"):
        assert (runs / method / "seed0" / "config.yaml").read_text().count("max_epochs: 1") == 1


@pytest.mark.slow
def test_changed_classifier_of_a_finished_chain_is_refused_if_it_changes_the_training(own_classifier, tmp_path):
    copy = shutil.copytree(own_classifier, tmp_path / "copy")
    run = copy / "runs" / "fresh" / "gradient" / "seed0"
    argv = ["fit", "--config", copy / "fresh.json", "--runs_dir", copy / "runs"]
    (copy / "classifier.json").write_text("# the same in other words\ntrainer: {max_epochs: 1}")
    assert "FRESH, macro_f1 in percent" in command(*argv)
    (copy / "classifier.json").write_text("trainer: {max_epochs: 3}")
    assert f"{run} holds a run with other settings (trainer.max_epochs was 1, now 3)" in refusal(*argv)
    (copy / "classifier.json").write_text("trainer: {max_epochs: 1, limit_test_batches: 1}")
    trained = (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    assert f"{run} is trained already, so it is only tested" in command(*argv)
    assert (run / "checkpoints" / "last.ckpt").stat().st_mtime_ns == trained
    assert [len(list(folder.glob("results*.csv"))) for folder in (copy / "runs" / "fresh" / "seed0", run)] == [1, 2]


@pytest.mark.slow
def test_changed_evaluation_of_a_finished_chain_tests_all_of_its_runs(own_classifier, tmp_path):
    copy = shutil.copytree(own_classifier, tmp_path / "copy")
    runs = copy / "runs" / "fresh"
    (runs / "seed0" / "fresh.csv").unlink()
    argv = ["fit", "--config", copy / "fresh.json", "--runs_dir", copy / "runs", "--trainer.limit_test_batches", "1"]
    erased = rationales(runs)
    printed = command(*argv, "--data.init_args.eval_batch_size", "3")
    assert printed.count("is trained already") == 3 and "FRESH stage 3 of 3" in printed
    for run in (runs / "seed0", runs / "gradient" / "seed0"):
        table = pd.read_parquet(run / "results.parquet").query("split == 'test'")
        assert set(table["num_examples"]) == {3} and len(list(run.glob("results_*.csv"))) == 1
    assert (runs / "seed0" / "fresh.csv").exists() and rationales(runs) == erased


@pytest.mark.slow
def test_chain_is_added_to_a_finished_run_without_another_training(whole, tmp_path):
    plain = tiny_config(callbacks=[]) | {"data": planted(num_train=24, num_validation=8)}
    argv = ["fit", "--config", save(plain, tmp_path / "plain.json"), "--experiment", "fresh", "--runs_dir", tmp_path]
    run = tmp_path / "fresh" / "seed0"
    command(*argv)
    (run / "checkpoints" / "last.ckpt").unlink()  # best.ckpt is enough
    best = (run / "checkpoints" / "best.ckpt").stat().st_mtime_ns

    (chain,) = json.loads(Path(fresh_config(tmp_path)).read_text())["trainer"]["callbacks"]
    for arguments, message in (({"ratio": 2}, "ratio is 2"), ({"split_ratios": {"imdb": 0.1}}, "unknown split 'imdb'")):
        wrong = save(chain | {"init_args": chain["init_args"] | arguments}, tmp_path / "wrong.yaml")
        assert message in refusal(*argv, "--trainer.callbacks+", wrong)
    added = [*argv, "--trainer.callbacks+", save(chain, tmp_path / "chain.yaml")]
    assert f"{run} is trained already, so it is only tested" in command(*added)
    assert (run / "checkpoints" / "best.ckpt").stat().st_mtime_ns == best
    assert (run / "fresh.csv").read_text() == (whole[0] / "seed0" / "fresh.csv").read_text()
    assert rationales(run.parent) == rationales(whole[0])
    assert "is finished already" in command(*added)
    assert "FRESH', now None" in refusal(*argv)  # the rationales depend on the chain, so it must stay
    changed = refusal(*argv, "--config", fresh_config(tmp_path, ratio=0.5))
    assert "ratio was 0.3, now 0.5" in changed and f"remove {run / 'erasures'} and the runs of the later" in changed
    shutil.rmtree(run / "checkpoints")
    assert "is finished already" in command(*added)
    assert "has no checkpoint any more" in refusal(*added, "--trainer.limit_test_batches", "1")


@pytest.mark.slow
def test_texts_are_encoded_once_for_all_stages_of_a_process(tmp_path, monkeypatch):
    encode, encoded = VocabularyEncoder.encode_table, []

    def counted(encoder, examples):
        encoded.append(len(examples))
        return encode(encoder, examples)

    monkeypatch.setattr(VocabularyEncoder, "encode_table", counted)
    monkeypatch.setenv("LIGHTNING_XAI_CACHE", str(tmp_path / "cache"))
    command("fit", "--config", fresh_config(tmp_path), "--runs_dir", tmp_path / "runs", "--trainer.max_epochs", "1")
    assert status(tmp_path / "runs" / "fresh" / "gradient" / "seed0") == "finished"
    assert sorted(encoded) == [7, 8, 24]


@pytest.mark.slow
def test_the_data_of_a_stage_are_closed_before_the_next_stage_opens_its_own(tmp_path, monkeypatch):
    opened: list[weakref.ref[Corpus]] = []
    alive: list[int] = []  # for each stage, the number of open corpora when its data module is made
    make, read = TextDataModule.__init__, Corpus.__init__

    @functools.wraps(make)
    def counted(data, *args, **kwargs):
        alive.append(sum(corpus() is not None for corpus in opened))
        make(data, *args, **kwargs)

    def noted(corpus, folder):
        opened.append(weakref.ref(corpus))
        read(corpus, folder)

    monkeypatch.setattr(TextDataModule, "__init__", counted)
    monkeypatch.setattr(Corpus, "__init__", noted)
    command("fit", "--config", fresh_config(tmp_path), "--runs_dir", tmp_path / "runs", "--trainer.max_epochs", "1")
    assert status(tmp_path / "runs" / "fresh" / "gradient" / "seed0") == "finished"
    assert opened and len(alive) >= 2 and set(alive) == {0}


@pytest.mark.slow
def test_chain_killed_in_and_between_its_stages_ends_with_the_same_numbers(whole, tmp_path):
    runs = tmp_path / "runs" / "fresh"
    argv = ["fit", "--config", fresh_config(tmp_path), "--runs_dir", str(tmp_path / "runs")]

    kill_when((runs / "seed0" / "erasures" / "gradient" / "train" / "0.rows").exists, argv)  # while it extracts
    kill_when((runs / "gradient" / "seed0" / "checkpoints" / "last.ckpt").exists, argv)  # while a classifier trains
    command(*argv)

    assert (runs / "seed0" / "fresh.csv").read_text() == (whole[0] / "seed0" / "fresh.csv").read_text()
    assert rationales(runs) == rationales(whole[0])


@pytest.mark.slow
def test_chain_of_two_processes_killed_in_its_stages_ends_with_the_same_numbers(tmp_path):
    folders = [tmp_path / "whole", tmp_path / "killed"]
    commands = []
    for folder in folders:
        folder.mkdir()
        commands.append(["fit", "--config", fresh_config(folder), "--runs_dir", str(folder / "runs"), *TWO])
    whole, killed = (folder / "runs" / "fresh" for folder in folders)
    rows = killed / "seed0" / "erasures" / "gradient" / "train" / "1.rows"  # of the second process
    last = killed / "gradient" / "seed0" / "checkpoints" / "last.ckpt"

    kill_ranks_when(rows.exists, commands[1], folders[1])  # while it extracts
    assert status(killed / "seed0") == "running"
    kill_ranks_when(last.exists, commands[1], folders[1])  # while a classifier trains
    assert status(killed / "gradient" / "seed0") == "running"
    for argv, folder in zip(commands, folders, strict=True):
        codes, outputs = run_ranks(*argv, folder=folder)
        assert codes == [0, 0], outputs

    assert f"{last.parents[1]}: resuming from last.ckpt" in (folders[1] / "rank0.log").read_text()
    assert (killed / "seed0" / "fresh.csv").read_text() == (whole / "seed0" / "fresh.csv").read_text()
    assert rationales(killed) == rationales(whole)
    for name in ("", "gradient"):
        found, wanted = (weights(runs / name / "seed0") for runs in (killed, whole))
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
