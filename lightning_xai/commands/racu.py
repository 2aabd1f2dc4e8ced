"""`run.py racu`: RACU with intervals, table and curves, of ROAR chains of several seeds and experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning_xai.commands.typed_command import run_command
from lightning_xai.report.names import common_folder
from lightning_xai.report.racu import write_report
from lightning_xai.runs.folder import report_dir


def racu_command(argv: Sequence[str]) -> None:
    """Parses the command line of `racu` and runs it.

    Raises:
        ValueError: see racu.
    """
    run_command(racu, argv, name="racu")


def racu(
    experiments: Sequence[str], metric: Sequence[str] = ("macro_f1",), split: str = "test", output: str | None = None
) -> None:
    """Prints the RACU of finished ROAR chains and writes it, with intervals over seeds, as tables and curves.

    Args:
        experiments: folders of experiments, such as runs/roar.
        metric: one metric for all experiments, or one for each.
        split: the split whose scores count.
        output: folder for the report; by default `report` in the only experiment, or beside several.

    Raises:
        ValueError: no experiment is named, or see write_report.
    """
    if not experiments:
        raise ValueError("no experiment is named: give folders of finished chains, such as runs/roar")
    folders = [Path(experiment) for experiment in experiments]
    print(write_report(folders, Path(output) if output else default_output(folders), metrics=metric, split=split))


def default_output(experiments: Sequence[Path]) -> Path:
    """Returns the folder `report` in the only experiment, or in the folder that holds all of them.

    Example:
        >>> default_output([Path("runs/roar")]).as_posix()
        'runs/roar/report'
        >>> default_output([Path("/runs/sst/roar"), Path("/runs/babi/roar")]).as_posix()
        '/runs/report'
    """
    if len(experiments) == 1:
        return report_dir(experiments[0])
    return report_dir(common_folder(experiments))
