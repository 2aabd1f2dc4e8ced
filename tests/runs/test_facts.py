"""No command replaces files of another kind of evaluation; the names of its files tell the kind."""

import pandas as pd
import pytest

from lightning_xai.runs.evaluation_settings import hash_of_evaluation
from lightning_xai.runs.facts import table_of_prediction, table_of_test
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.results_table import ResultsTable
from lightning_xai.runs.run_state import begin_run
from lightning_xai.runs.settings import hash_of_test_data

OWN = {"data.init_args.max_examples.test": 7, "data.init_args.eval_batch_size": 8}
OTHER_DATA = OWN | {"data.init_args.max_examples.test": 8}
OTHER_CHOICE = OWN | {"data.init_args.stratify": True}
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
        ("first", OTHER_CHOICE, f"results_first_{hash_of_test_data(OTHER_CHOICE)}"),
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


@pytest.mark.parametrize(
    ("checkpoint", "settings", "suffix"),
    [
        ("first", OWN, ""),
        ("first", OWN | {"data.init_args.predict_split": "validation"}, ""),
        ("second", OWN, f"_second_{hash_of_evaluation(OWN)}"),
        ("first", OTHER_DATA, f"_{DATA}_{hash_of_evaluation(OTHER_DATA)}"),
        ("first", OTHER_EVALUATION, f"_{EVALUATION}"),
        ("second", OTHER_EVALUATION, f"_second_{EVALUATION}"),
    ],
)
@pytest.mark.parametrize("is_tested", [True, False])
def test_predictions_have_the_same_names_before_and_after_other_tests(run, checkpoint, settings, suffix, is_tested):
    if is_tested:
        ResultsTable(run.path, "results_second").write(pd.DataFrame({"checkpoint": ["second"]}), OTHER_EVALUATION)
    else:  # a fit without a test
        for file in run.path.glob("results.*"):
            file.unlink()
    assert table_of_prediction(run, checkpoint, settings, best="first").suffix == suffix


def test_predictions_without_a_run_are_named_by_their_weights_and_settings(tmp_path):
    names = {
        table_of_prediction(RunFolder(tmp_path), checkpoint, settings).suffix
        for checkpoint in ("first", "second")
        for settings in (OWN, OTHER_EVALUATION)
    }
    assert len(names) == 4 and "" not in names


def test_a_training_from_the_start_keeps_the_table_and_the_pages_of_a_run_without_weights(run):
    page = run.heatmap_page("test")
    page.parent.mkdir()
    page.write_text("first")
    run.manifest_file.unlink()
    begin_run(run, OWN)
    assert run.heatmap_page("test", "_first").read_text() == "first" and not page.exists()
    assert ResultsTable(run.path, "results_first").exists and not run.is_tested
