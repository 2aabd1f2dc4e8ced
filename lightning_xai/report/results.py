"""The results of a run as text tables, which commands print when they end."""

from __future__ import annotations

import pandas as pd

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.tables import Column, terminal_width, text_table, wrap

GROUPS = ("1 + K", "up to 16", "up to N", "more")  # groups of methods by number of passes, as in the column pass_group


def results_tables(results: pd.DataFrame, width: int | None = None) -> str:
    """Returns a table of the classification metrics, and one table of attribution metrics per split and preset.

    A table of attribution metrics has a row for each method. If the methods need very different numbers of passes, the
    rows are grouped by these numbers. In the names of the groups, K is the number of explained classes, and N is the
    number of tokens. The columns are the metrics and the cost of explaining one example: forward and backward passes,
    seconds, and the largest growth of memory. Some networks cut texts into segments, and encode a segment only once
    even if several erased versions of a text contain it. For these networks, another column shows two means over the
    versions: how many segments were encoded for a version, and how many segments a version has.

    Args:
        results: rows of results.csv.
        width: number of characters in a line; by default the width of the terminal.

    Example:
        >>> row = {"split": "test", "preset": "", "method": "", "metric": "accuracy", "value": 0.875}
        >>> print(results_tables(pd.DataFrame([row]), width=80))
        classification
        --------------
              accuracy
        test    0.8750
    """
    width = width or terminal_width()
    tables = []
    classification = results[results["preset"] == ""]
    if len(classification):
        tables.append(_table(classification, "split", [], "classification", width))
    for (split, preset), rows in results[results["preset"] != ""].groupby(["split", "preset"], sort=False):
        counts = rows.groupby("method")["num_examples"].max().astype(int)  # methods may explain other numbers of texts
        counted = str(counts.max()) if counts.nunique() == 1 else f"{counts.min()} to {counts.max()}"
        skipped = int(rows["num_skipped"].max())
        # tables of older versions lack this column
        cut = int(rows["num_evidence_cut"].fillna(0).max()) if "num_evidence_cut" in rows else 0
        reason = f", {cut} of them because truncation removed their evidence" if cut else ""
        left_out = f"up to {skipped} skipped{reason}" if skipped else "none skipped"
        title = f"{split}, preset {preset} (explanations: {counted} counted, {left_out})"
        missing = _is_left_out(rows)
        # rows that were left out come last, because the cost of a method is read from its first row
        rows = _grouped(pd.concat([rows[~missing], rows[missing]]))
        # without any value, `_table` says that no metric is defined, so no note needs to say this
        undefined = undefined_notes(rows) if rows["value"].notna().any() else []
        said = [*undefined, *selection_notes(rows), *left_out_notes(rows), *segment_notes(rows)]
        notes = [line for note in said for line in wrap(note, width)]
        tables.append("\n".join([_table(rows, "method", _cost_columns(rows), title, width), *notes]))
    return "\n\n".join(tables)


def _is_left_out(rows: pd.DataFrame) -> pd.Series:
    """Returns, for each row, whether its result was left out: then the row has a reason instead of a value.

    Tables of older versions have no column for reasons, so none of their rows count as left out.
    """
    if "left_out" not in rows:
        return pd.Series(False, index=rows.index)
    return rows["left_out"].notna() & (rows["left_out"] != "")


def undefined_notes(rows: pd.DataFrame) -> list[str]:
    """Returns a list with one line that names the metrics without any value; [] if there are none.

    A metric has no value if it skipped all explanations. For example, plausibility is undefined without evidence.
    Metrics that were left out for another reason are not named.

    Example:
        >>> undefined_notes(pd.DataFrame({"metric": ["auprc", "entropy"], "value": [float("nan"), 0.5]}))
        ['no value, because undefined for every explanation: auprc']
        >>> undefined_notes(pd.DataFrame({"metric": ["auprc"], "value": [float("nan")], "num_evidence_cut": [1]}))
        ['no value, because undefined for every explanation (1 explanation lost all evidence to truncation): auprc']
    """
    tried = rows[~_is_left_out(rows)]
    undefined = [str(name) for name, part in tried.groupby("metric", sort=False) if part["value"].isna().all()]
    if not undefined:
        return []
    rows = tried[tried["metric"].isin(undefined)]
    cut = int(rows["num_evidence_cut"].fillna(0).max()) if "num_evidence_cut" in rows else 0
    reason = f" ({quantity(cut, 'explanation')} lost all evidence to truncation)" if cut else ""
    return [f"no value, because undefined for every explanation{reason}: {', '.join(undefined)}"]


def left_out_notes(rows: pd.DataFrame) -> list[str]:
    """Returns a line for each reason why results were left out. The line names their metrics and methods.

    Example:
        >>> left_out_notes(pd.DataFrame({"method": ["a", "b"], "metric": "f1", "left_out": ["", "b has no layers"]}))
        ['left out: f1 of b: b has no layers']
    """
    if "left_out" not in rows:
        return []
    missing = rows[_is_left_out(rows)]
    return [
        f"left out: {', '.join(part['metric'].unique())} of {', '.join(part['method'].unique())}: {reason}"
        for reason, part in missing.groupby("left_out", sort=False)
    ]


def selection_notes(rows: pd.DataFrame) -> list[str]:
    """Returns a line for each metric that some methods optimize; the line names these methods.

    Such a method keeps the best of several candidate scores, or uses the best checkpoint of a trained scorer, as rated
    by the metric. This gives the method an advantage in the metric.

    Example:
        >>> selection_notes(pd.DataFrame({"method": ["faml", "random"], "selected_on": ["comprehensiveness", ""]}))
        ['selected on comprehensiveness: faml']
    """
    if "selected_on" not in rows:  # a table of an older version
        return []
    chosen = rows[[isinstance(metric, str) and metric != "" for metric in rows["selected_on"]]]
    return [
        f"selected on {metric}: {', '.join(part['method'].unique())}"
        for metric, part in chosen.groupby("selected_on", sort=False)
    ]


