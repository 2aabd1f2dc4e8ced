"""A test says which weights it measures, and only results of the same weights are recalled."""

import pandas as pd
import pytest
from lightning import Callback, Trainer

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.chains.fresh import FRESH
from lightning_xai.commands.tested import facts_of_test, recall_results
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.folder import RunFolder
from tests.conftest import tiny_classifier


@pytest.mark.parametrize(
    ("status", "trained", "subcommand", "says_so"),
    [
        ("running", False, "test", True),  # killed in its training
        ("running", True, "test", False),  # killed in its test
        ("running", True, "fit", False),
        ("finished", True, "predict", False),
    ],
)
def test_checkpoint_of_a_training_that_has_not_ended_is_named(plain_copy, capsys, status, trained, subcommand, says_so):
    run = RunFolder(plain_copy)
    run.write_manifest(status=status, trained=trained)
    path = str(run.best_checkpoint)
    facts_of_test(run, Supervised(tiny_classifier("bert")), path, {}, command=subcommand)
    line = f"{run.path}: training has not ended, so best.ckpt may come from an early epoch\n"
    assert capsys.readouterr().out == (line if says_so else "")


OTHER = {"trainer.limit_test_batches": 1}


@pytest.mark.parametrize(
    ("checkpoint", "callbacks", "is_recalled"),
    [(None, [], True), ("of an earlier training", [], False), (None, [FRESH({"gradient": Gradient()})], False)],
    ids=["same weights", "other weights", "chain"],
)
def test_results_of_the_same_weights_are_recalled(plain_copy, checkpoint, callbacks: list[Callback], is_recalled):
    run = RunFolder(plain_copy)
    settings = (run.settings or {}) | OTHER
    rows = pd.DataFrame({"checkpoint": [checkpoint or run.results_table.checkpoint], "value": [0.5]})
    run.results_table.kept(settings).write(rows, settings)
    before = run.results_table.csv.read_bytes()
    recall_results(run, settings, Trainer(accelerator="cpu", logger=False, callbacks=callbacks))
    assert (run.results_table.csv.read_bytes() != before) == is_recalled
    assert run.results_table.kept(settings).exists != is_recalled
