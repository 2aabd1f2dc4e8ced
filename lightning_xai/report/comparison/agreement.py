"""Agreement of explanations between seeds: Kendall's tau-b between the scores of two runs for the same text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.metrics.similarity import kendall
from lightning_xai.report.curves import COLORS, DOTS_PER_INCH
from lightning_xai.report.tables import Column, text_table
from lightning_xai.runs.stores.stored_scores import StoredScores, open_scores, stored_methods

BINS = np.linspace(-1.0, 1.0, 41)
LINES = ("-", ":", "-.")  # of the first eight experiments, the next eight, ...; dashed lines are means
COLUMNS = ["experiment", "method", "index", "kendall"]


def pairs_of_runs(first: Sequence[Path], second: Sequence[Path]) -> list[tuple[int, int]]:
    """Returns the pairs (i, j) for which `first[i]` and `second[j]` are runs with different seeds, each pair once.

    Example:
        >>> seeds = [Path("tm/seed0"), Path("tm/seed1"), Path("tm/seed2")]
        >>> pairs_of_runs(seeds, seeds)
        [(0, 1), (0, 2), (1, 2)]
        >>> pairs_of_runs([Path("igr/seed0")], seeds)
        [(0, 1), (0, 2)]
    """
    same = [run.resolve() for run in first] == [run.resolve() for run in second]
    every = product(range(len(first)), range(len(second)))
    return [(i, j) for i, j in every if first[i].name != second[j].name and not (same and i > j)]


def seed_agreement(first: Sequence[StoredScores], second: Sequence[StoredScores], pairs: Sequence[tuple[int, int]]) \
        -> list[tuple[int, float]]:  # fmt: skip
    """Returns the agreement of runs for every text of which all runs explain the same class.

    The absolute scores of all tokens are compared, including those of special tokens. An item of the result has the
    index of a text, and the mean tau-b over the pairs of runs. If all runs explain several classes of a text, such as
    the gold class and a wrong prediction, this is the mean over these classes, so that every text counts once.

    Args:
        first, second: stored scores of each run, for the same method and split.
        pairs: the pairs of runs, as `pairs_of_runs` returns them.

    Raises:
        ValueError: the runs differ in method settings, examples, classes or numbers of tokens.
    """
    stores = [*first, *second]
    reference = stores[0]
    for other in stores[1:]:
        facts = (reference.metadata.get(name) for name in ("method", "examples", "encoder", "class_names"))
        other.require_method(*facts)
    common = set(reference.keys()).intersection(*(store.keys() for store in stores[1:]))
    of_texts: dict[int, list[float]] = {}  # index of a text -> tau-b of every class and pair of runs
    for key in sorted(common):
        length = len(reference.get(*key))
        rows = np.stack([np.abs(store.row(key, length, str(reference.path))) for store in stores])
        taus = kendall(torch.from_numpy(rows))[: len(first), len(first) :]
        of_texts.setdefault(key[0], []).extend(float(taus[i, j]) for i, j in pairs)
    return [
        (index, float(np.nanmean(values)) if not all(map(math.isnan, values)) else math.nan)
        for index, values in of_texts.items()
    ]


def shared_methods(runs: Mapping[str, Sequence[Path]], split: str) -> tuple[list[str], list[str]]:
    """Returns the methods whose scores all runs have stored, and the methods whose scores only some runs have stored.

    Args:
        runs: name of an experiment -> folders of its runs.
        split: the split of the scores.

    Raises:
        ValueError: a run has stored no scores on the split, or the runs have no method in common.
    """
    stored = {run: {m for s, m in stored_methods(run) if s == split} for group in runs.values() for run in group}
    for run, names in stored.items():
        if not names:
            raise ValueError(
                f"{run} has stored no attributions on {split}: test this run with callbacks/attribution_cache.yaml"
            )
    shared = set.intersection(*stored.values())
    if not shared:
        raise ValueError(f"the runs have no method in common on {split}: test all of them with the same methods")
    return sorted(shared), sorted(set.union(*stored.values()) - shared)


def agreement_frame(runs: Mapping[str, Sequence[Path]], split: str) -> pd.DataFrame:
    """Returns how well the runs of each experiment agree with runs of the first experiment.

    Runs of the first experiment are compared with each other. Their agreement is the reference, because they differ
    only in the seed. The result has the columns `COLUMNS`, and a row for each experiment, method and text.

    Args:
        runs: name of an experiment -> folders of its runs, which must have stored attributions.
        split: the split on which attributions are compared.

    Raises:
        ValueError: the first experiment has fewer than two runs, a run has stored no scores on the split, or the runs
            have no method, or no text and class, in common.
    """
    reference, *_ = runs
    if len(runs[reference]) < 2:
        raise ValueError(
            f"{reference} has {quantity(len(runs[reference]), 'tested run')}, too few for a reference: fit and test "
            "more seeds, or name another experiment first (runs that missed their bounds are not tested)"
        )
    methods, _ = shared_methods(runs, split)
    rows = []
    for name, group in runs.items():
        pairs = pairs_of_runs(group, runs[reference])
        for method in methods:
            first, second = ([open_scores(run, split, method) for run in part] for part in (group, runs[reference]))
            rows += [(name, method, *values) for values in (seed_agreement(first, second, pairs) if pairs else [])]
    if not rows:
        raise ValueError(f"no two runs explain the same text and class on {split}: test them on the same examples")
    return pd.DataFrame(rows, columns=COLUMNS)


def agreement_table(frame: pd.DataFrame, names: Sequence[str], split: str, *, width: int = 80) -> str:
    """Returns a text table of mean tau-b, with a row for each experiment and a column for each method.

    Args:
        frame: a result of `agreement_frame`: tau-b compares the runs of each experiment with those of the first one.
        names: the experiments. An experiment without values also gets a row.
        split: the split, for the title.
        width: number of characters in a line.

    Example:
        >>> rows = [("tm", "gradient", 3, 0.25), ("tm", "gradient", 4, 0.75)]
        >>> print(agreement_table(pd.DataFrame(rows, columns=COLUMNS), ["tm", "igr"], "test"))
        Kendall's tau-b with other seeds of tm on test, mean (number of texts)
              gradient
        tm   0.500 (2)
        igr          -
    """
    groups = {key: values.dropna() for key, values in frame.groupby(["experiment", "method"])["kendall"]}
    cells = {key: f"{values.mean():.3f} ({len(values)})" for key, values in groups.items() if len(values)}
    columns = [
        Column(method, [cells.get((name, method), "-") for name in names]) for method in frame["method"].unique()
    ]
    title = f"Kendall's tau-b with other seeds of {names[0]} on {split}, mean (number of texts)"
    return text_table(names, columns, title=title, width=width)


def agreement_figure(frame: pd.DataFrame, names: Sequence[str], *, max_columns: int = 3) -> Figure:
    """Returns a figure with a panel for each method. A panel has a histogram of tau-b over texts for every experiment.

    Dashed lines show the means.

    Args:
        frame: a result of `agreement_frame`.
        names: the experiments.
        max_columns: largest number of panels in a row.

    Example:
        >>> rows = [("tm", "gradient", 3, 0.25), ("tm", "gradient", 4, 0.75)]
        >>> [axis.get_title() for axis in agreement_figure(pd.DataFrame(rows, columns=COLUMNS), ["tm"]).axes]
        ['gradient']
    """
    methods = list(frame["method"].unique())
    num_columns = min(len(methods), max_columns)
    num_rows = math.ceil(len(methods) / num_columns)
    size = (max(3.8 * num_columns, 5.0), 2.7 * num_rows + 0.8)
    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(num_rows, num_columns, squeeze=False).flat)
    lines = []
    for method, axis in zip(methods, axes, strict=False):
        for place, name in enumerate(names):
            values = frame[(frame["method"] == method) & (frame["experiment"] == name)]["kendall"].dropna()
            if not len(values):
                continue
            color, line = COLORS[place % len(COLORS)], LINES[place // len(COLORS) % len(LINES)]
            weights = np.full(len(values), 1 / len(values))
            axis.hist(values, bins=BINS, weights=weights, histtype="step", color=color, linestyle=line, linewidth=1.5)
            axis.axvline(values.mean(), color=color, linewidth=1.0, linestyle="--")
        axis.set_title(str(method), fontsize="medium")
        axis.set(xlabel="Kendall's tau-b", ylabel="fraction of texts")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(methods) :]:
        axis.set_axis_off()
    for place, _ in enumerate(names):
        color, line = COLORS[place % len(COLORS)], LINES[place // len(COLORS) % len(LINES)]
        lines += axes[0].plot([], [], color=color, linestyle=line)
    figure.legend(lines, names, loc="outside lower center", ncols=min(4, len(names)), frameon=False, fontsize="small")
    return figure
