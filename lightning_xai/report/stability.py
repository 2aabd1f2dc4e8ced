"""Reports the similarity of explanations for each pair of runs, as a table, a CSV file and an image."""

from __future__ import annotations

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
from lightning_xai.runs.files.whole_files import write_csv, write_whole
from lightning_xai.runs.folder import RunFolder

COLUMNS = ["method", "metric", "run", "other", "value", "num_explanations", "num_skipped"]


def matching_runs(names: Sequence[str], this_run: Path, runs_dir: Path) -> list[Path]:
    """Returns the folders of the runs that `names` select, without `this_run`.

    Args:
        names: folders, or patterns such as "tm/seed*". A pattern matches only tested runs, because other runs may still
            be writing their scores. Relative names are looked up in `runs_dir` first, then in the working directory.
        this_run: folder of the run with which the selected runs are to be compared.
        runs_dir: folder of all runs.

    Raises:
        ValueError: a folder in `names` does not exist.

    Example:
        >>> import tempfile
        >>> runs_dir = Path(tempfile.mkdtemp())
        >>> for seed in (0, 1):
        ...     (runs_dir / f"tm/seed{seed}").mkdir(parents=True)
        ...     (runs_dir / f"tm/seed{seed}/results.parquet").touch()
        >>> [run.name for run in matching_runs(["tm/seed*"], runs_dir / "tm/seed0", runs_dir)]
        ['seed1']
    """
    runs: dict[Path, Path] = {}  # absolute path -> path as found, which may be relative
    for name in names:
        is_pattern = any(character in name for character in "*?[")
        paths = sorted(str(runs_dir / path) for path in glob(name, root_dir=runs_dir)) or sorted(glob(name))
        if not is_pattern and not paths:
            raise ValueError(f"{name} does not exist: fit and test this run first, or correct its name")
        for path in map(Path, paths):
            if path.resolve() != this_run.resolve() and (not is_pattern or RunFolder(path).is_tested):
                runs.setdefault(path.resolve(), path)
    return list(runs.values())


@dataclass(frozen=True)
class RunComparison:
    """Mean similarities between the explanations of R runs, for one method on one split.

    Attributes:
        method: name of the method.
        means: similarity metric -> [R, R] float64 means over explanations for each pair of runs, NaN where the metric
            is undefined for every explanation.
        counts: similarity metric -> [R, R] int numbers of explanations with a defined value, for each pair of runs.
        num_explanations: number of explanations of each run.

    Example:
        >>> comparison = RunComparison("gradient", {"jaccard": np.eye(2)}, {"jaccard": np.full((2, 2), 7)}, 7)
        >>> comparison.means["jaccard"].tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """

    method: str
    means: dict[str, np.ndarray]
    counts: dict[str, np.ndarray]
    num_explanations: int


def run_comparison(method: str, similarities: Sequence[np.ndarray], num_runs: int) -> RunComparison:
    """Returns a RunComparison with the mean of each similarity metric over explanations.

    Args:
        method: name of the method.
        similarities: for each explanation, its similarities [len(SIMILARITIES), R, R], NaN where undefined.
        num_runs: number of runs R.

    Example:
        >>> two_runs = [np.full((3, 2, 2), value) for value in (0.25, 0.75, np.nan)]
        >>> comparison = run_comparison("gradient", two_runs, num_runs=2)
        >>> float(comparison.means["jaccard"][0, 1]), int(comparison.counts["jaccard"][0, 1])
        (0.5, 2)
    """
    stacked = np.stack(similarities) if len(similarities) else np.zeros((0, len(SIMILARITIES), num_runs, num_runs))
    defined = ~np.isnan(stacked)
    counts = defined.sum(axis=0)
    sums = np.where(defined, stacked, 0.0).sum(axis=0)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return RunComparison(
        method, dict(zip(SIMILARITIES, means, strict=True)), dict(zip(SIMILARITIES, counts, strict=True)), len(stacked)
    )


