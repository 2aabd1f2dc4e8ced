import math

import pandas as pd

from lightning_xai.callbacks.results import COLUMNS
from lightning_xai.report.results import results_tables


def results(**rows: tuple[str, str, float]) -> pd.DataFrame:
    """Returns a table from name=(preset, method, value)."""
    common = {"split": "test", "num_examples": 5, "num_skipped": 1, "seed": 0, "forward_passes": 1.0}
    records = [
        {**common, "metric": name, "preset": preset, "method": method, "value": value}
        for name, (preset, method, value) in rows.items()
    ]
    return pd.DataFrame(records, columns=COLUMNS)


def test_no_line_is_wider_than_asked_for():
    wide = results(**{f"metric_with_a_long_name_{i}": ("preset", "method", 0.5) for i in range(9)})
    assert max(map(len, results_tables(wide, width=80).splitlines())) <= 80


def test_every_number_is_shown_once():
    table = results(accuracy=("", "", 0.875), comprehensiveness=("edin", "att_in_grad", 0.1234))
    shown = results_tables(table, width=80)
    assert shown.count("0.8750") == 1 and shown.count("0.1234") == 1


def test_undefined_numbers_are_a_dash_beside_others():
    shown = results_tables(results(auroc=("p", "random", math.nan), map=("p", "random", 0.5)), width=80)
    assert "auroc" not in shown.splitlines()[3]
    assert shown.endswith("\nno value, because undefined for every explanation: auroc")
    two = pd.concat([results(auroc=("p", "random", math.nan)), results(auroc=("p", "attention", 0.5))])
    assert "random          -" in results_tables(two, width=80)


def test_title_gives_the_range_if_methods_explain_other_numbers_of_texts():
    two = pd.concat([results(auroc=("p", "random", 0.5)), results(auroc=("p", "layer0", 0.5)).assign(num_examples=2)])
    assert "(explanations: 2 to 5 counted, up to 1 skipped)" in results_tables(two, width=80)


def test_preset_without_a_defined_number_says_so():
    assert "no metric is defined" in results_tables(results(auroc=("p", "random", math.nan)), width=80)


def test_title_says_how_many_explanations_count():
    shown = results_tables(results(comprehensiveness=("edin", "random", 0.1)), width=80)
    assert "test, preset edin (explanations: 5 counted, up to 1 skipped)" in shown


def test_title_says_how_many_explanations_lost_their_evidence():
    table = results(comprehensiveness=("edin", "random", 0.1)).assign(num_evidence_cut=1)
    shown = results_tables(table, width=80).replace("\n", " ")
    assert "1 skipped, 1 of them because truncation removed their evidence)" in shown
    assert "truncation" not in results_tables(table.drop(columns="num_evidence_cut"), width=80)


COST = {"forward_passes": 50.0, "backward_passes": 100.0, "seconds": 1.0437, "peak_memory_mb": 511.6}


def test_cost_stands_beside_the_metrics():
    shown = results_tables(results(map=("p", "random", 0.5)).assign(**COST), width=80).splitlines()
    assert [line.split() for line in shown[2:]] == [
        ["passes", "seconds/", "memory"],
        ["map", "(F+B)", "example", "(MiB)"],
        ["random", "0.5000", "50+100", "1.04", "512"],
    ]


def test_cost_of_many_metrics_stays_within_the_width():
    wide = results(**{f"metric_with_a_long_name_{i}": ("preset", "method", 0.5) for i in range(9)})
    shown = results_tables(wide.assign(**COST), width=80)
    assert "50+100" in shown and max(map(len, shown.splitlines())) <= 80


def test_columns_of_cost_stay_together():
    for number in range(1, 9):
        wide = results(**{f"metric{i}": ("preset", "method", 0.5) for i in range(number)})
        lines = results_tables(wide.assign(**COST), width=60).splitlines()
        (line,) = [line for line in lines if "50+100" in line]
        assert line.split()[-3:] == ["50+100", "1.04", "512"]


def test_memory_that_nothing_counts_has_no_column():
    costs = COST | {"peak_memory_mb": math.nan}
    assert "memory" not in results_tables(results(map=("p", "random", 0.5)).assign(**costs), width=80)


def test_classification_has_no_cost():
    assert "passes" not in results_tables(results(accuracy=("", "", 0.875)).assign(forward_passes=math.nan), width=80)


def test_left_out_numbers_are_listed_by_reason_and_do_not_hide_the_cost_of_a_method():
    row = {"split": "test", "preset": "p", "num_examples": 4, "num_skipped": 0, "left_out": ""}
    cost = {"forward_passes": 3.0, "backward_passes": 1.0, "seconds": 0.5, "peak_memory_mb": 7.0}
    unknown = dict.fromkeys(cost, float("nan"))
    rows = [
        {**row, **unknown, "method": "a", "metric": "odd", "value": float("nan"), "left_out": "no evidence"},
        {**row, **unknown, "method": "b", "metric": "odd", "value": float("nan"), "left_out": "no layers"},
        {**row, **unknown, "method": "b", "metric": "f1", "value": float("nan"), "left_out": "no layers"},
        {**row, **cost, "method": "a", "metric": "f1", "value": 0.5},
    ]
    lines = results_tables(pd.DataFrame(rows), width=80).splitlines()
    assert lines[-2:] == ["left out: odd of a: no evidence", "left out: odd, f1 of b: no layers"]
    (method_a,) = [line.split() for line in lines if line.startswith("a ")]
    assert method_a == ["a", "0.5000", "3+1", "0.5", "7"]
    (method_b,) = [line.split() for line in lines if line.startswith("b ")]
    assert set(method_b[1:]) == {"-"}


def test_methods_that_selected_their_scores_are_named_with_the_metric():
    table = results(comp=("p", "faml", 0.5), suff=("p", "random", 0.25))
    table["selected_on"] = ["comp", ""]
    assert results_tables(table, width=80).splitlines()[-1] == "selected on comp: faml"
    assert "selected on" not in results_tables(table.drop(columns="selected_on"), width=80)


def test_methods_are_grouped_by_their_passes():
    names = ["ig", "random", "occlusion", "faml", "paml"]
    table = results(**{f"m{i}": ("p", name, i / 10) for i, name in enumerate(names)}).assign(metric="comp")
    table["pass_group"] = ["more", "1 + K", "up to N", "more", "1 + K"]
    lines = results_tables(table, width=80).splitlines()
    order = ["passes: up to 1 + K", "random", "paml", "passes: up to N", "occlusion", "passes: more", "ig", "faml"]
    assert [line[:20].strip() for line in lines[-len(order) :]] == order
    assert "passes:" not in results_tables(table.assign(pass_group="more"), width=80)
    assert "passes:" not in results_tables(table.drop(columns="pass_group"), width=80)


def test_segments_that_versions_cost_are_shown_by_method_and_metric():
    table = results(comp=("p", "occlusion", 0.5), suff=("p", "gradient", 0.25)).assign(**COST)
    assert "segments" not in results_tables(table, width=80)  # a table of an older version
    table["encoded_segments"], table["version_segments"] = [1.01, math.nan], [46.999, math.nan]
    table["metric_encoded_segments"], table["metric_version_segments"] = [1.34, math.nan], [47.0, math.nan]
    lines = results_tables(table, width=120).splitlines()
    shown = {line.split()[0]: line for line in lines if line.startswith(("occlusion", "gradient"))}
    assert "1.01 of 47" in shown["occlusion"] and " of " not in shown["gradient"]
    assert lines[-1] == "segments encoded for an erased version: 1.34 of 47 for comp"
