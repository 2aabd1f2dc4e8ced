"""Facts about the run and the test that a command starts; the callback ResultsFile needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lightning_xai.runs.evaluation_settings import changed_evaluation, hash_of_evaluation
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.results_table import ResultsTable


@dataclass(frozen=True)
class RunFacts:
    """Facts about the run that a command starts.

    Attributes:
        experiment: name of the experiment.
        seed: the run's random seed.
        tests_after_fit: whether the command is a fit that is followed by a test.
        settings: the settings on which the run's results depend, from `run_settings`.

    Example:
        >>> RunFacts("tm", seed=0).tests_after_fit
        False
    """

    experiment: str
    seed: int
    tests_after_fit: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FactsOfTest:
    """Facts about the test, validation or prediction that a command starts.

    Attributes:
        checkpoint: hash of the tested checkpoint. It becomes a column of the results table.
        table: files to which a test writes its results. Heatmaps and predictions get the suffix of these files.

    Example:
        >>> from pathlib import Path
        >>> FactsOfTest("0a1b2c3d4e5f", ResultsTable(Path("runs/tm/seed0"))).table.csv.as_posix()
        'runs/tm/seed0/results.csv'
    """

    checkpoint: str
    table: ResultsTable


def table_of_test(run: RunFolder, checkpoint: str, settings: Mapping[str, Any]) -> ResultsTable:
    """Returns the files for the results of the command `test`. Results of other tests are never overwritten.

    By default, these are the files of the run's current table, `results.*`. If the test examples differ from the run's,
    the hashes of the checkpoint and of the examples are added to the names. Otherwise, if the current table has results
    of another checkpoint, the hash of the checkpoint is added. If a table with the resulting names exists and has
    results of other evaluation settings, the hash of the command's evaluation settings is added, too.

    Args:
        run: the run.
        checkpoint: hash of the tested checkpoint.
        settings: settings of the command.

    Example:
        >>> from pathlib import Path
        >>> table_of_test(RunFolder(Path("no/such/run")), "0a1b2c3d4e5f", {}).stem
        'results'
    """
    table, begun = run.results_table, run.settings
    if other_data := run.other_data(settings):
        table = ResultsTable(run.path, f"{table.stem}_{checkpoint}_{other_data}")
        begun = None
    elif table.exists and table.checkpoint != checkpoint:
        table = ResultsTable(run.path, f"{table.stem}_{checkpoint}")
        begun = None
    made_with = table.settings or begun or settings
    if table.exists and changed_evaluation(made_with, settings):
        table = ResultsTable(run.path, f"{table.stem}_{hash_of_evaluation(settings)}")
    return table


def table_of_prediction(
    run: RunFolder, checkpoint: str, settings: Mapping[str, Any], best: str | None = None
) -> ResultsTable:
    """Returns a table whose suffix `predict` and `validate` add to the names of their predictions and heatmaps.

    These commands write no table. The suffix depends on their checkpoint, examples and evaluation settings:

    - If the run has a table that was made with the same checkpoint, examples and settings, the suffix is "".
    - If the run has no table, the suffix is "" if the checkpoint is the run's best one (or the run has no best one),
      and the examples and settings are those of the fit.
    - In all other cases, the suffix consists of the hash of the checkpoint (if the checkpoint differs), the hash of the
      examples (if the examples differ), and the hash of the evaluation settings.

    Args:
        run: the run.
        checkpoint: hash of the checkpoint that is used.
        settings: settings of the command.
        best: hash of the run's best checkpoint; None if there is none.

    Example:
        >>> from pathlib import Path
        >>> table_of_prediction(RunFolder(Path("no/such/run")), "0a1b2c3d4e5f", {}).suffix
        '_0a1b2c3d4e5f_44136fa3'
    """
    table, own = run.results_table, run.results_table.settings or run.settings
    own_checkpoint = table.checkpoint if table.exists else best
    other_data = run.other_data(settings)
    is_own = own is not None and own_checkpoint in (None, checkpoint)
    if own is not None and is_own and not other_data and not changed_evaluation(own, settings):
        return table
    hashes = [*([] if is_own else [checkpoint]), *([other_data] if other_data else []), hash_of_evaluation(settings)]
    return ResultsTable(run.path, "_".join([table.stem, *hashes]))
