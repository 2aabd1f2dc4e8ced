"""The table of a test's results, and the files that it is written to."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.results import COLUMNS, ResultsFile
from lightning_xai.data.sources.planted import Planted
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.facts import FactsOfTest, RunFacts
from lightning_xai.runs.format import FORMAT
from lightning_xai.runs.results_table import ResultsTable
from tests.callbacks.conftest import compute, evaluation, planted_data, trainer
from tests.conftest import tiny_classifier

RESULTS = ["results.csv", "results.json", "results.parquet"]


def run_test(
    folder: Path,
    objective,
    *callbacks,
    checkpoint: str = "abc",
    stem: str = "results",
    dry: bool = False,
    data=None,
    **settings,
) -> ResultsFile:
    """Returns the callback after a test of the experiment "tm"."""
    results = ResultsFile(RunFacts("tm", seed=3, settings=settings))
    results.begin(FactsOfTest(checkpoint, ResultsTable(folder, stem)))
    run = trainer(folder, results, *callbacks, fast_dev_run=dry)
    run.test(objective, datamodule=data or planted_data(), verbose=False)
    return results


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.is_file())


def test_table_has_the_numbers_of_the_objective_and_of_evaluations(objective, tmp_path):
    table = run_test(tmp_path, objective, compute(Random()), evaluation("preset")).table
    assert table is not None and list(table.columns) == COLUMNS
    assert set(table["preset"]) == {"", "preset"}
    assert set(table.query("preset == ''")["split"]) == {"validation", "test"}
    assert set(table[["experiment", "seed", "checkpoint"]].itertuples(index=False, name=None)) == {("tm", 3, "abc")}


class Always(Supervised):
    """Predicts the same logits for every example."""

    def __init__(self, network, logits: list[float]) -> None:
        super().__init__(network)
        self.row = torch.tensor([logits])

    def evaluate(self, batch):
        logits = self.row.expand(len(batch), -1)
        return {"logits": logits, "probs": self.network.probabilities(logits)}


@pytest.mark.parametrize(
    ("multilabel", "logits", "names"),
    [
        (False, [0.0, 9.0, 0.0], "'class1'"),
        (True, [-9.0, 9.0, 9.0], "'class1', 'class2'"),
        (True, [-9.0, -9.0, -9.0], None),
    ],
)
def test_a_network_that_predicts_the_same_for_all_texts_is_named(tmp_path, capsys, multilabel, logits, names):
    network = tiny_classifier("plm_ca", num_classes=3) if multilabel else tiny_classifier("bert")
    source = Planted(num_classes=3, multilabel=multilabel, num_train=8, num_validation=8, num_test=8)
    run_test(tmp_path, Always(network, logits), data=planted_data(source=source))
    lines = capsys.readouterr().out.splitlines()
    fact = "no class is ever predicted" if names is None else f"every prediction is {names}"
    said = [line for line in lines if "explanations say little" in line]
    assert said == [f"test: {fact}, so explanations say little"]
    few = Planted(num_classes=3, multilabel=multilabel, num_train=8, num_validation=8, num_test=7)
    run_test(tmp_path, Always(network, logits), data=planted_data(source=few))
    assert "explanations say little" not in capsys.readouterr().out


def test_a_network_that_predicts_two_classes_is_not_named(objective, tmp_path, capsys):
    run_test(tmp_path, objective, data=planted_data(source=Planted(num_classes=3, num_train=8, num_test=20)))
    assert "explanations say little" not in capsys.readouterr().out


def test_both_files_hold_the_table(objective, tmp_path):
    table = run_test(tmp_path, objective).table
    assert table is not None and files(tmp_path) == RESULTS
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "results.parquet"), table)
    assert len(pd.read_csv(tmp_path / "results.csv")) == len(table)


def test_results_of_another_checkpoint_are_replaced(objective, tmp_path):
    run_test(tmp_path, objective, checkpoint="first")
    run_test(tmp_path, objective, checkpoint="third")
    assert set(pd.read_csv(tmp_path / "results.csv")["checkpoint"]) == {"third"}
    assert files(tmp_path) == RESULTS


def test_results_go_to_the_files_of_the_test(objective, tmp_path):
    run_test(tmp_path, objective, checkpoint="abc", stem="results_abc_d0")
    assert files(tmp_path) == [f"results_abc_d0.{ending}" for ending in ("csv", "json", "parquet")]


def test_settings_stand_beside_the_table(objective, tmp_path):
    run_test(tmp_path, objective, checkpoint="abc", lr=3)
    facts = json.loads((tmp_path / "results.json").read_text())
    assert facts == {"format": FORMAT, "checkpoint": "abc", "settings": {"lr": 3}}


def test_dry_run_writes_no_file(objective, tmp_path):
    assert run_test(tmp_path, objective, dry=True).table is not None
    assert files(tmp_path) == []


def test_validation_makes_a_table_and_no_file(objective, tmp_path):
    results = ResultsFile(RunFacts("tm", seed=0))
    trainer(tmp_path, results).validate(objective, datamodule=planted_data(), verbose=False)
    assert results.table is not None and set(results.table["split"]) == {"validation"}
    assert {"accuracy", "log_loss"} <= set(results.table["metric"])
    assert files(tmp_path) == []


@pytest.mark.parametrize("tests_after_fit", [True, False])
def test_test_splits_are_checked_before_a_fit_that_ends_with_a_test(objective, tmp_path, tests_after_fit):
    data = planted_data(extra_test_splits=["missing"])
    results = ResultsFile(RunFacts("tm", seed=0, tests_after_fit=tests_after_fit))
    run = trainer(tmp_path, results, max_epochs=1, enable_checkpointing=False)
    if tests_after_fit:
        with pytest.raises(ValueError, match="there is no split 'missing'"):
            run.fit(objective, datamodule=data)
    assert run.global_step == 0
    if not tests_after_fit:
        run.fit(objective, datamodule=data)
        assert run.global_step == 1


def test_tensorboard_names_the_validation_split_val(objective, tmp_path):
    logger = TensorBoardLogger(tmp_path, name="", version="", default_hp_metric=False)
    callbacks = [ResultsFile(RunFacts("tm", seed=0)), compute(Random(), during_fit=True), evaluation(during_fit=True)]
    run = trainer(tmp_path, *callbacks, logger=logger, max_epochs=1, log_every_n_steps=1, enable_checkpointing=False)
    run.fit(objective, datamodule=planted_data())
    run.test(objective, datamodule=planted_data(), verbose=False)
    logger.finalize("success")
    parts = {part for tag in EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"] for part in tag.split("/")}
    assert {"train", "val", "test", "hp"} <= parts and "validation" not in parts