def stability_frame(comparisons: Sequence[RunComparison], names: Sequence[str]) -> pd.DataFrame:
    """Returns a table with the columns `COLUMNS`, and a row for each method, metric and pair of runs.

    Args:
        comparisons: one comparison for each method.
        names: names of the R runs.

    Example:
        >>> comparison = run_comparison("gradient", [np.full((3, 2, 2), 0.5)], 2)
        >>> frame = stability_frame([comparison], ["tm.seed0", "tm.seed1"])
        >>> frame["metric"].tolist(), frame["value"].tolist()
        (['jaccard', 'spearman', 'kendall'], [0.5, 0.5, 0.5])
    """
    rows = []
    for comparison in comparisons:
        for metric in SIMILARITIES:
            for a in range(len(names)):
                for b in range(a + 1, len(names)):
                    mean, count = comparison.means[metric][a, b], comparison.counts[metric][a, b]
                    num_skipped = comparison.num_explanations - count
                    rows.append((comparison.method, metric, names[a], names[b], mean, count, num_skipped))
    return pd.DataFrame(rows, columns=COLUMNS)


def stability_table(
    comparison: RunComparison, names: Sequence[str], *, split: str, percentage: float, width: int = 80
) -> str:
    """Returns an R x R matrix as text, with Jaccard similarity below the diagonal and Spearman's correlation above it.

    Args:
        comparison: mean similarities between R runs.
        names: names of the R runs.
        split: name of the split, for the title.
        percentage: percentage of each text's tokens that count as top tokens in Jaccard similarity, for the title.
        width: number of characters in a line.

    Example:
        >>> values = np.array([[[1, v], [v, 1]] for v in (0.25, 0.75, 0.5)])
        >>> comparison = run_comparison("gradient", [values], num_runs=2)
        >>> print(stability_table(comparison, ["tm.seed0", "tm.seed1"], split="test", percentage=25))
        stability of gradient on test, 1 explanations
        below the diagonal: Jaccard of the top 25 %; above it: Spearman's correlation
                       1     2
        1 tm.seed0     -  0.75
        2 tm.seed1  0.25     -
    """
    columns = []
    for b in range(len(names)):
        above = [_number(comparison.means["spearman"][a, b]) for a in range(b)]
        below = [_number(comparison.means["jaccard"][a, b]) for a in range(b + 1, len(names))]
        columns.append(Column(str(b + 1), [*above, "-", *below]))
    title = (
        f"stability of {comparison.method} on {split}, {comparison.num_explanations} explanations\n"
        f"below the diagonal: Jaccard of the top {percentage:g} %; above it: Spearman's correlation"
    )
    return text_table([f"{place} {name}" for place, name in enumerate(names, 1)], columns, title=title, width=width)


def write_stability_report(
    comparisons: Sequence[RunComparison], names: Sequence[str], folder: Path, *, split: str, percentage: float
) -> tuple[str, np.ndarray]:
    """Writes `<split>.csv` and `<split>.png`. Returns the tables and the uint8 image [height, width, 3].

    Args:
        comparisons: one comparison for each method.
        names: names of the runs.
        folder: folder to which the files are written.
        split: name of the split.
        percentage: as in `stability_table`, for the titles.

    Example:
        >>> import tempfile
        >>> comparison, folder = run_comparison("gradient", [np.full((3, 2, 2), 0.5)], 2), Path(tempfile.mkdtemp())
        >>> tables, picture = write_stability_report([comparison], ["a", "b"], folder, split="test", percentage=25)
        >>> sorted(file.name for file in folder.iterdir())
        ['test.csv', 'test.png']
    """
    frame = stability_frame(comparisons, names)
    csv_file, png_file = folder / f"{split}.csv", folder / f"{split}.png"
    write_csv(frame, csv_file)
    picture = figure_image(matrices_figure([_matrices(each, percentage) for each in comparisons], names))
    write_whole(png_file, lambda file: save_png(picture, file))
    tables = [stability_table(each, names, split=split, percentage=percentage) for each in comparisons]
    return "\n\n".join(tables) + f"\nwritten: {csv_file}\nwritten: {png_file}", picture


def _matrices(comparison: RunComparison, percentage: float) -> list[Matrix]:
    titles = {"jaccard": f"Jaccard, top {percentage:g} %", "spearman": "Spearman", "kendall": "Kendall"}
    return [
        Matrix(f"{comparison.method}\n{titles[metric]}", comparison.means[metric], 0.0 if metric == "jaccard" else -1.0)
        for metric in SIMILARITIES
    ]


def _number(value: float) -> str:
    return "?" if np.isnan(value) else f"{value:.2f}"
