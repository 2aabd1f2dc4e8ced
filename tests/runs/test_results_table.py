"""Tables of results keep what they were made with, and an evaluation does not overwrite another one."""

import os
import time

import pandas as pd
import pytest

from lightning_xai.runs.evaluation_settings import hash_of_evaluation
from lightning_xai.runs.results_table import ResultsTable, run_results

SMALL, LARGE = {"trainer.limit_test_batches": 1, "lr": 1}, {"trainer.limit_test_batches": 2, "lr": 1}
EARLIER = f"results_{hash_of_evaluation(SMALL)}"


def rows(value: float) -> pd.DataFrame:
    return pd.DataFrame({"checkpoint": ["abc"], "value": [value]})


def test_table_of_another_evaluation_stays_under_the_hash_of_its_settings(tmp_path):
    table, earlier = ResultsTable(tmp_path), ResultsTable(tmp_path, EARLIER)
    table.write(rows(0.5), SMALL)
    table.write(rows(0.75), LARGE)
    assert pd.read_parquet(table.parquet)["value"].tolist() == pd.read_csv(table.csv)["value"].tolist() == [0.75]
    assert pd.read_parquet(earlier.parquet)["value"].tolist() == pd.read_csv(earlier.csv)["value"].tolist() == [0.5]
    assert (table.settings, earlier.settings) == (LARGE, SMALL)


def test_table_of_the_same_evaluation_is_replaced(tmp_path):
    table = ResultsTable(tmp_path)
    table.write(rows(0.5), SMALL)
    table.write(rows(0.75), SMALL | {"lr": 2})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["results.csv", "results.json", "results.parquet"]


def test_table_without_its_settings_is_replaced(tmp_path):
    table = ResultsTable(tmp_path)
    rows(0.5).to_parquet(table.parquet)  # as before tables had settings beside them
    table.write(rows(0.75), LARGE)
    assert table.settings == LARGE and not list(tmp_path.glob("results_*"))


@pytest.mark.parametrize("num_moved", [1, 2])
def test_table_whose_move_was_killed_is_moved_by_the_next_test(tmp_path, monkeypatch, num_moved):
    table, earlier = ResultsTable(tmp_path), ResultsTable(tmp_path, EARLIER)
    table.write(rows(0.5), SMALL)
    earlier.write_settings(SMALL, "abc")  # the first step of a move
    for old, new in [(table.csv, earlier.csv), (table.parquet, earlier.parquet)][:num_moved]:
        old.rename(new)
    table.write(rows(0.75), LARGE)
    assert pd.read_csv(earlier.csv)["value"].tolist() == pd.read_parquet(earlier.parquet)["value"].tolist() == [0.5]
    assert (table.settings, earlier.settings) == (LARGE, SMALL)


def test_pages_follow_their_table_and_replace_no_others(tmp_path):
    table, page = ResultsTable(tmp_path), tmp_path / "heatmaps" / "test.html"
    other = tmp_path / f"heatmaps_{hash_of_evaluation(LARGE)}" / "validation.html"
    other.parent.mkdir()
    other.write_text("by predict")
    for number, settings in enumerate([SMALL, LARGE, SMALL, LARGE]):
        table.keep_pages(settings)
        page.parent.mkdir(exist_ok=True)
        page.write_text(str(number))
        table.write(rows(number), settings)
    folders = {folder.name: {file.name: file.read_text() for file in folder.iterdir()} for folder in pages(tmp_path)}
    assert folders == {
        "heatmaps": {"test.html": "3"},
        f"heatmaps_{hash_of_evaluation(SMALL)}": {"test.html": "2"},
        f"heatmaps_{hash_of_evaluation(LARGE)}": {"test.html": "1", "validation.html": "by predict"},
    }


def pages(folder):
    return sorted(folder.glob("heatmaps*"))


