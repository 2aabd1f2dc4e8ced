"""The table of a ROAR chain."""

import pandas as pd

from lightning_xai.report.roar import roar_table


def test_table_shows_a_row_a_measure_in_percent():
    rows = [("random", 0, 0.9, False), ("random", 50, 0.8, False), ("random", 100, 0.5, False)]
    rows += [("gradient", 0, 0.9, False), ("gradient", 50, 0.6, False), ("gradient", 50, 0.55, True)]
    frame = pd.DataFrame(rows, columns=["method", "amount", "value", "control"])
    frame = frame.assign(seed=0, split="test", metric="macro_f1", step="percentage", run="")
    assert roar_table(frame, "macro_f1").splitlines()[1:] == [
        "                       0    50   100",
        "random              90.0  80.0  50.0",
        "gradient            90.0  60.0     -",
        "gradient positions     -  55.0     -",
    ]


def test_wide_table_comes_in_blocks():
    rows = [("integrated_gradients", amount, 1.0, False) for amount in range(0, 101, 5)]
    frame = pd.DataFrame(rows, columns=["method", "amount", "value", "control"])
    frame = frame.assign(seed=0, split="test", metric="macro_f1", step="percentage", run="")
    lines = [line for line in roar_table(frame, "macro_f1").splitlines()[1:] if line]
    assert max(map(len, lines)) <= 80 and [len(line.split()) for line in lines] == [11, 12, 10, 11]
    assert " ".join(lines[::2]).split() == [str(amount) for amount in range(0, 101, 5)]
