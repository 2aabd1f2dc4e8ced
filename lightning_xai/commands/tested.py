"""Determines the hash of the tested weights, and the files for the results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning import Trainer

from lightning_xai.callbacks.base import callbacks_of, is_dry_run
from lightning_xai.chains.base import ChainCallback
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.runs.facts import FactsOfTest, table_of_prediction, table_of_test
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.progress import say
from lightning_xai.runs.run_state import is_evaluated_with


def facts_of_test(
    run: RunFolder, objective: Objective, path: str | None, settings: Mapping[str, Any], *, command: str
) -> FactsOfTest:
    """Returns the hash of the tested weights and the files for the results.

    Args:
        run: the run.
        objective: the objective with the network.
        path: checkpoint file that is used; None if the network is used as the configuration builds it.
        settings: settings of the command.
        command: "fit" for the test after a fit, whose results go to results.csv; "test", for which `table_of_test`
            names the files; or another command, such as "predict" (see `table_of_prediction`).

    Example:
        >>> from pathlib import Path
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> run = RunFolder(Path("runs/tm/seed0"))
        >>> facts_of_test(run, Supervised(random_bert()), None, {}, command="fit").table.csv.as_posix()
        runs/tm/seed0: the network is used as the configuration builds it, without a checkpoint
        'runs/tm/seed0/results.csv'
    """
    if path:
        checkpoint = checkpoint_hash(path)
        trained = RunFolder.of_checkpoint(Path(path))
        if command != "fit" and trained.manifest["status"] == "running" and not trained.is_trained:
            say(f"{trained.path}: training has not ended, so {Path(path).name} may come from an early epoch")
    elif isinstance(objective, Evaluation):
        checkpoint = checkpoint_hash(objective.path)
    else:
        checkpoint = weights_hash(objective.network)
        say(f"{run.path}: the network is used as the configuration builds it, without a checkpoint")
    if command == "fit":
        return FactsOfTest(checkpoint, run.results_table)
    if command == "test":
        return FactsOfTest(checkpoint, table_of_test(run, checkpoint, settings))
    # a results table already names the checkpoint of the run. Only without a table is the best checkpoint hashed
    best = run.best_checkpoint
    best_hash = checkpoint_hash(str(best)) if best is not None and not run.is_tested else None
    return FactsOfTest(checkpoint, table_of_prediction(run, checkpoint, settings, best_hash))


def has_ended(run: RunFolder, settings: Mapping[str, Any], trainer: Trainer, *, tests_after_fit: bool) -> bool:
    """Returns whether a `fit` with these settings has nothing left to do in a run's own folder.

    A finished run must be tested again if its evaluation settings have changed, or if a chain was added that needs the
    erasures of this run.

    Raises:
        ValueError: a finished run must be tested again, but has no checkpoint any more.

    Example:
        >>> trainer = Trainer(accelerator="cpu", logger=False)
        >>> has_ended(RunFolder(Path("no/such/run")), {}, trainer, tests_after_fit=True)
        False
    """
    is_tested = not tests_after_fit or is_evaluated_with(run, settings)
    chains = [callback for callback in callbacks_of(trainer) if isinstance(callback, ChainCallback)]
    is_complete = is_tested and not any(chain.awaits_erasures(trainer) for chain in chains)
    needs_test = run.is_finished and not (is_complete or run.missed_its_bounds)
    if needs_test and run.best_checkpoint is None and not is_dry_run(trainer):
        raise ValueError(
            f"{run.path} is finished, but has no checkpoint any more, so it cannot be tested with other settings: "
            "remove this folder to train again, or repeat the earlier command"
        )
    return run.is_finished and not needs_test


def recall_results(run: RunFolder, settings: Mapping[str, Any], trainer: Trainer) -> None:
    """Restores the results table of an earlier test that had the same evaluation settings.

    The table is restored only if the run still has it, and if that test evaluated the run's best checkpoint. If the
    current table already has these settings, only heatmaps that a killed test has moved away are restored.

    Nothing is restored in a dry run or before the training has ended. With several processes, nothing is restored,
    because they could see different tables. In a chain, nothing is restored either, because the tests of a chain also
    write other files.

    Example:
        >>> from pathlib import Path
        >>> recall_results(RunFolder(Path("no/such/run")), {}, Trainer(accelerator="cpu", logger=False))
    """
    best, kept = run.best_checkpoint, run.results_table.kept(settings)
    is_chain = any(isinstance(callback, ChainCallback) for callback in callbacks_of(trainer))
    if not run.is_trained or best is None or trainer.world_size > 1 or is_chain or is_dry_run(trainer):
        return
    if is_evaluated_with(run, settings) and not kept.exists:
        run.results_table.recall(settings)
    elif not is_evaluated_with(run, settings) and kept.exists and kept.checkpoint == checkpoint_hash(str(best)):
        run.results_table.recall(settings)
