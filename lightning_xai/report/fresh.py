"""The table that a FRESH chain prints at its end: the results of its classifiers, as means over seeds."""

from __future__ import annotations

import pandas as pd

from lightning_xai.report.tables import Column, text_table


def fresh_table(results: pd.DataFrame, metric: str, *, width: int = 80) -> str:
    """Returns a table of one metric in percent, with a row for each method and a column for each split.

    Cells show the mean over seeds. With several seeds, the standard deviation follows in parentheses.

    Args:
        results: rows of fresh.csv from one or several seeds.
        metric: name of the metric, as in the column `metric`.
        width: number of characters in a line.

    Example:
        >>> rows = [(0, "full text", "test", 0.9), (1, "full text", "test", 0.7)]
        >>> results = pd.DataFrame(rows, columns=["seed", "method", "split", "value"]).assign(metric="accuracy")
        >>> print(fresh_table(results, "accuracy"))
        FRESH, accuracy in percent, mean (deviation) of 2 seeds
                          test
        full text  80.0 (14.1)
    """
    rows = results[results["metric"] == metric]
    methods = list(rows["method"].unique())
    cells = {key: _cell(values) for key, values in rows.groupby(["method", "split"])["value"]}
    columns = [
        Column(str(split), [cells.get((method, split), "-") for method in methods]) for split in rows["split"].unique()
    ]
    num_seeds = results["seed"].nunique()
    title = f"FRESH, {metric} in percent" + (f", mean (deviation) of {num_seeds} seeds" if num_seeds > 1 else "")
    return text_table(methods, columns, title=title, width=width)


def _cell(values: pd.Series) -> str:
    mean = f"{100 * values.mean():.1f}"
    return f"{mean} ({100 * values.std():.1f})" if len(values) > 1 else mean
