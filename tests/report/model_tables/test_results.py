"""Means and deviations over runs equal the tables that Edin et al. (2024) published, from their own result files."""

import pandas as pd
import pytest

from lightning_xai.report.model_tables.results import over_seeds, read_models
from lightning_xai.runs.results_table import ResultsTable
from tests.report.conftest import write_results

SWEEPS = {"B_S": "supervised", "B_U": "unsupervised", "IGR": "igr", "TM": "tm", "PGD": "pgd"}
# Table 2 as printed, in percent, with span_recall and span_cover put into their own columns
COLUMNS = [
    "precision", "recall", "f1", "auprc", "empty", "span_cover", "span_recall", "iou", "precision_at_5", "recall_at_5",
]  # fmt: skip
TABLE_2 = {
    ("attention", "B_S"): "41.7±5.0 42.9±3.2 42.2±3.7 37.3±3.9 13.5±1.9 60.5±3.7 72.3±3.5 46.1±4.5 32.3±2.6 45.3±3.7",
    ("attention", "B_U"): "35.9±5.9 37.7±5.7 36.6±5.3 31.4±6.4 21.1±3.6 53.2±7.4 63.4±6.8 39.3±6.9 28.8±4.2 40.3±5.9",
    ("attention", "PGD"): "33.0±8.4 38.4±8.0 35.4±8.3 30.0±9.1 19.1±1.6 51.5±13.6 61.1±9.9 35.9±10.8 27.7±6.3 38.9±8.8",
    ("input_x_gradient", "IGR"):
        "32.4±2.5 33.8±2.2 33.0±0.7 27.0±0.7 9.7±2.0 48.5±2.6 64.6±2.5 32.8±1.0 27.4±0.4 38.4±0.5",
    ("integrated_gradients", "TM"):
        "33.1±3.6 34.0±3.7 33.4±2.8 27.5±3.7 5.4±1.6 51.0±3.9 65.5±4.1 35.3±4.2 27.6±2.1 38.7±3.0",
    ("deep_lift", "B_S"): "29.2±2.3 34.2±3.0 31.3±1.2 24.1±1.8 6.4±1.8 48.9±3.4 65.2±3.3 31.1±1.9 26.2±1.1 36.7±1.5",
    ("att_in_grad", "B_S"): "40.6±2.2 45.9±3.1 43.0±1.9 38.8±2.1 1.2±0.5 63.9±2.9 79.0±1.9 45.7±2.6 33.3±1.4 46.6±1.9",
    ("att_in_grad", "B_U"): "40.7±2.9 42.5±4.4 41.5±3.2 37.1±3.6 3.0±1.3 59.3±5.4 74.9±5.2 43.5±4.0 32.0±2.1 44.9±3.0",
    ("att_in_grad", "TM"): "40.2±3.0 43.9±4.8 41.9±3.4 37.8±3.9 2.8±1.6 60.5±5.8 75.9±5.3 44.0±3.9 32.5±2.3 45.5±3.2",
}  # fmt: skip


@pytest.fixture(scope="module")
def summary():
    from tests.conftest import SHARED

    folder = SHARED / "golden" / "edin_results"
    if not folder.is_dir():
        pytest.skip("needs the authors' result files, whose folder LIGHTNING_XAI_SHARED may name")
    places = [folder / f"{sweep}_sweep" for sweep in SWEEPS.values()]
    rows = over_seeds(read_models(places, names=list(SWEEPS)), unsupervised="B_U", supervised="B_S")
    return rows.set_index(["part", "method", "model", "metric"])


@pytest.mark.slow
@pytest.mark.parametrize("key", TABLE_2, ids=" ".join)
def test_authors_runs_give_the_rows_of_table_2(summary, key):
    cells = [summary.loc[("all", *key, column)] for column in COLUMNS]
    assert " ".join(f"{100 * cell['mean']:.1f}±{100 * cell['std']:.1f}" for cell in cells) == TABLE_2[key]
    assert {cell["num_runs"] for cell in cells} == {8 if key[1] == "PGD" else 10}


@pytest.mark.parametrize(
    ("method", "model", "metric", "mean", "std"),
    [
        ("attention", "B_S", "f1", 42.19, 3.70),
        ("att_in_grad", "B_S", "f1", 43.02, 1.85),
        ("att_in_grad", "B_U", "f1", 41.48, 3.19),
        ("att_in_grad", "B_U", "iou", 43.52, 4.00),
        ("att_in_grad", "IGR", "f1", 41.19, 4.00),
        ("att_in_grad", "TM", "f1", 41.89, 3.36),
        ("att_in_grad", "PGD", "f1", 39.34, 7.05),
        ("attention", "B_U", "comprehensiveness", 81.76, 7.76),
        ("attention", "B_U", "sufficiency", 28.81, 6.94),
        ("att_in_grad", "B_U", "comprehensiveness", 85.58, 3.82),
        ("att_in_grad", "B_U", "sufficiency", 21.67, 4.75),
    ],
)
def test_authors_runs_give_the_means_and_deviations_of_oracle_e1(summary, method, model, metric, mean, std):
    cell = summary.loc[("all", method, model, metric)]
    assert (100 * cell["mean"], 100 * cell["std"]) == pytest.approx((mean, std), abs=0.0051)


