"""The command line: runs a command and the other runs that it needs, and prints user errors in one line."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentError
from importlib import import_module

from lightning_xai.callbacks.trial import TrialMemory
from lightning_xai.commands.cli import XAICLI
from lightning_xai.commands.config_files import with_config_paths, with_overrides
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.disk_errors import one_line_for_disks
from lightning_xai.commands.loaded_data import LoadedData
from lightning_xai.commands.parts import find_shipped_parts, with_part_paths
from lightning_xai.commands.signals import ending_in_one_line
from lightning_xai.commands.terminal import message_for_user, one_line
from lightning_xai.runs.lock import release
from lightning_xai.runs.progress import flush_every_line, quiet, say

READERS = ("explain", "racu", "stability")  # commands that read finished runs; the module of each has the same name
COMMANDS = ("fit", "validate", "test", "predict", *READERS)


def main(argv: list[str] | None = None) -> None:
    """Runs one command, and for `fit` all other runs that the fit needs; prints user errors in one line.

    Args:
        argv: the command line without the program's name; by default, the command line of this process.

    Example:
        >>> main(["fti"])
        Traceback (most recent call last):
        SystemExit: error: fti is no command: choose one of fit, validate, test, predict, explain, racu, stability
    """
    flush_every_line()
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or not argv[0].startswith("-") and argv[0] not in COMMANDS:
        raise SystemExit(f"error: {' '.join(argv[:1]) or 'nothing'} is no command: choose one of {', '.join(COMMANDS)}")
    try:
        with quiet(), ending_in_one_line(), one_line_for_disks():
            if argv[0] in READERS:
                module = import_module(f"lightning_xai.commands.{argv[0]}")  # imported late, to start fast
                getattr(module, f"{argv[0]}_command")(argv[1:])
            else:
                run_stages(argv)
    except ArgumentError as error:
        hint = f"run.py {' '.join(argv[:1])} --help lists what is accepted"
        raise SystemExit(f"error: {one_line(str(error))}; {hint}") from None
    except ValueError as error:
        message = message_for_user(error)
        if os.environ.get("LIGHTNING_XAI_TRACEBACK") or message is None:
            raise
        raise SystemExit(f"error: {message}") from None


def run_stages(argv: list[str]) -> XAICLI:
    """Runs a command and all other runs that it needs, before or after it; returns the last run."""
    import_all()
    find_shipped_parts()
    argv = with_part_paths(argv)
    data: LoadedData | None = None
    trials = TrialMemory()
    stack, asked_for = [argv], [argv]
    while True:
        command = stack[-1]
        try:
            cli = XAICLI(with_config_paths(command), data, trials)
        finally:
            release()  # the folder of each stage is owned only while the stage runs
        data = cli.data
        if cli.is_done or not cli.next_run:
            stack.pop()
        if cli.next_run:
            following = with_overrides(command, cli.next_run)
            if following in asked_for and cli.is_dry:
                say(f"{cli.run.path} needs files that a dry run does not write, so fast_dev_run ends before that run")
                return cli
            assert following not in asked_for, f"a run asks for itself: {cli.next_run}"
            asked_for.append(following)
            stack.append(following)
        if not stack:
            return cli
