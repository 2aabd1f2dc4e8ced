"""Collects the results of several models, each trained with several seeds, and summarizes them over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.model_tables.authors_results import (
    COLUMNS,
    is_authors_run,
    read_authors_run,
    read_special_tokens,
)
from lightning_xai.report.names import experiment_names
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.results_table import ResultsTable, run_tables

LOWER_IS_BETTER = frozenset({"empty", "kl", "entropy", "sufficiency", "log_loss"})
# prefixes of EvidenceOverlap's metric names, one for each part (see `read_models`); the part "all" has no prefix
PARTS = ("predicted", "missed", "zeroed", "with_cut")
_EVIDENCE = "evidence/"  # prefix of the metrics of EvidenceOverlap
_COSTS = ("forward_passes", "backward_passes", "seconds")
_SEGMENTS = ("version_segments", "encoded_segments")  # only methods that erase tokens can have values for these
_GAIN = "gain"  # version_segments divided by encoded_segments
_WITHOUT_DIRECTION = "symbol_share/"  # prefix of metrics for which neither higher nor lower is better


def read_models(
    places: Sequence[Path],
    *,
    split: str = "test",
    preset: str = "edin",
    names: Sequence[str] = (),
    preset_file: str | None = None,
) -> pd.DataFrame:
    """Returns one row for each model, run, part, method and metric.

    A metric is computed for pairs of a document and a gold code (class). The part says for which pairs. "all": the
    pairs whose evidence was not entirely truncated. "predicted": the pairs of "all" whose code the network predicts.
    "missed": the other pairs of "all". "with_cut": the pairs of "all", and the pairs whose evidence was entirely
    truncated. "zeroed": the pairs of "all", but the scores of tokens without a letter or digit are set to 0. For
    classification metrics, part and method are "".

    Args:
        places: folders of experiments, such as runs/tm; folders with runs in the format of Edin et al. (2024); or files
            in the format of special_token_results.csv by the same authors, which has a column with model names.
        split: the split whose results are read.
        preset: the preset whose results are read.
        names: names of the models; by default the names of the experiments.
        preset_file: configuration file of the preset, for messages; None if there is none.

    Returns:
        A table with the columns model, run, part, method, metric and value.

    Raises:
        ValueError: one of the `places` has no results for the split and preset, the number of `names` is not the number
            of models, or two models have the same name.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.results_table import ResultsTable
        >>> folder = Path(tempfile.mkdtemp()) / "tm"
        >>> (folder / "seed0").mkdir(parents=True)
        >>> row = {"split": "test", "preset": "edin", "method": "attention", "metric": "evidence/missed_f1"}
        >>> row |= {"value": 0.5, "checkpoint": "0a1b"} | dict.fromkeys(["forward_passes", "backward_passes"], 1)
        >>> ResultsTable(folder / "seed0").write(pd.DataFrame([row | {"seconds": 0.25}]), {})
        >>> row = read_models([folder]).iloc[0]
        >>> row[["part", "method", "metric"]].tolist(), float(row["value"])
        (['missed', 'attention', 'f1'], 0.5)
    """
    if names and len(names) != len(places):
        raise ValueError(
            f"{quantity(len(names), 'name')} for {quantity(len(places), 'model')}: give a name for each, or no names"
        )
    names = names or experiment_names(places)
    if repeated := sorted({name for name in names if list(names).count(name) > 1}):
        raise ValueError(f"two models are named {repeated[0]}: give each model its own name, and each folder once")
    parts = []
    for place, name in zip(places, names, strict=True):
        if place.is_file():
            parts.append(read_special_tokens(place))
            continue
        authors = sorted(folder for folder in place.glob("*") if is_authors_run(folder))
        if authors:
            parts += [read_authors_run(folder, name) for folder in authors]
            continue
        runs = [run for run in runs_of(place) if ResultsTable(run.path).exists]
        if not runs:
            raise ValueError(f"{place} has no seed*/results.parquet: give the folder of an experiment with tested runs")
        parts += [_read_run(run.path, name, split, preset, preset_file) for run in runs]
    return pd.concat(parts, ignore_index=True)


def _read_run(folder: Path, model: str, split: str, preset: str, preset_file: str | None) -> pd.DataFrame:
    """Returns the results of one run of this package.

    All results are from one test: the test in results.parquet or, if it lacks the split or the preset, the newest other
    test of the same checkpoint that has both. If the test in results.parquet has the split but not the preset, the
    other test must have used the same examples.
    """
    tests = run_tables(folder)
    has_split = split in set(tests[0].rows["split"])
    usable = [test for test in tests if test.same_examples or not has_split]
    for test in usable:
        table = test.rows[(test.rows["split"] == split) & test.rows["preset"].isin(["", preset])]
        explained = table[table["preset"] == preset]
        if len(explained):
            break
    else:
        remedy = _remedy(pd.concat([test.rows for test in usable]), split, preset_file)
        raise ValueError(f"{folder} has no results for split {split!r} and preset {preset!r}: {remedy}")
    rows = []
    for _, row in table.iterrows():
        part, metric = _part_of(row["metric"]) if row["method"] else ("", row["metric"])
        rows.append((model, folder.name, part, row["method"], metric, row["value"]))
    for _, row in explained.drop_duplicates("method").iterrows():
        costs = {name: row[name] for name in _COSTS}
        # results tables that older versions of this package wrote lack the columns with numbers of segments
        segments = {name: row[name] for name in _SEGMENTS if name in explained and pd.notna(row[name])}
        if segments:
            costs |= segments | {_GAIN: row["version_segments"] / row["encoded_segments"]}
        rows += [(model, folder.name, "all", row["method"], name, cost) for name, cost in costs.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _remedy(rows: pd.DataFrame, split: str, preset_file: str | None) -> str:
    """Returns advice for the user if a run has results (`rows`), but none for the given split and the wanted preset."""
    with_presets = rows[rows["preset"] != ""]
    if with_presets.empty:
        return (
            "this run has no preset: move its folder out of the experiment, or test the run with attribution methods "
            "and metrics in trainer.callbacks"
        )
    if split not in set(with_presets["split"]):
        return f"choose another with --split (this run has {', '.join(sorted(set(with_presets['split'])))})"
    known = sorted(set(with_presets.loc[with_presets["split"] == split, "preset"]))
    choice = f"choose another with --preset (this run has {', '.join(known)})"
    return f"test this run with {preset_file}, or {choice}" if preset_file else choice


def _part_of(metric: str) -> tuple[str, str]:
    """Splits a metric's name in results.csv into the part (see `read_models`) and the rest of the name."""
    metric = metric.removeprefix(_EVIDENCE)
    for part in PARTS:
        if metric.startswith(f"{part}_"):
            return part, metric.removeprefix(f"{part}_")
    return "all", metric