def test_authors_share_of_evidence_without_a_letter_or_digit_is_that_of_oracle_e16(shared):
    file = shared / "golden" / "edin_results" / "special_token_results.csv"
    assert len(pd.read_csv(file)) == 180
    shares = read_models([file]).query("metric == 'symbol_share/evidence'")["value"]
    assert 100 * shares.mean() == pytest.approx(5.83, abs=0.005)


@pytest.mark.parametrize(
    ("key", "comprehensiveness", "sufficiency"),
    [
        (("attention", "B_U"), "0.82±0.08", "0.29±0.07"),
        (("att_in_grad", "B_U"), "0.86±0.04", "0.22±0.05"),
        (("attention", "B_S"), "0.84±0.06", "0.42±0.15"),
        (("rollout", "B_S"), "0.39±0.02", "0.47±0.08"),  # the published row of B_U repeats these numbers
        (("rollout", "B_U"), "0.38±0.02", "0.42±0.05"),
    ],
)
def test_authors_runs_give_the_rows_of_table_8(summary, key, comprehensiveness, sufficiency):
    cells = [summary.loc[("all", *key, metric)] for metric in ("comprehensiveness", "sufficiency")]
    assert [f"{cell['mean']:.2f}±{cell['std']:.2f}" for cell in cells] == [comprehensiveness, sufficiency]


@pytest.mark.parametrize(
    ("part", "method", "model", "f1"),
    [
        ("predicted", "attention", "B_U", "39.6±6.0"),
        ("predicted", "att_in_grad", "TM", "44.3±4.3"),
        ("missed", "attention", "B_U", "27.7±3.6"),
        ("missed", "att_in_grad", "B_S", "37.3±1.9"),
    ],
)
def test_authors_runs_give_f1_of_tables_10_and_11(summary, part, method, model, f1):
    cell = summary.loc[(part, method, model, "f1")]
    assert f"{100 * cell['mean']:.1f}±{100 * cell['std']:.1f}" == f1


def test_marks_compare_means_in_the_direction_of_the_metric():
    values = [("B_U", "f1", 0.4), ("B_U", "empty", 0.2), ("TM", "f1", 0.5), ("TM", "empty", 0.1), ("TM", "iou", 0.1)]
    rows = pd.DataFrame(values, columns=["model", "metric", "value"]).assign(run="0", part="all", method="attention")
    table = over_seeds(rows, unsupervised="B_U")
    assert table["beats_unsupervised"].tolist() == [False, False, True, True, False]  # B_U has no iou
    assert not table["beats_supervised"].any()


def test_a_name_that_is_no_model_is_refused():
    rows = pd.DataFrame([("TM", "f1", 0.4)], columns=["model", "metric", "value"]).assign(part="all", method="random")
    with pytest.raises(ValueError, match="unsupervised is 'B_U', but the models are TM"):
        over_seeds(rows, unsupervised="B_U")


def test_two_models_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two models are named a"):
        read_models([tmp_path / "x", tmp_path / "y"], names=["a", "a"])


def test_numbers_of_later_tests_of_a_run_are_read_too(tmp_path):
    f1 = "evidence/f1"
    write_results(tmp_path / "tm", 0, {("test", "edin", "attention", f1): 0.5})
    write_results(tmp_path / "tm", 0, {("imdb", "edin", "attention", f1): 0.25}, stem="results_12ab")
    write_results(tmp_path / "tm", 0, {("imdb", "edin", "gradient", f1): 0.1}, stem="results_34cd", checkpoint="ffff")
    rows = read_models([tmp_path / "tm"], split="imdb")
    assert rows[rows["metric"] == "f1"][["method", "value"]].to_numpy().tolist() == [["attention", 0.25]]


def test_numbers_of_a_model_are_of_one_test(tmp_path):
    run = tmp_path / "tm" / "seed0"
    f1, accuracy = ("test", "edin", "attention", "evidence/f1"), ("test", "", "", "micro_f1")
    write_results(tmp_path / "tm", 0, {accuracy: 0.9})
    write_results(tmp_path / "tm", 0, {accuracy: 0.2, f1: 0.1}, stem="results_34cd")
    for stem, source in (("results", "a"), ("results_34cd", "b")):
        ResultsTable(run, stem).write_settings({"data.init_args.source": source}, "0a1b")
    with pytest.raises(ValueError, match="no results for split 'test' and preset 'edin'"):
        read_models([tmp_path / "tm"])  # the later test had other examples
    ResultsTable(run, "results_34cd").write_settings({"data.init_args.source": "a"}, "0a1b")
    rows = read_models([tmp_path / "tm"])
    assert rows[rows["metric"].isin(["f1", "micro_f1"])]["value"].tolist() == [0.2, 0.1]
