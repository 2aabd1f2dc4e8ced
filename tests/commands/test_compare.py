"""`run.py compare`: tables and pictures of experiments, from tables of results made by hand."""

import math
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from tests.commands.conftest import command, refusal
from tests.report.conftest import write_results

pytestmark = pytest.mark.slow

AUROC = "rationale/auroc"


def experiments(folder: Path, *, layers: bool = False, sizes: bool = False) -> list[Path]:
    """Two experiments of three seeds; the AUROC of attention on test rises with F1 out of domain."""
    folders = []
    for number, name in enumerate(["baseline", "joint"]):
        for seed in range(3):
            level = 0.5 + 0.1 * number + 0.02 * seed
            numbers = {
                ("test", "", "", "macro_f1"): 0.9 - 0.01 * seed,
                ("validation", "", "", "macro_f1"): 0.88,
                ("test", "er", "attention", AUROC): level,
                ("test", "er", "rollout", AUROC): 0.6 - level / 2,
            }
            if layers:
                numbers |= {("test", "er", f"alti_layer{i}", AUROC): 0.5 + 0.1 * i for i in range(3)}
            if sizes:
                numbers |= {
                    ("test", "er", "attention", f"normalized_{kind}/{k}"): k / 100
                    for kind in ("sufficiency", "comprehensiveness")
                    for k in (1, 20, 100)
                }
            write_results(folder / name, seed, numbers)
            other = {("imdb", "", "", "macro_f1"): level, ("yelp", "", "", "macro_f1"): level + 0.1}
            other |= {("imdb", "er", "attention", AUROC): 0.4, ("imdb", "er", "rollout", AUROC): level / 2}
            write_results(folder / name, seed, other, stem="results_12ab")
        folders.append(folder / name)
    return folders


def test_tables_have_a_row_for_each_experiment_and_a_column_for_each_split_or_method(tmp_path):
    lines = command("compare", *experiments(tmp_path)).splitlines()
    header, baseline, joint = (line.split() for line in lines[1:4])
    assert header == ["test", "validation", "imdb", "yelp"]
    assert baseline == ["baseline", "89.0", "(1.0)", "88.0", "(0.0)", "52.0", "(2.0)", "62.0", "(2.0)"]
    assert joint[0] == "joint" and joint[-4:] == ["*62.0", "(2.0)", "*72.0", "(2.0)"]
    place = lines.index(f"{AUROC} on test, in percent")
    assert [line.split() for line in lines[place + 1 : place + 4]] == [
        ["attention", "rollout"],
        ["baseline", "52.0", "(2.0)", "34.0", "(1.0)"],
        ["joint", "*62.0", "(2.0)", "*29.0", "(1.0)"],
    ]
    assert any(line.startswith("* differs from baseline") for line in lines)
    assert all(len(line) <= 80 for line in lines if not line.startswith("written:"))
    start = next(i for i, line in enumerate(lines) if line.startswith("no run has "))
    missing = lines[start : lines.index("", start)]
    assert AUROC not in missing[0] and any(line.startswith("--plausibility takes") for line in missing)


@pytest.mark.parametrize(("columns", "num_blocks"), [(80, 2), (200, 1)])
def test_tables_of_many_methods_fit_the_terminal(columns, num_blocks, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    numbers = {("test", "er", f"method_number_{i}", AUROC): 0.5 for i in range(12)}
    write_results(tmp_path / "baseline", 0, {("test", "", "", "macro_f1"): 0.9, **numbers})
    lines = [line for line in command("compare", tmp_path / "baseline").splitlines() if "method_" in line]
    assert len(lines) == num_blocks and max(map(len, lines)) <= columns


def test_correlations_are_over_all_runs_and_their_pictures_are_written(tmp_path):
    printed = command("compare", *experiments(tmp_path))
    assert f"{AUROC} of attention on test: r = 1.00 [1.00, 1.00], 6 runs" in printed
    assert f"{AUROC} of rollout on test: r = -1.00 [-1.00, -1.00], 6 runs" in printed
    folder = tmp_path / "report" / "compare"
    assert {file.name for file in folder.iterdir()} == {
        "compared.json", "results.csv", "differences.csv", "correlations.csv", "spread.png", "scatter.png",
        "scatter_plausibility.png",
    }  # fmt: skip
    frame = pd.read_csv(folder / "correlations.csv").set_index(["x", "y"])["pearson"].to_dict()
    assert frame["macro_f1 on test", "macro_f1 on yelp"] < 0
    assert math.isnan(frame[f"{AUROC} of attention on test", f"{AUROC} of attention on imdb"])
    for picture in folder.glob("*.png"):
        assert Image.open(picture).size[0] > 500


def test_plausibility_out_of_domain_is_correlated_with_the_metric_and_with_the_same_method(tmp_path):
    lines = command("compare", *experiments(tmp_path)).splitlines()
    place = lines.index(f"{AUROC} of rollout out of domain with")
    assert lines[place + 1].startswith("  macro_f1 on test: r = ")
    assert lines[place + 2] == f"  {AUROC} of rollout on test: r = -1.00 [-1.00, -1.00], 6 runs"


def test_layers_and_sizes_get_pictures_and_stay_out_of_tables_and_correlations(tmp_path):
    printed = command("compare", *experiments(tmp_path, layers=True, sizes=True), "--output", tmp_path / "here")
    assert "alti_layer" not in printed + (tmp_path / "here" / "correlations.csv").read_text()
    assert {"layers.png", "faithfulness.png"} <= {file.name for file in (tmp_path / "here").iterdir()}


def test_splits_out_of_domain_may_be_chosen(tmp_path):
    assert "mean over the splits yelp\n" in command("compare", *experiments(tmp_path), "--out_of_domain", "yelp")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric", "f2"], "no run has the metric 'f2': choose one of macro_f1"),
        (["--in_domain", "dev"], "no run has the split 'dev'"),
        (["--out_of_domain", "dev"], "no run has the split 'dev'"),
    ],
)
def test_what_no_run_has_is_refused(options, message, tmp_path):
    assert message in refusal("compare", *experiments(tmp_path), *options)


def test_a_metric_of_two_presets_asks_for_one_of_them(tmp_path):
    numbers = {("test", preset, "attention", AUROC): 0.5 for preset in ("er", "code")}
    write_results(tmp_path / "tm", 0, numbers | {("test", "", "", "macro_f1"): 0.5})
    assert f"presets code, er have the metric {AUROC}: choose one" in refusal("compare", tmp_path / "tm")
    assert "50.0" in command("compare", tmp_path / "tm", "--preset", "er")