def over_seeds(rows: pd.DataFrame, *, unsupervised: str | None = None, supervised: str | None = None) -> pd.DataFrame:
    """Returns the mean and, over two or more runs, the population standard deviation for each model.

    Args:
        rows: rows that `read_models` returns.
        unsupervised: name of the unsupervised baseline, B_U.
        supervised: name of the supervised baseline, B_S.

    Returns:
        A table with the columns model, part, method, metric, mean, std (NaN for a single run), num_runs,
        beats_unsupervised and beats_supervised. The last two say whether the mean is better than the mean of B_U or B_S
        for the same part, method and metric. They do not test significance. They are False for costs and for the
        metrics "symbol_share/...", for which neither higher nor lower is better.

    Raises:
        ValueError: `unsupervised` or `supervised` is not the name of a model.

    Example:
        >>> values = [("B_U", 0.25), ("B_U", 0.75), ("TM", 0.75)]
        >>> rows = pd.DataFrame(values, columns=["model", "value"]).assign(part="all", method="attention", metric="f1")
        >>> over_seeds(rows, unsupervised="B_U")[["model", "mean", "std", "num_runs", "beats_unsupervised"]]
          model  mean   std  num_runs  beats_unsupervised
        0   B_U  0.50  0.25         2               False
        1    TM  0.75   NaN         1                True
    """
    keys = ["model", "part", "method", "metric"]
    grouped = rows.groupby(keys, sort=False)["value"]
    table = grouped.agg(mean="mean", std=lambda values: values.std(ddof=0), num_runs="count").reset_index()
    table["std"] = table["std"].where(table["num_runs"] > 1)
    for name, baseline in (("unsupervised", unsupervised), ("supervised", supervised)):
        known = list(dict.fromkeys(table["model"]))
        if baseline is not None and baseline not in known:
            raise ValueError(f"{name} is {baseline!r}, but the models are {', '.join(known)}: name one of these models")
        of_baseline = table[table["model"] == baseline].set_index(keys[1:])["mean"]
        compared = table.set_index(keys[1:]).index.map(of_baseline.to_dict()).to_numpy(dtype=float)
        table[f"beats_{name}"] = (table["metric"].map(_direction) * (table["mean"] - compared) > 0).to_numpy()
    return table


def _direction(metric: str) -> int:
    if metric in (*_COSTS, *_SEGMENTS, _GAIN) or metric.startswith(_WITHOUT_DIRECTION):
        return 0
    return -1 if metric in LOWER_IS_BETTER else 1
