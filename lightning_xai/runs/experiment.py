"""The folder of an experiment, with the runs of all seeds and the reports about these runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_xai.runs.folder import RunFolder


def runs_of(experiment_dir: Path) -> list[RunFolder]:
    """Returns the runs of all seeds in an experiment's folder, sorted by the names of their folders.

    Example:
        >>> runs_of(Path("no/such/experiment"))
        []
    """
    return [RunFolder(path) for path in sorted(experiment_dir.glob("seed*")) if path.is_dir()]


def other_data_notes(experiments: Mapping[str, Path]) -> list[str]:
    """Returns a line for each experiment whose data differ from those of the first one, so that means do not compare.

    Data differ if the classes differ, or if a text among the settings of the source differs, such as a path or a class.

    Args:
        experiments: name -> folder of the experiment. Folders without runs of this package are skipped.

    Example:
        >>> other_data_notes({"tm": Path("no/such/experiment")})
        []
    """
    runs = {name: runs_of(folder)[:1] for name, folder in experiments.items()}
    facts = {name: _data_facts(run) for name, found in runs.items() for run in found if run.settings}
    first = next(iter(facts), "")
    return [
        f"{name} and {first} have different data ({', '.join(differing[:2])}): their numbers do not compare"
        for name, own in facts.items()
        if (differing := sorted(key for key in {*own, *facts[first]} if own.get(key) != facts[first].get(key)))
    ]


def _data_facts(run: RunFolder) -> dict[str, Any]:
    """Returns the facts by which `other_data_notes` compares the data of two runs."""
    source = {
        key: value
        for key, value in (run.settings or {}).items()
        if key.startswith("data.init_args.source.") and isinstance(value, str) and not key.endswith(".cache_dir")
    }
    return source | {"classes": run.manifest.get("class_names")}


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
