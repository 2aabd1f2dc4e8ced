"""The results table as a person reads it at the end of a command."""

from __future__ import annotations

import shutil

import pandas as pd


def results_tables(results: pd.DataFrame, width: int | None = None) -> str:
    """Returns classification and one table a preset, methods by metrics, none wider than the terminal."""
    width = width or shutil.get_terminal_size((80, 24)).columns
    parts = []
    classification = results[results["preset"] == ""]
    if len(classification):
        parts += _blocks(_pivot(classification, "split"), "classification", width)
    for (split, preset), rows in results[results["preset"] != ""].groupby(["split", "preset"], sort=False):
        counted, skipped = int(rows["num_examples"].max()), int(rows["num_skipped"].max())
        title = f"{split}, preset {preset} (explanations: {counted} counted, up to {skipped} skipped)"
        parts += _blocks(_pivot(rows, "method"), title, width)
    explained = results[results["preset"] != ""].drop_duplicates(["method"])
    if len(explained):
        cost = explained.set_index("method")[["forward_passes", "backward_passes", "seconds", "peak_memory_mb"]]
        parts += _blocks(cost.rename(columns={"seconds": "seconds/example"}), "cost of one explanation", width)
    return "\n\n".join(parts)


def _pivot(rows: pd.DataFrame, index: str) -> pd.DataFrame:
    table = rows.pivot(index=index, columns="metric", values="value")
    return table.loc[rows[index].drop_duplicates(), rows["metric"].drop_duplicates()]


def _blocks(table: pd.DataFrame, title: str, width: int) -> list[str]:
    """Returns the table as text, its columns spread over as many blocks as the width asks for."""
    first = max([len(str(name)) for name in table.index] + [len(str(table.index.name or ""))])
    names = [str(name) for name in table.columns]
    columns = [[_number(value) for value in table[name]] for name in table.columns]
    widths = [max(len(name), *map(len, column)) + 2 for name, column in zip(names, columns, strict=True)]
    blocks, start = [], 0
    while start < len(names):
        stop = start + 1
        while stop < len(names) and first + sum(widths[start : stop + 1]) <= width:
            stop += 1
        lines = ["".ljust(first) + "".join(names[c].rjust(widths[c]) for c in range(start, stop))]
        for row, label in enumerate(table.index):
            cells = [columns[c][row].rjust(widths[c]) for c in range(start, stop)]
            lines.append(str(label).ljust(first) + "".join(cells))
        blocks.append("\n".join(lines))
        start = stop
    blocks[0] = f"{title}\n{'-' * min(width, len(title))}\n{blocks[0]}"
    return blocks


def _number(value: float) -> str:
    if pd.isna(value):
        return "-"
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 10 else f"{value:.4f}"
