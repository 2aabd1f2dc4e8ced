"""The table of a FRESH chain."""

import pandas as pd

from lightning_xai.report.fresh import fresh_table


def results(seeds=(0,), splits=("test", "other")) -> pd.DataFrame:
    rows = [
        {"seed": seed, "method": method, "split": split, "metric": "macro_f1", "value": value + seed / 100, "run": ""}
        for seed in seeds
        for method, value in (("full text", 0.9), ("ig", 0.75))
        for split in splits
    ]
    return pd.DataFrame(rows)


def test_table_has_methods_by_splits():
    assert fresh_table(results(), "macro_f1").splitlines() == [
        "FRESH, macro_f1 in percent",
        "           test  other",
        "full text  90.0   90.0",
        "ig         75.0   75.0",
    ]


def test_table_of_several_seeds_has_their_mean_and_deviation():
    lines = fresh_table(results(seeds=(0, 2)), "macro_f1").splitlines()
    assert lines[0] == "FRESH, macro_f1 in percent, mean (deviation) of 2 seeds"
    assert lines[2] == "full text  91.0 (1.4)  91.0 (1.4)"


def test_table_of_many_splits_stays_within_the_width():
    table = fresh_table(results(splits=[f"another_domain_{i}" for i in range(9)]), "macro_f1")
    assert max(map(len, table.splitlines())) <= 80 and table.count("90.0") == 9
