"""tables compares models over their seeds: runs of this package, and result files of Edin et al. (2024)."""

import pandas as pd
import pytest

from lightning_xai.runs.results_table import ResultsTable
from tests.commands.conftest import command, refusal

pytestmark = pytest.mark.slow

COST = {"forward_passes": 1.0, "backward_passes": 1.0, "seconds": 0.5}


def write_run(folder, values: dict[str, float], preset: str = "edin", method: str = "attention"):
    """Writes the results of one run: one method, and the micro-F1 of the classifier."""
    folder.mkdir(parents=True)
    rows = [{"preset": preset, "method": method, "metric": name, "value": value} for name, value in values.items()]
    rows.append({"preset": "", "method": "", "metric": "present_micro_f1", "value": 0.5})
    table = pd.DataFrame([COST | {"split": "test", "checkpoint": "0a1b"} | row for row in rows])
    ResultsTable(folder).write(table, {})


@pytest.fixture
def runs(tmp_path):
    for seed, f1 in enumerate([0.3, 0.5]):
        write_run(tmp_path / "bu" / f"seed{seed}", {"evidence/f1": f1, "evidence/missed_f1": 0.2, "entropy": 0.5})
    write_run(tmp_path / "tm" / "seed0", {"evidence/f1": 0.6, "evidence/zeroed_f1": 0.7, "symbol_share/top_5": 0.1})
    return tmp_path


def test_models_are_compared_and_marked(runs):
    printed = command("tables", runs / "bu", runs / "tm", "--unsupervised", "bu")
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    assert {"attention bu 40.0+-10.0 2", "attention tm 60.0* 1"} <= lines
    assert {"attention bu 20.0+-0.0 2", "attention tm 60.0* 70.0 1"} <= lines  # missed; before and after
    assert {"bu 50.0+-0.0 2", "attention bu 0.50+-0.00 2"} <= lines  # prediction; entropy
    report = runs / "report" / "tables_edin_test"
    files = {"compared.json", "tables.csv", "tables.md", "plausibility.png", "approaches.png"}
    assert {path.name for path in report.iterdir()} == files
    assert "| attention | tm | **60.0** | 1 |" in (report / "tables.md").read_text()


def test_a_single_run_has_no_deviation(runs):
    printed = command("tables", runs / "tm")
    assert "mean and, for several runs, population standard deviation" in printed and "+-" not in printed
    report = runs / "tm" / "report" / "tables_edin_test"
    assert "±" not in (report / "tables.md").read_text()
    assert pd.read_csv(report / "tables.csv")["std"].isna().all()


def test_runs_in_the_format_of_the_authors_are_read(shared, tmp_path):
    folder = shared / "golden" / "edin_results" / "perturbation"
    printed = command("tables", folder, "--output", tmp_path)
    assert "lime perturbation" in printed and (tmp_path / "tables.csv").is_file()


def test_what_cannot_be_compared_is_refused(runs):
    assert "give folders of finished runs" in refusal("tables")
    assert "does not exist" in refusal("tables", runs / "typo")
    assert "give the folder of an experiment with tested runs" in refusal("tables", runs)
    assert "2 names for 1 model:" in refusal("tables", runs / "bu", "--names", "a", "b")
    assert "supervised is 'b', but the models are bu" in refusal("tables", runs / "bu", "--supervised", "b")


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (
            ["--preset", "eraser"],
            "test this run with presets/eraser.yaml, or choose another with --preset (this run has edin)",
        ),
        (["--preset", "stability"], "choose another with --preset (this run has edin)"),
        (["--split", "nyt"], "choose another with --split (this run has test)"),
    ],
)
def test_a_missing_preset_or_split_is_refused_with_a_remedy_that_the_run_allows(runs, options, remedy):
    line = refusal("tables", runs / "bu", *options)
    assert line.startswith(f"error: {runs / 'bu' / 'seed0'} has no results for split ") and line.endswith(f": {remedy}")


def test_a_run_without_any_preset_is_not_to_be_tested_with_a_preset_alone(runs):
    run = runs / "bu" / "seed2"
    write_run(run, {})
    line = refusal("tables", runs / "bu")
    assert f"{run} has no results for split 'test' and preset 'edin': this run has no preset: move its folder" in line
    run.rename(runs / "seed2")
    assert "attention bu" in command("tables", runs / "bu")


def test_the_table_of_costs_states_the_gain_of_methods_that_encode_segments_once(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    write_run(tmp_path / "bu" / "seed0", {"entropy": 0.5})
    assert "gain" not in command("tables", tmp_path / "bu")
    rows: list[dict[str, object]] = [
        {"method": "occlusion", "version_segments": 47.0, "encoded_segments": 1.0},
        {"method": "gradient", "version_segments": None, "encoded_segments": None},
    ]
    facts = {"split": "test", "checkpoint": "0a1b", "preset": "edin", "metric": "entropy", "value": 0.5}
    common: dict[str, object] = {**COST, **facts}
    ResultsTable(tmp_path / "bu" / "seed0").write(pd.DataFrame([common | row for row in rows]), {})
    lines = {" ".join(line.split()) for line in command("tables", tmp_path / "bu").splitlines()}
    passes = "1.00 1.00 0.50"
    assert f"occlusion bu {passes} 47.00 1.00 47.00 1" in lines
    assert f"gradient bu {passes} - - - 1" in lines
