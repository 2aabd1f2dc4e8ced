"""What a comparison of several runs' explanations comes to: the matrix of all pairs as table, CSV and picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import numpy as np
import pandas as pd

from lightning_xai.metrics.similarity import SIMILARITIES
from lightning_xai.report.curves import figure_image, save_png
from lightning_xai.report.similarity_plot import Matrix, matrices_figure
from lightning_xai.report.tables import Column, text_table
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.store import write_whole


def matching_runs(others: Sequence[str], own: Path, runs_dir: Path) -> list[Path]:
    """Returns the folders that `others` names or, by a pattern, finds; only tested ones by a pattern, never `own`.

    Relative ones are looked for in `runs_dir` and, if nothing is there, in the working directory.

    Raises:
        ValueError: a named folder is missing.
    """
    found: dict[Path, Path] = {}
    for name in others:
        pattern = any(character in name for character in "*?[")
        paths = sorted(str(runs_dir / path) for path in glob(name, root_dir=runs_dir)) or sorted(glob(name))
        if not pattern and not paths:
            raise ValueError(f"{name} is not there: fit and test that run first, or correct others")
        for path in map(Path, paths):
            # a run that is not tested yet may be writing its scores just now
            if path.resolve() != own.resolve() and (not pattern or RunFolder(path).is_tested):
                found.setdefault(path.resolve(), path)
    return list(found.values())


def run_names(runs: Sequence[Path]) -> list[str]:
    """Returns a name for each run's folder, its path from the folder that holds all of them on, "tm.seed0"."""
    paths = [run.resolve() for run in runs]
    common = os.path.commonpath([path.parent for path in paths])
    return [".".join(path.relative_to(common).parts) for path in paths]


@dataclass(frozen=True)
class Comparison:
    """How alike R runs explain a split by one method, averaged over explanations.

    Attributes:
        method: its name.
        means: by measure, [R, R] float64; NaN where no explanation defines it.
        counts: by measure, [R, R], explanations that define it.
        num_explanations: all of them.
    """

    method: str
    means: dict[str, np.ndarray]
    counts: dict[str, np.ndarray]
    num_explanations: int


def compare(method: str, similarities: Sequence[np.ndarray], num_runs: int) -> Comparison:
    """Returns the means of `similarities`, one [len(SIMILARITIES), R, R] an explanation."""
    stacked = np.stack(similarities) if len(similarities) else np.zeros((0, len(SIMILARITIES), num_runs, num_runs))
    defined = ~np.isnan(stacked)
    counts = defined.sum(axis=0)
    sums = np.where(defined, stacked, 0.0).sum(axis=0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    by_measure = [dict(zip(SIMILARITIES, values, strict=True)) for values in (means, counts)]
    return Comparison(method, *by_measure, len(stacked))


def stability_frame(comparisons: Sequence[Comparison], names: Sequence[str]) -> pd.DataFrame:
    """Returns method, measure, run, other, value, num_explanations and num_skipped for each two runs."""
    rows = [
        (
            found.method, measure, names[a], names[b], found.means[measure][a, b], found.counts[measure][a, b],
            found.num_explanations - found.counts[measure][a, b],
        )
        for found in comparisons
        for measure in SIMILARITIES
        for a in range(len(names))
        for b in range(a + 1, len(names))
    ]  # fmt: skip
    columns = ["method", "measure", "run", "other", "value", "num_explanations", "num_skipped"]
    return pd.DataFrame(rows, columns=columns)


def stability_table(found: Comparison, names: Sequence[str], *, split: str, percentage: float, width: int = 80) -> str:
    """Returns one matrix, Jaccard below the diagonal and Spearman above it, in blocks of columns within `width`."""
    columns = []
    for b in range(len(names)):
        above = [_number(found.means["spearman"][a, b]) for a in range(b)]
        below = [_number(found.means["jaccard"][a, b]) for a in range(b + 1, len(names))]
        columns.append(Column(str(b + 1), [*above, "-", *below]))
    title = (
        f"stability of {found.method} on {split}, {found.num_explanations} explanations\n"
        f"below the diagonal Jaccard of the top {percentage:g} %, above it Spearman's correlation"
    )
    return text_table([f"{place} {name}" for place, name in enumerate(names, 1)], columns, title=title, width=width)


def _number(value: float) -> str:
    return "?" if np.isnan(value) else f"{value:.2f}"


def write_report(
    comparisons: Sequence[Comparison], names: Sequence[str], folder: Path, *, split: str, percentage: float
) -> tuple[str, np.ndarray]:
    """Writes `<split>.csv` and `<split>.png`, and returns the tables and the picture [height, width, 3] in uint8."""
    table = stability_frame(comparisons, names)
    write_whole(folder / f"{split}.csv", lambda file: table.to_csv(file, index=False))
    titles = {"jaccard": f"Jaccard, top {percentage:g} %", "spearman": "Spearman", "kendall": "Kendall"}
    rows = [
        [Matrix(f"{c.method}\n{titles[m]}", c.means[m], 0.0 if m == "jaccard" else -1.0) for m in SIMILARITIES]
        for c in comparisons
    ]
    picture = figure_image(matrices_figure(rows, names))
    write_whole(folder / f"{split}.png", lambda file: save_png(picture, file))
    tables = [stability_table(c, names, split=split, percentage=percentage) for c in comparisons]
    written = [f"written: {folder / f'{split}.{suffix}'}" for suffix in ("csv", "png")]
    return "\n\n".join(tables) + "\n" + "\n".join(written), picture
