"""`run.py stability`: compares the attributions that finished runs have stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from lightning_xai.commands.parser.typed_command import run_command
from lightning_xai.metrics.similarity import require_percentage, similarities
from lightning_xai.report.names import common_folder, run_names
from lightning_xai.report.stability import RunComparison, run_comparison, write_stability_report
from lightning_xai.runs.experiment import free_report_dir, record_compared, stability_report_dir
from lightning_xai.runs.folder import RUN_AGAIN, RunFolder
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.runs.stores.store import RaggedStore
from lightning_xai.runs.stores.stored_scores import NO_CLASS, StoredScores, open_scores, stored_methods


def stability_command(argv: Sequence[str]) -> None:
    """Parses the command line of `stability` and runs it.

    Raises:
        ValueError: as in `compare_runs`.
    """
    run_command(stability, argv, name="stability")


def stability(
    runs: Sequence[str],
    split: Sequence[str] = (),
    method: Sequence[str] = (),
    percentage: float = 25,
    output: str | None = None,
) -> None:
    """Prints similarities between the explanations of several runs, and writes them as tables and images.

    Args:
        runs: folders of two or more runs that stored attributions, such as runs/tm/seed0 runs/tm/seed1.
        split: splits to compare; by default, all for which every run has stored scores, except validation.
        method: attribution methods to compare; by default, all methods whose scores every run has stored.
        percentage: how many top tokens of each text the overlap compares, as a percentage of the text's tokens. The
            number of top tokens is rounded up.
        output: folder for the report; by default report/stability in the common folder of the runs or, if this folder
            has a report on other runs, report/stability_2, and so on.

    Raises:
        ValueError: as in `compare_runs`.
    """
    folders = [Path(run) for run in runs]
    folder = Path(output) if output else None
    print(compare_runs(folders, folder, splits=split, methods=method, percentage=percentage))


def compare_runs(
    runs: Sequence[Path],
    output: Path | None = None,
    *,
    splits: Sequence[str] = (),
    methods: Sequence[str] = (),
    percentage: float = 25,
) -> str:
    """Writes `<split>.csv` and `<split>.png` to `output`, and returns, as text, a table for each split and method.

    The values are the same as those of the Stability callback. Neither a network nor data are loaded.

    Args:
        runs: folders of runs whose scores AttributionCacheWriter has stored.
        output: folder to write to; by default as in `stability`.
        splits: splits to compare; if empty, all for which every run has stored scores, except validation.
        methods: methods to compare; if empty, all methods whose scores every run has stored.
        percentage: how many top tokens of each text the overlap compares, as a percentage of the text's tokens. The
            number of top tokens is rounded up.

    Raises:
        ValueError: there are fewer than two runs; a run does not exist, is named twice or has another format;
            `percentage` is outside (0, 100]; the runs have no scores in common; or the runs differ in method settings,
            examples, classes, numbers of tokens, or in which tokens are explainable.

    Example:
        >>> compare_runs([Path("runs/tm/seed0")])
        Traceback (most recent call last):
        ValueError: runs/tm/seed0 cannot be compared: name the folders of two or more runs, such as runs/tm/seed0
    """
    require_percentage(percentage)
    _check_folders(runs)
    pairs = _common_scores(runs, splits, methods)
    scores = {(split, method): [open_scores(run, split, method) for run in runs] for split, method in pairs}
    # compares the masks of all runs before any report is written, because different masks raise an error
    masks = {pair: _common_token_masks(stores) for pair, stores in scores.items()}
    folder = output or free_report_dir(stability_report_dir(common_folder(runs)), runs)
    reports = []
    for split in dict.fromkeys(split for split, _ in pairs):
        split_pairs = [pair for pair in pairs if pair[0] == split]
        comparisons = [_comparison(pair[1], scores[pair], masks[pair], percentage) for pair in split_pairs]
        reports.append(
            write_stability_report(comparisons, run_names(runs), folder, split=split, percentage=percentage)[0]
        )
    record_compared(folder, runs)
    return "\n\n".join(reports)


def _check_folders(runs: Sequence[Path]) -> None:
    if len(runs) < 2:
        problem = f"{runs[0]} cannot be compared" if runs else "no run is named"
        raise ValueError(f"{problem}: name the folders of two or more runs, such as runs/tm/seed0")
    for place, run in enumerate(runs):
        if not run.is_dir():
            raise ValueError(f"{run} does not exist: fit and test that run first, or correct the path")
        if run.resolve() in [earlier.resolve() for earlier in runs[:place]]:
            raise ValueError(f"{run} is named twice: name each run once")
        RunFolder(run).check_format(RUN_AGAIN)


def _common_scores(runs: Sequence[Path], splits: Sequence[str], methods: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the pairs (split, method) to compare.

    If `splits` is empty, all splits are compared, except validation. If `methods` is empty, all methods are compared.
    In both cases, a split or method for which a run has stored no scores is left out.
    """
    stored = [stored_methods(run) for run in runs]
    common = set(stored[0]).intersection(*stored[1:])
    common_splits = {split for split, method in common if method in methods or not methods} - {VALIDATION}
    pairs = [
        (split, method)
        for split in splits or sorted(common_splits)
        for method in methods or sorted(method for common_split, method in common if common_split == split)
    ]
    missing_splits = [split for split in splits if split not in {pair[0] for pair in pairs}]
    if not pairs or missing_splits:
        named = f" by {', '.join(methods)}" if methods else ""
        named += f" on {', '.join(missing_splits)}" if missing_splits else ""
        available = "; ".join(f"{run} has {_names(names)}" for run, names in zip(runs, stored, strict=True))
        raise ValueError(
            f"the runs have no scores{named} in common ({available}): test the runs with the same methods and an "
            "AttributionCacheWriter, or choose a split and a method that all runs have"
        )
    for run, names in zip(runs, stored, strict=True):
        for split, method in pairs:
            if (split, method) not in names:
                raise ValueError(
                    f"{run} has no scores by {method} on {split}, only {_names(names)}: choose from these with --split "
                    "and --method, or test this run with that method and an AttributionCacheWriter"
                )
    return list(dict.fromkeys(pairs))


def _names(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(map("/".join, pairs)) or "none"


def _common_token_masks(scores: Sequence[StoredScores]) -> RaggedStore:
    """Checks that all runs have comparable scores, and returns the token masks that they share.

    Raises:
        ValueError: the runs have different method settings, examples, classes, numbers of tokens or token masks.
    """
    first, *others = scores
    keys, masks = set(first.keys()), first.token_masks()
    for other in others:
        other.require_method(*(first.metadata.get(name) for name in ("method", "examples", "encoder", "class_names")))
        for key in first.keys():
            other.row(key, len(first.get(*key)), str(first.path))
        other.require_rows_among(keys, str(first.path))
        other_masks = other.token_masks()
        for index in dict.fromkeys(index for index, _ in first.keys()):
            if masks.get(index, NO_CLASS).tolist() != other_masks.get(index, NO_CLASS).tolist():
                raise ValueError(
                    f"{other.path} and {first.path} do not have the same explainable tokens in the example with index "
                    f"{index}: use the same encoder and data in all runs"
                )
    return masks


def _comparison(method: str, scores: Sequence[RaggedStore], masks: RaggedStore, percentage: float) -> RunComparison:
    values = []
    for index, target in scores[0].keys():
        mask = torch.tensor(masks.get(index, NO_CLASS)) > 0.5
        rows = torch.stack([torch.tensor(store.get(index, target)) for store in scores])  # [R, T]
        values.append(similarities(rows[:, mask], percentage).numpy())
    return run_comparison(method, values, len(scores))
