"""The command `test` never replaces results of another kind; the names of its files tell the kind."""

import pandas as pd
import pytest

from lightning_xai.runs.evaluation_settings import hash_of_evaluation
from lightning_xai.runs.facts import table_of_test
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.results_table import ResultsTable
from lightning_xai.runs.run_state import begin_run
from lightning_xai.runs.settings import hash_of_test_data

OWN = {"data.init_args.max_examples.test": 7, "data.init_args.eval_batch_size": 8}
OTHER_DATA = OWN | {"data.init_args.max_examples.test": 8}
OTHER_EVALUATION = OWN | {"data.init_args.eval_batch_size": 4}
DATA, EVALUATION = hash_of_test_data(OTHER_DATA), hash_of_evaluation(OTHER_EVALUATION)


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """A run whose own checkpoint is "first"."""
    run = RunFolder(tmp_path)
    begin_run(run, OWN)
    ResultsTable(tmp_path).write(pd.DataFrame({"checkpoint": ["first"]}), OWN)
    return run


@pytest.mark.parametrize(
    ("checkpoint", "settings", "stem"),
    [
        ("first", OWN, "results"),
        ("second", OWN, "results_second"),
        ("first", OTHER_DATA, f"results_first_{DATA}"),
        ("second", OTHER_DATA, f"results_second_{DATA}"),
        ("first", OTHER_EVALUATION, f"results_{EVALUATION}"),
    ],
)
def test_kind_of_results_has_its_own_files(run, checkpoint, settings, stem):
    assert table_of_test(run, checkpoint, settings).stem == stem


@pytest.mark.parametrize("checkpoint", ["first", "second"])
def test_second_evaluation_of_one_kind_has_its_own_files(run, checkpoint):
    table = table_of_test(run, checkpoint, OWN)
    table.write(pd.DataFrame({"checkpoint": [checkpoint]}), OWN)
    assert table_of_test(run, checkpoint, OTHER_EVALUATION).stem == f"{table.stem}_{EVALUATION}"
    assert table_of_test(run, checkpoint, OWN) == table


def test_table_without_settings_beside_it_was_made_with_those_of_its_run(run):
    run.results_table.settings_file.unlink()
    assert table_of_test(run, "first", OWN).stem == "results"
    assert table_of_test(run, "first", OTHER_EVALUATION).stem == f"results_{EVALUATION}"
