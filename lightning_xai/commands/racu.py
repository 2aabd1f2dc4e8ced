"""`run.py racu`: computes the RACU (see `metrics.racu`) of ROAR chains, and writes tables and ROAR curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning_xai.commands.parser.typed_command import run_command
from lightning_xai.report.names import common_folder
from lightning_xai.report.racu import write_racu_report
from lightning_xai.runs.experiment import free_report_dir, record_compared, report_dir


def racu_command(argv: Sequence[str]) -> None:
    """Parses the command line of `racu` and runs it.

    Raises:
        ValueError: as in `racu`.
    """
    run_command(racu, argv, name="racu")


def racu(
    experiments: Sequence[str], metric: Sequence[str] = ("macro_f1",), split: str = "test", output: str | None = None
) -> None:
    """Prints the RACU of finished ROAR chains, and writes tables and curves, with confidence intervals over seeds.

    Args:
        experiments: folders of experiments, such as runs/roar.
        metric: one metric for all experiments, or a metric for each experiment, in the order of `experiments`.
        split: the split whose results are compared.
        output: folder for the report; by default `report` in the folder of the experiment or, if there are several,
            `report/racu` in their common folder. If that folder has a report on other experiments, `report/racu_2`,
            and so on.

    Raises:
        ValueError: no experiment is given, or `write_racu_report` raises an error.
    """
    if not experiments:
        raise ValueError("no experiment is named: give folders of finished chains, such as runs/roar")
    folders = [Path(experiment) for experiment in experiments]
    own = default_output(folders)
    default = own if len(folders) == 1 else free_report_dir(own / "racu", folders)
    folder = Path(output) if output else default
    print(write_racu_report(folders, folder, metrics=metric, split=split))
    record_compared(folder, folders)


def default_output(experiments: Sequence[Path]) -> Path:
    """Returns the folder `report` inside the folder of a single experiment, or inside the common folder of several.

    Example:
        >>> default_output([Path("runs/roar")]).as_posix()
        'runs/roar/report'
        >>> default_output([Path("/runs/sst/roar"), Path("/runs/babi/roar")]).as_posix()
        '/runs/report'
    """
    if len(experiments) == 1:
        return report_dir(experiments[0])
    return report_dir(common_folder(experiments))
