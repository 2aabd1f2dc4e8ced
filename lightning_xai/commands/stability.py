"""`run.py stability`: how alike finished runs explain the same texts, by the attributions that each of them stored."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import torch

from lightning_xai.commands.racu import default_output
from lightning_xai.metrics.similarity import require_percentage, similarities
from lightning_xai.report.stability import Comparison, compare, run_names, write_report
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.runs.store import RaggedStore
from lightning_xai.runs.stored_scores import NO_CLASS, StoredScores, open_scores, stored_methods


def stability_command(argv: Sequence[str]) -> None:
    """Parses the command line of `stability` and runs it.

    Raises:
        ValueError: see compare_runs.
    """
    parser = ArgumentParser(prog="run.py stability", description=__doc__, exit_on_error=False)
    parser.add_argument("runs", nargs="*", type=Path, help="folders of two or more runs, such as runs/tm/seed0")
    parser.add_argument(
        "--split", nargs="+", default=[], help="splits; by default those that all runs have, but validation"
    )
    parser.add_argument("--method", nargs="+", default=[], help="methods; by default those that all runs have")
    parser.add_argument("--percentage", type=float, default=25, help="percent of the tokens whose overlap is measured")
    parser.add_argument("--output", type=Path, help="folder to write; by default report/stability beside the runs")
    found = parser.parse_args(argv)
    settings = {"splits": found.split, "methods": found.method, "percentage": found.percentage}
    print(compare_runs(found.runs, found.output, **settings))


def compare_runs(
    runs: Sequence[Path],
    output: Path | None = None,
    *,
    splits: Sequence[str] = (),
    methods: Sequence[str] = (),
    percentage: float = 25,
) -> str:
    """Writes `<split>.csv` and `<split>.png` to `output` and returns the matrices of all pairs of runs.

    The numbers are those of the Stability callback; no network and no data are read.

    Args:
        runs: folders of runs with scores by AttributionCacheWriter.
        output: by default `report/stability` in the folder that holds all runs.
        splits: all that every run has scores on, if empty, but validation.
        methods: all that every run has scores by, if empty.
        percentage: percent of the tokens, rounded up, whose overlap is measured.

    Raises:
        ValueError: fewer than two runs, or one of them twice or missing; percentage outside (0, 100]; nothing in
            common; other settings of a method, examples, classes, lengths or tokens to explain (they are named).
    """
    require_percentage(percentage)
    _check_folders(runs)
    chosen = _in_common(runs, splits, methods)
    stores = {(split, name): [open_scores(run, split, name) for run in runs] for split, name in chosen}
    masks = {key: _matched(opened) for key, opened in stores.items()}  # of all of them before the work
    reports = []
    for split in dict.fromkeys(split for split, _ in chosen):
        keys = [key for key in chosen if key[0] == split]
        comparisons = [_comparison(key[1], stores[key], masks[key], percentage) for key in keys]
        folder = output or default_output(runs) / "stability"
        reports.append(write_report(comparisons, run_names(runs), folder, split=split, percentage=percentage)[0])
    return "\n\n".join(reports)


def _check_folders(runs: Sequence[Path]) -> None:
    if len(runs) < 2:
        named = ", ".join(map(str, runs)) or "no run"
        raise ValueError(f"{named} cannot be compared: name the folders of two or more runs, such as runs/tm/seed0")
    for place, run in enumerate(runs):
        if not run.is_dir():
            raise ValueError(f"{run} is not there: fit and test that run first, or correct its folder")
        if run.resolve() in [other.resolve() for other in runs[:place]]:
            raise ValueError(f"{run} is named twice: name each run once")


def _in_common(runs: Sequence[Path], splits: Sequence[str], methods: Sequence[str]) -> list[tuple[str, str]]:
    """Returns each (split, method) that is compared: where all runs have scores, or as named."""
    held = [stored_methods(run) for run in runs]
    common = set(held[0]).intersection(*held[1:])
    known_splits = {split for split, name in common if name in methods or not methods} - {VALIDATION}
    wanted = [
        (split, name)
        for split in splits or sorted(known_splits)
        for name in methods or sorted(name for other, name in common if other == split)
    ]
    lacking = [split for split in splits if split not in [known for known, _ in wanted]]
    if not wanted or lacking:
        asked = [f"by {', '.join(methods)}"] * bool(methods) + [f"on {', '.join(lacking)}"] * bool(lacking)
        known = "; ".join(f"{run} has {_listed(found)}" for run, found in zip(runs, held, strict=True))
        raise ValueError(
            f"{' '.join(['the runs have no scores', *asked])} in common ({known}): test them with the same methods "
            "and an AttributionCacheWriter, or name what they have"
        )
    for run, found in zip(runs, held, strict=True):
        for split, name in wanted:
            if (split, name) not in found:
                raise ValueError(
                    f"{run} has no scores by {name} on {split}, but {_listed(found)}: name those by --split and "
                    "--method, or test it with that method and an AttributionCacheWriter"
                )
    return list(dict.fromkeys(wanted))


def _listed(found: Sequence[tuple[str, str]]) -> str:
    return ", ".join(map("/".join, found)) or "none"


def _matched(stores: Sequence[StoredScores]) -> RaggedStore:
    """Returns the token masks of scores that can be compared row by row; no scores are read."""
    first, *others = stores
    known, masks = set(first.keys()), first.token_masks()
    for store in others:
        store.require_method(first.metadata.get("method"), first.metadata.get("examples"))
        for key in first.keys():
            store.row(key, len(first.get(*key)), str(first.path))
        store.require_rows_among(known, str(first.path))
        other = store.token_masks()
        for index in dict.fromkeys(index for index, _ in first.keys()):
            if masks.get(index, NO_CLASS).tolist() != other.get(index, NO_CLASS).tolist():
                raise ValueError(
                    f"{store.path} may explain other tokens of example {index} than {first.path}: use one encoder and "
                    "the same data in all runs"
                )
    return masks


def _comparison(method: str, stores: Sequence[RaggedStore], masks: RaggedStore, percentage: float) -> Comparison:
    found = []
    for index, target in stores[0].keys():
        mask = torch.tensor(masks.get(index, NO_CLASS)) > 0.5
        scores = torch.stack([torch.tensor(store.get(index, target)) for store in stores])
        found.append(similarities(scores[:, mask], percentage).numpy())
    return compare(method, found, len(stores))
