"""Records in a run's manifest that a fit starts, continues or ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning_xai.runs.evaluation_settings import changed_evaluation, changed_training
from lightning_xai.runs.files.whole_files import write_json
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.format import with_format
from lightning_xai.runs.settings import ERASURES


def begin_run(run: RunFolder, settings: Mapping[str, Any]) -> None:
    """Records that a run starts. If the folder already holds a run, checks that it may continue with these settings.

    A run may continue with other evaluation settings, but not with other training settings. A chain may be added to
    it, changed or left out until the run has chosen tokens to erase. If a run is unfinished and has no checkpoint, its
    training starts anew. If the folder still has results of a checkpoint that was removed, they are kept: their table
    and their folder of heatmaps are renamed, with the hash of that checkpoint added to their names.

    Raises:
        ValueError: the folder holds a finished or resumable run in another format or with other training settings (the
            message names up to three of these).

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> run = RunFolder(Path(tempfile.mkdtemp()))
        >>> begin_run(run, {"lr": 1})
        >>> run.manifest
        {'status': 'running', 'settings': {'lr': 1}}
    """
    before, table = run.settings if run.holds_work else None, run.results_table
    if before is None:
        if not run.holds_work and table.exists:
            stem = f"{table.stem}_{table.checkpoint}"
            table.move_pages(stem)
            table.move(stem)
        write_json(run.manifest_file, with_format({"status": "running", "settings": dict(settings)}))
        return
    chain_has_begun = run.erasures_dir.exists() or settings.get(ERASURES) is not None
    if changed := changed_training(before, settings, chain_has_begun=chain_has_begun):
        shown = "; ".join(f"{key} was {was!r}, now {now!r}" for key, (was, now) in list(changed.items())[:3])
        remedy = "remove that folder"
        if run.erasures_dir.exists() and not changed_training(before, settings, chain_has_begun=False):
            remedy = f"remove {run.erasures_dir} and the runs of the later stages, to begin the chain anew"
        raise ValueError(
            f"{run.path} holds a run with other settings ({shown}): choose another --experiment, or {remedy}"
        )
    if changed_evaluation(before, settings) or changed_training(before, settings):
        if table.exists and table.settings is None:  # a table of an older version, without settings
            table.write_settings(before, table.checkpoint)
        run.write_manifest(settings=dict(settings))


def finish_run(run: RunFolder, *, seconds: float, **facts: Any) -> None:
    """Records in the manifest that a run is finished, with the seconds that it took and additional facts.

    Args:
        run: the run.
        seconds: seconds from the end of the training to the end of the run.
        **facts: additional entries of the manifest.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> run = RunFolder(Path(tempfile.mkdtemp()))
        >>> run.write_manifest(status="running", training_seconds=60.0)
        >>> finish_run(run, seconds=5)
        >>> run.manifest
        {'status': 'finished', 'training_seconds': 60.0, 'seconds': 65.0}
    """
    trained_in = run.manifest.get("training_seconds")  # None if an older version trained the run
    timing = {} if trained_in is None else {"seconds": round(trained_in + seconds, 3)}
    run.write_manifest(status="finished", **timing, **facts)


def is_evaluated_with(run: RunFolder, settings: Mapping[str, Any]) -> bool:
    """Returns whether the run's current results table exists and was made with these evaluation settings.

    Example:
        >>> from pathlib import Path
        >>> is_evaluated_with(RunFolder(Path("no/such/run")), {})
        False
    """
    # a table without settings was made with those of the manifest. `begin_run` of another process may write them into
    # the table, and then new settings into the manifest. So the manifest must be read before the table: in the other
    # order, the new settings could be mistaken for those of the table
    begun = run.settings
    made_with = run.results_table.settings or begun or settings
    return run.is_tested and not changed_evaluation(made_with, settings)