def test_a_recalled_table_and_its_pages_become_the_current_ones(tmp_path):
    table, page = ResultsTable(tmp_path), tmp_path / "heatmaps" / "test.html"
    for number, settings in enumerate([SMALL, LARGE]):
        table.keep_pages(settings)
        page.parent.mkdir(exist_ok=True)
        page.write_text(str(number))
        table.write(rows(number), settings)
    table.recall(SMALL)
    assert (table.settings, page.read_text()) == (SMALL, "0")
    assert pd.read_csv(table.csv)["value"].tolist() == pd.read_parquet(table.parquet)["value"].tolist() == [0]
    kept = table.kept(LARGE)
    assert pd.read_csv(kept.csv)["value"].tolist() == [1]
    assert (kept.settings, (kept.heatmaps_dir / "test.html").read_text()) == (LARGE, "1")


def test_pages_of_a_test_whose_repetition_was_killed_come_back(tmp_path):
    table, page = ResultsTable(tmp_path), tmp_path / "heatmaps" / "test.html"
    page.parent.mkdir()
    page.write_text("first")
    table.write(rows(0.5), SMALL)
    table.keep_pages(LARGE)
    page.write_text("drawn before the kill")
    os.utime(page, (time.time() + 60, time.time() + 60))
    table.recall(SMALL)
    assert (table.settings, page.read_text()) == (SMALL, "first")


def test_a_recall_that_was_killed_is_finished_by_the_next_one(tmp_path):
    table = ResultsTable(tmp_path)
    table.write(rows(0.5), SMALL)
    table.csv.rename(table.kept(SMALL).csv)  # the first step of a recall of another table
    table.recall(SMALL)
    assert pd.read_csv(table.csv)["value"].tolist() == [0.5] and table.settings == SMALL


def test_a_csv_file_that_killed_moves_have_lost_is_written_again(tmp_path):
    table = ResultsTable(tmp_path)
    table.write(rows(0.5), SMALL)
    kept = table.move(EARLIER)
    kept.csv.rename(table.csv)  # a recall was killed after this step
    table.write(rows(0.75), LARGE)
    table.recall(SMALL)
    assert pd.read_csv(table.csv)["value"].tolist() == [0.5]
    assert pd.read_csv(table.kept(LARGE).csv)["value"].tolist() == [0.75]


def evaluated(value: float, *methods: str, split: str = "test") -> pd.DataFrame:
    row = {"checkpoint": "abc", "preset": "er", "metric": "auroc", "split": split, "value": value}
    return pd.DataFrame([row | {"method": method} for method in methods])


def test_results_of_a_split_and_a_preset_come_from_one_test(tmp_path):
    other = {"data.init_args.max_examples.test": 8}
    ResultsTable(tmp_path).write(evaluated(0.5, "attention"), SMALL)
    more = {"data.init_args.num_workers": 4}  # the examples are the same
    ResultsTable(tmp_path, "results_methods").write(evaluated(0.6, "attention", "random"), SMALL | more)
    preset = evaluated(0.9, "random").assign(preset="edin")
    ResultsTable(tmp_path, "results_preset").write(preset, SMALL | more)
    later = pd.concat([evaluated(0.7, "random"), evaluated(0.8, "random", split="imdb")])
    ResultsTable(tmp_path, "results_examples").write(later, SMALL | other)
    found = run_results(tmp_path)
    values = {(row.split, row.preset, row.method): row.value for row in found.itertuples()}
    kept = {("test", "er", "attention"): 0.5, ("imdb", "er", "random"): 0.8, ("test", "edin", "random"): 0.9}
    assert values == kept
    (tmp_path / "results.json").unlink()  # as an older version left it
    assert len(run_results(tmp_path)) == 3


def test_a_later_test_of_other_splits_adds_what_the_own_table_lacks(tmp_path):
    own = {"split": "validation", "preset": "", "method": "", "metric": "f1", "checkpoint": "abc", "value": 0.5}
    later = [own | {"value": 0.25}, own | {"preset": "er", "method": "attention", "metric": "auroc", "value": 0.75}]
    ResultsTable(tmp_path).write(pd.DataFrame([own]), {"data.init_args.extra_test_splits": None})
    named = {"data.init_args.extra_test_splits.0": "validation"}
    for settings, values in ((named, [0.5, 0.75]), (named | {"data.init_args.max_examples": 3}, [0.5])):
        ResultsTable(tmp_path, "results_12ab").write(pd.DataFrame(later), settings)
        assert run_results(tmp_path)["value"].tolist() == values
