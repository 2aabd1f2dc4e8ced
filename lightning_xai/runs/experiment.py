"""The folder of an experiment, with the runs of all seeds and the reports about these runs."""

from __future__ import annotations

from pathlib import Path

from lightning_xai.runs.folder import RunFolder


def runs_of(experiment_dir: Path) -> list[RunFolder]:
    """Returns the runs of all seeds in an experiment's folder, sorted by the names of their folders.

    Example:
        >>> runs_of(Path("no/such/experiment"))
        []
    """
    return [RunFolder(path) for path in sorted(experiment_dir.glob("seed*")) if path.is_dir()]


def report_dir(experiment_dir: Path) -> Path:
    """Returns the folder for figures and tables about all seeds of an experiment.

    Example:
        >>> report_dir(Path("runs/roar")).as_posix()
        'runs/roar/report'
    """
    return experiment_dir / "report"


def stability_report_dir(folder: Path) -> Path:
    """Returns the folder for reports that compare the attributions of all runs in `folder`.

    Example:
        >>> stability_report_dir(Path("runs/tm")).as_posix()
        'runs/tm/report/stability'
    """
    return report_dir(folder) / "stability"