def segment_notes(rows: pd.DataFrame) -> list[str]:
    """Returns a list with one line: how many segments of an erased version were encoded on average, for each metric.

    Returns [] if no metric evaluated erased versions, or if the network does not cut texts into segments.

    Example:
        >>> segments = {"metric_version_segments": [47.0, 47.0], "metric_encoded_segments": [1.02, 1.34]}
        >>> segment_notes(pd.DataFrame({"metric": ["comprehensiveness", "sufficiency"]} | segments))
        ['segments encoded for an erased version: 1.02 of 47 for comprehensiveness, 1.34 of 47 for sufficiency']
    """
    if "metric_encoded_segments" not in rows:  # a table of an older version
        return []
    counted = rows[rows["metric_encoded_segments"].notna()]
    if counted.empty:
        return []
    family = counted["metric"].str.split("/").str[0]  # several values of a metric are named "metric/..."
    means = counted.groupby(family, sort=False)[["metric_encoded_segments", "metric_version_segments"]].mean()
    costs = [f"{_encoded(encoded, of)} for {metric}" for metric, encoded, of in means.itertuples()]
    return [f"segments encoded for an erased version: {', '.join(costs)}"]


def _encoded(encoded: float, of: float) -> str:
    """Returns "1.5 of 47" if, on average, 1.5 of an erased version's 47 segments were encoded; "-" for NaN."""
    return "-" if pd.isna(encoded) else f"{_short(encoded)} of {_short(of)}"


def _table(rows: pd.DataFrame, index: str, costs: list[Column], title: str, width: int) -> str:
    values = rows.pivot(index=index, columns="metric", values="value")
    values = values.loc[rows[index].drop_duplicates(), rows["metric"].drop_duplicates()]
    values = values.dropna(axis="columns", how="all")
    underlined = f"{title}\n{'-' * min(width, len(title))}"
    if values.empty:
        return f"{underlined}\nno metric is defined for these examples"
    metrics = [str(metric) for metric in values.columns]
    families = {metric.split("/")[0] for metric in metrics if "/" in metric}
    # if all names with "/" have the same prefix before it, the headers leave out this prefix
    headers = [metric.split("/")[-1] if len(families) == 1 else metric for metric in metrics]
    columns = [
        Column(header, [_number(value) for value in values[metric]])
        for header, metric in zip(headers, values.columns, strict=True)
    ]
    names, columns = _with_group_lines([str(name) for name in values.index], columns + costs, _groups(rows, index))
    return text_table(names, columns, title=underlined, width=width)


def _groups(rows: pd.DataFrame, index: str) -> list[str]:
    """Returns, for each line of a table, the method's group by number of passes (see GROUPS), or "" if it has none.

    If the table has fewer than two groups, the result is "" for every line.
    """
    lines = rows.drop_duplicates(index)
    groups = [group if group in GROUPS else "" for group in lines.get("pass_group", pd.Series("", index=lines.index))]
    return groups if len({group for group in groups if group}) > 1 else [""] * len(groups)


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows sorted by their methods' numbers of passes (see GROUPS). Rows without a group come last."""
    if "pass_group" not in rows:
        return rows
    order = [GROUPS.index(group) if group in GROUPS else len(GROUPS) for group in rows["pass_group"]]
    return rows.assign(_order=order).sort_values("_order", kind="stable").drop(columns="_order")


def _with_group_lines(names: list[str], columns: list[Column], groups: list[str]) -> tuple[list[str], list[Column]]:
    """Adds a heading before each group of lines in a table. Returns the names of all lines, and the columns."""
    begins = [place for place, group in enumerate(groups) if group and group not in groups[:place]]
    lines = list(names)
    cells = [list(column.cells) for column in columns]
    for place in reversed(begins):
        lines.insert(place, f"passes: {'up to ' if groups[place] == GROUPS[0] else ''}{groups[place]}")
        for column in cells:
            column.insert(place, "")
    return lines, [Column(c.header, filled, c.group) for c, filled in zip(columns, cells, strict=True)]


def _cost_columns(rows: pd.DataFrame) -> list[Column]:
    """Returns the cost columns of a table. Columns without any value are left out."""
    methods = rows.drop_duplicates("method")
    passes = [
        "-" if pd.isna(forward) else f"{_short(forward)}+{_short(backward)}"
        for forward, backward in zip(methods["forward_passes"], methods["backward_passes"], strict=True)
    ]
    segments = ["-"] * len(methods)
    if "encoded_segments" in methods:  # tables of older versions lack this column
        both = zip(methods["encoded_segments"], methods["version_segments"], strict=True)
        segments = [_encoded(encoded, of) for encoded, of in both]
    columns = [
        Column("passes\n(F+B)", passes, "cost"),
        Column("segments/\nversion", segments, "cost"),
        Column("seconds/\nexample", [_short(value) for value in methods["seconds"]], "cost"),
        Column("memory\n(MiB)", [_whole(value) for value in methods["peak_memory_mb"]], "cost"),
    ]
    return [column for column in columns if set(column.cells) != {"-"}]


def _number(value: float) -> str:
    if pd.isna(value):
        return "-"
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 10 else f"{value:.4f}"


def _short(value: float) -> str:
    """Returns a number as text: rounded if it is at least 100, otherwise with three significant digits; "-" for NaN."""
    if pd.isna(value):
        return "-"
    return f"{value:.0f}" if value >= 100 or float(value).is_integer() else f"{value:.3g}"


def _whole(value: float) -> str:
    return "-" if pd.isna(value) else f"{value:.0f}"
