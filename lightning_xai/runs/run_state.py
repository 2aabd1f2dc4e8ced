"""How a fit begins, goes on and ends, as the manifest of its run says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning_xai.runs.evaluation_settings import changed_evaluation, changed_training, training_settings
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.format import with_format
from lightning_xai.runs.whole_files import write_json


def begin_run(run: RunFolder, settings: Mapping[str, Any]) -> None:
    """Records in the manifest that a run with these settings begins, or checks that it may go on.

    A run goes on with other evaluation settings, but not with other training settings. A run without a checkpoint
    starts afresh. Results of another network that lie in its folder then get the hash of that network as their name.

    Raises:
        ValueError: the folder holds a finished or resumable run in another format or with other training settings (the
            message names the first three settings).

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
            table.move(f"{table.stem}_{table.checkpoint}")
        write_json(run.manifest_file, with_format({"status": "running", "settings": dict(settings)}))
    elif changed := changed_training(before, settings):
        was, now = training_settings(before), training_settings(settings)
        shown = "; ".join(f"{key} was {was.get(key)!r}, now {now.get(key)!r}" for key in changed[:3])
        raise ValueError(
            f"{run.path} holds a run with other settings ({shown}): name another --experiment, or remove it"
        )
    elif changed_evaluation(before, settings):
        if table.exists and table.settings is None:  # written before tables had settings beside them
            table.write_settings(before, table.checkpoint)
        run.write_manifest(settings=dict(settings))


def finish_run(run: RunFolder, *, seconds: float) -> None:
    """Records that a run is finished; `seconds` is the time since its training ended.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> run = RunFolder(Path(tempfile.mkdtemp()))
        >>> run.write_manifest(status="running", training_seconds=60.0)
        >>> finish_run(run, seconds=5)
        >>> run.manifest
        {'status': 'finished', 'training_seconds': 60.0, 'seconds': 65.0}
    """
    trained_in = run.manifest.get("training_seconds")  # unknown for a run that an older version trained
    timing = {} if trained_in is None else {"seconds": round(trained_in + seconds, 3)}
    run.write_manifest(status="finished", **timing)


def is_evaluated_with(run: RunFolder, settings: Mapping[str, Any]) -> bool:
    """Returns whether the current table of results was made with these evaluation settings.

    Example:
        >>> from pathlib import Path
        >>> is_evaluated_with(RunFolder(Path("no/such/run")), {})
        False
    """
    begun = run.settings  # read before the table: another process may write both, the table's first
    made_with = run.results_table.settings or begun or settings
    return run.is_tested and not changed_evaluation(made_with, settings)
