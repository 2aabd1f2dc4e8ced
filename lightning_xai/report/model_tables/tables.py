"""Tables in the form of Edin et al. (2024): means and standard deviations over seeds, for each method and model."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from lightning_xai.report.tables import Column, text_table, wrap

LEGEND = (
    "mean and, for several runs, population standard deviation; *: mean better than the unsupervised baseline; _: mean "
    "better than the supervised baseline; the marks do not mean statistical significance"
)
SWAPPED = "Edin et al. (2024) swap the columns span_recall and span_cover in tables 2, 7 and 9 to 12"


class PaperTable(NamedTuple):
    """The layout of one table.

    Attributes:
        title: text above the table.
        part: the part of the results that the table shows; `read_models` describes the parts.
        metrics: metric -> header of its column.
        scale: factor by which the values are multiplied.
        digits: number of decimal places.
        note: text below the table.

    Example:
        >>> TABLES["plausibility"].metrics["f1"]
        'f1'
    """

    title: str
    part: str
    metrics: dict[str, str]
    scale: float = 100.0
    digits: int = 1
    note: str = ""


def _named(*metrics: str) -> dict[str, str]:
    return {metric: metric for metric in metrics}


_PLAUSIBILITY = _named(
    "precision", "recall", "f1", "auprc", "empty", "span_recall", "span_cover", "iou", "precision_at_5", "recall_at_5"
)
TABLES = {
    "plausibility": PaperTable("plausibility, in percent (Tables 2, 7, 9, 12)", "all", _PLAUSIBILITY, note=SWAPPED),
    "predicted": PaperTable("plausibility of predicted codes (Table 10)", "predicted", _PLAUSIBILITY, note=SWAPPED),
    "missed": PaperTable("plausibility of missed codes (Table 11)", "missed", _PLAUSIBILITY, note=SWAPPED),
    "with_cut": PaperTable(
        "plausibility, with codes that lost all evidence to truncation: this evidence counts as missed", "with_cut",
        _PLAUSIBILITY,
        note="Edin et al. (2024) leave these codes out",
    ),
    "faithfulness": PaperTable(
        "faithfulness (Table 8)", "all", _named("comprehensiveness", "sufficiency"), scale=1, digits=2,
        note="Edin et al. (2024) print the numbers of B_S in the row for rollout on B_U",
    ),
    "entropy": PaperTable("entropy (Table 6)", "all", _named("entropy"), scale=1, digits=2),
    "symbols": PaperTable(
        "share of tokens without a letter or digit, separately for all tokens, evidence and the top five (Figure 4)",
        "all", {f"symbol_share/{place}": place for place in ("all", "evidence", "top_5")},
    ),
    "prediction": PaperTable(
        "prediction, in percent (Table 5)", "",
        _named("present_micro_f1", "present_macro_f1", "example_map"),
    ),
    "cost": PaperTable(
        "cost of one explained document", "all",
        _named("forward_passes", "backward_passes", "seconds", "version_segments", "encoded_segments", "gain"),
        scale=1, digits=2,
    ),
    "zeroed": PaperTable(
        "f1 in percent, before and after the scores of tokens without a letter or digit are set to 0 (Table 3)",
        "zeroed", _named("before", "after"),
        note="Table 3 of Edin et al. (2024) differs from the authors' result files by up to 0.9",
    ),
}  # fmt: skip


def paper_tables(summary: pd.DataFrame, *, width: int = 100) -> dict[str, str]:
    """Returns name -> table as text. Tables without results are left out.

    Args:
        summary: result of `over_seeds`.
        width: number of characters in a line.

    Example:
        >>> values = [("B_U", 0.3662, 0.053), ("TM", 0.37, 0.055)]
        >>> summary = pd.DataFrame(values, columns=["model", "mean", "std"])
        >>> summary = summary.assign(part="all", method="attention", metric="f1", num_runs=10, beats_supervised=False)
        >>> print(paper_tables(summary.assign(beats_unsupervised=[False, True]))["plausibility"])
        plausibility, in percent (Tables 2, 7, 9, 12)
                               f1  runs
        attention B_U   36.6+-5.3    10
        attention TM   37.0+-5.5*    10
        Edin et al. (2024) swap the columns span_recall and span_cover in tables 2, 7 and 9 to 12
    """
    tables = {name: _text(summary, table, width) for name, table in TABLES.items()}
    return {name: text for name, text in tables.items() if text}


def _cells(summary: pd.DataFrame, table: PaperTable) -> pd.DataFrame:
    """Returns the cells of a table as texts. The index is (method, model); the columns are the metrics and "runs"."""
    summary = _with_before(summary) if table.part == "zeroed" else summary
    rows = summary[(summary["part"] == table.part) & summary["metric"].isin(list(table.metrics))]
    if table.part == "":
        rows = rows[rows["method"] == ""]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for method in dict.fromkeys(rows["method"]):
        for _, row in rows[rows["method"] == method].iterrows():
            line = cells.setdefault((method, row["model"]), {})
            line[row["metric"]] = _cell(row, table.scale, table.digits)
            line["runs"] = str(row["num_runs"])
    return pd.DataFrame.from_dict(cells, orient="index").fillna("-")


def _with_before(summary: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of `summary` with f1 before and after the scores of tokens without a letter or digit become 0.

    Rows of the part "all" get the metric "before", and rows of the part "zeroed" the metric "after". All returned rows
    then have the part "zeroed". A method and model without "after" is left out.
    """
    f1 = summary[summary["metric"] == "f1"]
    after = f1[f1["part"] == "zeroed"]
    before = f1[f1["part"] == "all"].merge(after[["method", "model"]])
    return pd.concat([before.assign(metric="before"), after.assign(metric="after")]).assign(part="zeroed")


