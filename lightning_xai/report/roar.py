"""The table at the end of a ROAR chain: one seed's scores by what is erased."""

from __future__ import annotations

import pandas as pd

from lightning_xai.report.tables import Column, text_table


def roar_table(results: pd.DataFrame, metric: str, *, split: str = "test", width: int = 80) -> str:
    """Returns a metric of a split in percent, methods by the percentage or number of erased tokens.

    Args:
        results: rows of roar.csv.
        metric: one of the column `metric`.
        split: one of the column `split`.
        width: number of characters in a line.

    Example:
        >>> rows = [("random", 0, 0.9), ("random", 100, 0.5), ("gradient", 0, 0.9), ("gradient", 100, 0.5)]
        >>> results = pd.DataFrame(rows, columns=["method", "amount", "value"])
        >>> results = results.assign(split="test", metric="accuracy", control=False, step="percentage")
        >>> print(roar_table(results, "accuracy"))
        ROAR, accuracy of test in percent, by % erased
                     0   100
        random    90.0  50.0
        gradient  90.0  50.0
    """
    rows = results[(results["metric"] == metric) & (results["split"] == split)]
    names = rows["method"] + rows["control"].map({True: " positions", False: ""})
    table = rows.assign(name=names).pivot(index="name", columns="amount", values="value").loc[names.unique()]
    unit = "%" if rows["step"].iloc[0] == "percentage" else "tokens"
    columns = [Column(str(amount), [_cell(value) for value in table[amount]]) for amount in table.columns]
    title = f"ROAR, {metric} of {split} in percent, by {unit} erased"
    return text_table(list(table.index), columns, title=title, width=width)


def _cell(value: float) -> str:
    if pd.isna(value):
        return "-"
    return "100" if value >= 0.9995 else f"{100 * value:.1f}"
