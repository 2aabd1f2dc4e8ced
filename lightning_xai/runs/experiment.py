"""The folder of an experiment, with the runs of all seeds and the reports about these runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.splits import VALIDATION


def runs_of(experiment_dir: Path) -> list[RunFolder]:
    """Returns the runs of all seeds in an experiment's folder, sorted by the names of their folders.

    Example:
        >>> runs_of(Path("no/such/experiment"))
        []
    """
    return [RunFolder(path) for path in sorted(experiment_dir.glob("seed*")) if path.is_dir()]


def other_data_notes(experiments: Mapping[str, Path]) -> list[str]:
    """Returns a line for each experiment whose settings choose other test examples than those of the first experiment.

    Args:
        experiments: name -> folder of the experiment. Folders without readable runs of this package are skipped.

    Example:
        >>> other_data_notes({"tm": Path("no/such/experiment")})
        []
    """
    settings_of: dict[str, Mapping[str, Any] | None] = {}
    for name, folder in experiments.items():
        for run in runs_of(folder)[:1]:
            with suppress(ValueError):  # raised if the manifest is damaged or has another format
                settings_of[name] = run.settings or run.results_table.settings
    known = {name: settings for name, settings in settings_of.items() if settings}
    first = next(iter(known), "")
    return [
        f"{name} and {first} may have been tested on other examples: the settings of their data differ"
        for name, settings in known.items()
        if _examples(settings, known[first]) != _examples(known[first], settings)
    ]


def _examples(settings: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a run that determine its test examples.

    An option that is missing in `other`, the settings of a run that may be older, is left out if it has its default
    value.
    """
    beginnings = tuple(f"data.init_args.{name}" for name in ("source", "max_examples", "stratify", "extra_test_splits"))
    unrelated = (".cache_dir", "max_examples.train", f"max_examples.{VALIDATION}")
    return {
        name: value
        for name, value in without_new_options(settings, other).items()
        if name.startswith((*beginnings, "data.class_path")) and not name.endswith(unrelated)
    }


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