def _cell(row: pd.Series, scale: float, digits: int) -> str:
    if pd.isna(row["mean"]):
        return "-"
    marks = "*" * bool(row["beats_unsupervised"]) + "_" * bool(row["beats_supervised"])
    deviation = "" if pd.isna(row["std"]) else f"+-{scale * row['std']:.{digits}f}"
    return f"{scale * row['mean']:.{digits}f}{deviation}{marks}"


def _text(summary: pd.DataFrame, table: PaperTable, width: int) -> str:
    cells = _cells(summary, table)
    if cells.empty:
        return ""
    shown = [name for name in [*table.metrics, "runs"] if name in cells]
    columns = [Column(table.metrics.get(name, name), list(cells[name])) for name in shown]
    rows = [" ".join(filter(None, key)) for key in cells.index]
    text = text_table(rows, columns, title=table.title, width=width)
    return "\n".join([text, *(wrap(table.note, width) if table.note else [])])


def markdown_table(summary: pd.DataFrame, table: PaperTable) -> str:
    """Returns a table in Markdown, or "" if there are no results for it.

    A mean is bold if it is better than the mean of the unsupervised baseline (B_U), and underlined if it is better than
    the mean of the supervised baseline (B_S).

    Example:
        >>> row = {"model": "TM", "part": "all", "method": "attention", "metric": "f1", "mean": 0.37, "std": 0.055}
        >>> summary = pd.DataFrame([row | {"num_runs": 10, "beats_unsupervised": True, "beats_supervised": False}])
        >>> print(markdown_table(summary, TABLES["plausibility"]).splitlines()[4])
        | attention | TM | **37.0**±5.5 | 10 |
    """
    cells = _cells(summary, table)
    if cells.empty:
        return ""
    shown = [name for name in [*table.metrics, "runs"] if name in cells]
    headers = ["method", "model", *(table.metrics.get(name, name) for name in shown)]
    lines = [f"**{table.title}**", "", _line(headers), _line(["---"] * len(headers))]
    lines += [_line([*key, *map(_marked, row)]) for key, row in zip(cells.index, cells[shown].values, strict=True)]
    return "\n".join([*lines, *(["", table.note] if table.note else [])])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _marked(cell: str) -> str:
    """Returns a cell in Markdown: the mark * makes the mean bold, and the mark _ underlines it."""
    number, plus_minus, deviation = cell.rstrip("*_").partition("+-")
    number = f"**{number}**" if "*" in cell else number
    number = f"<u>{number}</u>" if "_" in cell else number
    return f"{number}{plus_minus.replace('+-', '±')}{deviation}"
