"""The folder of an experiment, with the runs of all seeds and the reports about these runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.splits import VALIDATION

COMPARED = "compared.json"  # file in the folder of a report, with the paths of what the report compares


def runs_of(experiment_dir: Path) -> list[RunFolder]:
    """Returns the runs of all seeds in an experiment's folder, sorted by the names of their folders.

    Example:
        >>> runs_of(Path("no/such/experiment"))
        []
    """
    return [RunFolder(path) for path in sorted(experiment_dir.glob("seed*")) if path.is_dir()]


def name_of_experiment(run: RunFolder) -> str:
    """Returns the name of a run's experiment, as the path of its folder gives it, also after the folder was renamed.

    The run's manifest tells how many parts the name has.

    Example:
        >>> name_of_experiment(RunFolder(Path("runs/tm/seed0")))
        'tm'
    """
    folder, runs_dir = run.experiment_dir, run.runs_dir
    return folder.relative_to(runs_dir).as_posix() if folder.is_relative_to(runs_dir) else folder.name


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


def free_report_dir(folder: Path, compared: Sequence[Path]) -> Path:
    """Returns a folder for a report in which no report on other runs or experiments would be overwritten.

    Args:
        folder: the folder that is returned if it has no report on others. Otherwise, "_2", "_3" and so on is added.
        compared: folders of the runs or experiments that the report compares, in order.

    Example:
        >>> free_report_dir(Path("runs/report/compare"), [Path("runs/tm"), Path("runs/igr")]).as_posix()
        'runs/report/compare'
    """
    compared_here = _relative_to_report(folder, compared)
    number, place = 1, folder
    while (file := place / COMPARED).exists() and read_json(file) != compared_here:
        number += 1
        place = folder.with_name(f"{folder.name}_{number}")
    return place


def record_compared(folder: Path, compared: Sequence[Path]) -> None:
    """Writes into the folder of a report what it compares, for `free_report_dir`.

    Example:
        >>> import tempfile
        >>> report, tm, igr = (Path(tempfile.mkdtemp(), name) for name in ("report", "tm", "igr"))
        >>> record_compared(report, [tm])
        >>> [free_report_dir(report, compared).name for compared in ([tm], [tm, igr])]
        ['report', 'report_2']
    """
    write_json(folder / COMPARED, _relative_to_report(folder, compared))


def _relative_to_report(folder: Path, compared: Sequence[Path]) -> dict[str, Any]:
    start = folder.resolve().parent
    return {"compared": [Path(os.path.relpath(place.resolve(), start)).as_posix() for place in compared]}


def stability_report_dir(folder: Path) -> Path:
    """Returns the folder for reports that compare the attributions of all runs in `folder`.

    Example:
        >>> stability_report_dir(Path("runs/tm")).as_posix()
        'runs/tm/report/stability'
    """
    return report_dir(folder) / "stability"
