"""`run.py tables`: tables and figures over the seeds of several models, in the form of Edin et al. (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning_xai.commands.parser.parts import SHIPPED
from lightning_xai.commands.parser.typed_command import run_command
from lightning_xai.commands.racu import default_output
from lightning_xai.report.model_tables.report import write_models_report
from lightning_xai.report.tables import terminal_width
from lightning_xai.runs.experiment import free_report_dir, record_compared


def tables_command(argv: Sequence[str]) -> None:
    """Parses the command line of `tables` and runs it.

    Raises:
        ValueError: as in `tables`.
    """
    run_command(tables, argv, name="tables")


def tables(
    experiments: Sequence[str],
    names: Sequence[str] = (),
    unsupervised: str | None = None,
    supervised: str | None = None,
    split: str = "test",
    preset: str = "edin",
    output: str | None = None,
) -> None:
    """Prints and writes tables of means and population standard deviations over seeds. Also writes figures.

    The tables and figures are those of Edin et al. (2024), called "the paper" below.

    Args:
        experiments: one folder for each model: an experiment, such as runs/tm, or a folder of runs in the format of
            Edin et al. (2024), where every run has its own plausibility_and_sparsity.csv. Instead of a folder, a file
            in the format of special_token_results.csv by the same authors may be given.
        names: names of the models, a name for each folder; by default the names of the folders.
        unsupervised: name of the unsupervised baseline, B_U in the paper. The mark * (in tables.md, bold type) shows
            that a model's mean is better than the mean of this baseline.
        supervised: name of the supervised baseline, B_S in the paper. The mark _ (in tables.md, underlining) shows that
            a model's mean is better than the mean of this baseline.
        split: the split whose results are compared.
        preset: the preset whose results are compared, such as edin or edin_code.
        output: folder for the report; by default `report/tables_<preset>_<split>` in the folder of the experiment or,
            if there are several, in their common folder. A number is added to its name if it has a report on other
            experiments.

    Raises:
        ValueError: no experiment is given, an experiment does not exist, `supervised` or `unsupervised` is not the name
            of a model, or there are no results.
    """
    if not experiments:
        raise ValueError("no experiment is named: give folders of finished runs, such as runs/unsupervised runs/tm")
    places = [Path(experiment) for experiment in experiments]
    for place in places:
        if not place.exists():
            raise ValueError(f"{place} does not exist: give the folder of an experiment with finished runs")
    folder = Path(output) if output else free_report_dir(default_output(places) / f"tables_{preset}_{split}", places)
    width = max(terminal_width(), 80)
    print(
        write_models_report(
            places, folder, names=names, unsupervised=unsupervised, supervised=supervised, split=split, preset=preset,
            preset_file=file_of_preset(preset), width=width,
        )
    )  # fmt: skip
    record_compared(folder, places)


def file_of_preset(preset: str) -> str | None:
    """Returns the name of a preset's file in ./configs or the shipped configurations; None if there is no such file.

    Example:
        >>> file_of_preset("edin"), file_of_preset("stability")
        ('presets/edin.yaml', None)
    """
    name = f"presets/{preset}.yaml"
    return name if any((folder / name).is_file() for folder in (Path("configs"), SHIPPED)) else None
