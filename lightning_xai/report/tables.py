"""The results table as a person reads it at the end of a command."""

from __future__ import annotations

import re
import shutil

import pandas as pd


def results_tables(results: pd.DataFrame, width: int | None = None) -> str:
    """Returns classification and one table a preset, methods by metrics and cost, none wider than the terminal.

    The cost is that of one explanation: forward and backward passes, seconds, and the growth of memory at its peak.
    """
    width = width or shutil.get_terminal_size((80, 24)).columns
    parts = []
    classification = results[results["preset"] == ""]
    if len(classification):
        parts += _blocks(_pivot(classification, "split"), {}, "classification", width)
    for (split, preset), rows in results[results["preset"] != ""].groupby(["split", "preset"], sort=False):
        counted, skipped = int(rows["num_examples"].max()), int(rows["num_skipped"].max())
        title = f"{split}, preset {preset} (explanations: {counted} counted, up to {skipped} skipped)"
        parts += _blocks(_pivot(rows, "method"), _costs(rows), title, width)
    return "\n\n".join(parts)


def _costs(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Returns the columns, by their headers, that say what each method cost, leaving out what is known of none."""
    methods = rows.drop_duplicates("method")
    passes = [
        "-" if pd.isna(forward) else f"{_short(forward)}+{_short(backward)}"
        for forward, backward in zip(methods["forward_passes"], methods["backward_passes"], strict=True)
    ]
    columns = {
        "passes\n(F+B)": passes,
        "seconds/\nexample": [_short(value) for value in methods["seconds"]],
        "memory\n(MiB)": ["-" if pd.isna(value) else f"{value:.0f}" for value in methods["peak_memory_mb"]],
    }
    return {header: cells for header, cells in columns.items() if set(cells) != {"-"}}


def _pivot(rows: pd.DataFrame, index: str) -> pd.DataFrame:
    table = rows.pivot(index=index, columns="metric", values="value")
    return table.loc[rows[index].drop_duplicates(), rows["metric"].drop_duplicates()]


def _blocks(table: pd.DataFrame, more: dict[str, list[str]], title: str, width: int) -> list[str]:
    """Returns the table and `more` columns as text, spread over as many blocks as the width asks for.

    What `more` holds stays together.
    """
    table = table.dropna(axis="columns", how="all")
    if table.empty:
        return [f"{title}\n{'-' * min(width, len(title))}\nno number is defined for these examples"]
    first = max(len(str(name)) for name in table.index)
    families = {str(name).split("/")[0] for name in table.columns if "/" in str(name)}
    # one family needs no name in every header
    names = [str(name).split("/")[-1] if len(families) == 1 else str(name) for name in table.columns]
    headers = [*(_header(name) for name in names), *(header.split("\n") for header in more)]
    columns = [*([_number(value) for value in table[name]] for name in table.columns), *more.values()]
    widths = [2 + max(map(len, [*header, *column])) for header, column in zip(headers, columns, strict=True)]
    height = max(map(len, headers))
    blocks, start = [], 0
    while start < len(headers):
        stop = start
        for end in range(start + 1, len(headers) + 1):
            apart = len(names) < end < len(headers)
            if end == start + 1 or (not apart and first + sum(widths[start:end]) <= width):
                stop = end
        shown = range(start, stop)
        padded = [[""] * (height - len(headers[c])) + headers[c] for c in shown]
        rows = [["", *(header[line] for header in padded)] for line in range(height)]
        rows += [[str(label), *(columns[c][row] for c in shown)] for row, label in enumerate(table.index)]
        lines = [
            cells[0].ljust(first) + "".join(cell.rjust(widths[c]) for c, cell in zip(shown, cells[1:], strict=True))
            for cells in rows
        ]
        blocks.append("\n".join(line.rstrip() for line in lines if line.strip()))
        start = stop
    blocks[0] = f"{title}\n{'-' * min(width, len(title))}\n{blocks[0]}"
    return blocks


def _header(name: str) -> list[str]:
    """Returns a column's name on lines of about ten characters, broken after "/" and "_"."""
    lines = [""]
    for part in re.findall(r"[^/_]+[/_]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > 10:
            lines.append("")
        lines[-1] += part
    return lines


def _number(value: float) -> str:
    if pd.isna(value):
        return "-"
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 10 else f"{value:.4f}"


def _short(value: float) -> str:
    """Returns the number with three digits that count."""
    if pd.isna(value):
        return "-"
    return f"{value:.0f}" if value >= 100 or float(value).is_integer() else f"{value:.3g}"
