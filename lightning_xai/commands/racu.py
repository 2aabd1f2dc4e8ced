"""`run.py racu`: RACU with intervals, table and curves, of ROAR chains of several seeds and experiments."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from lightning_xai.report.racu import write_report
from lightning_xai.runs.folder import report_dir


def racu_command(argv: Sequence[str]) -> None:
    """Parses the command line of `racu` and runs it.

    Raises:
        ValueError: no experiment is named; see also write_report.
    """
    parser = ArgumentParser(prog="run.py racu", description=__doc__, exit_on_error=False)
    parser.add_argument("experiments", nargs="*", type=Path, help="folders of experiments, such as runs/roar")
    parser.add_argument("--metric", nargs="+", default=["macro_f1"], help="one for all experiments, or one for each")
    parser.add_argument("--split", default="test", help="the split whose scores count")
    parser.add_argument("--output", type=Path, help="folder to write; by default `report` beside what is read")
    found = parser.parse_args(argv)
    if not found.experiments:
        raise ValueError("no experiment is named: give folders of finished chains, such as runs/roar")
    output = found.output or default_output(found.experiments)
    print(write_report(found.experiments, output, metrics=found.metric, split=found.split))


def default_output(experiments: Sequence[Path]) -> Path:
    """Returns the folder `report` of the only experiment, or of the folder that holds all of them."""
    if len(experiments) == 1:
        return report_dir(experiments[0])
    return report_dir(Path(os.path.commonpath([path.resolve().parent for path in experiments])))
