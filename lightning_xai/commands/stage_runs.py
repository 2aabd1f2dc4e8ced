"""Runs fit, validate, test or predict, and all other runs that the command needs."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Sequence

from lightning import Callback

from lightning_xai.callbacks.base import callbacks_of
from lightning_xai.callbacks.preflight.preflight_memory import PreflightMemory
from lightning_xai.commands.cli import XAICLI
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.next_step import next_step, run_to_explain
from lightning_xai.commands.parser.config_files import with_config_paths, with_overrides
from lightning_xai.commands.parser.config_syntax import check_files
from lightning_xai.commands.parser.part_files import with_merged_files
from lightning_xai.commands.parser.parts import find_shipped_parts, with_part_paths
from lightning_xai.runs.locks.lock import Taken, release
from lightning_xai.runs.progress import say


def run_stages(argv: list[str], callbacks: Sequence[Callback] = ()) -> XAICLI:
    """Runs a command, and all runs that must precede or follow it. Returns the XAICLI of the run that ended last.

    Args:
        argv: the command line.
        callbacks: additional callbacks of the command's own run, which are not saved as settings.
    """
    import_all()
    find_shipped_parts()
    given, argv = argv, with_part_paths(argv)
    check_files(with_config_paths(argv))
    preflights = PreflightMemory()
    stack, asked_for = [argv], [argv]
    files = [""]  # for each command in `stack`, the file of settings with which an earlier run asked for it
    while True:
        command = stack[-1]
        try:
            own = callbacks if command is argv else ()
            cli = XAICLI(with_merged_files(command), preflights, own)
        except Taken as error:
            if len(stack) == 1:
                raise
            # probably, several tasks of a job array have started at the same time and need the same run
            raise Taken(
                f"{error}. This command needs that run. Before you start such commands as a job array, let one of them "
                f"run to its end: python run.py {shlex.join(given)}"
            ) from None
        finally:
            release()  # the lock of a run's folder is held only during that run
        if cli.is_done or not cli.next_run:
            stack.pop()
            files.pop()
        if cli.next_run:
            file = _option(cli.next_run, "--config")
            if not cli.is_done and file and file == files[-1]:
                raise ValueError(
                    f"{file} is to train a network that the run needs, but the run of this file needs that network, "
                    f"too: set `model` in {file} to an objective that trains the network, such as Supervised"
                )
            following = with_overrides(command, cli.next_run)
            if following in asked_for and cli.is_dry:
                say(f"{cli.run.path} needs files of other runs, which fast_dev_run does not write: this run is skipped")
                return cli
            assert following not in asked_for, f"a run asks for itself: {cli.next_run}"
            asked_for.append(following)
            name = _option(cli.next_run, "--experiment")
            if not cli.is_done and name:
                say(f"{cli.run.path} needs the run {name}, which comes first")
            stack.append(following)
            files.append(file)
        if not stack:
            ends = cli.subcommand == "fit" and not cli.is_dry and not callbacks
            shown = run_to_explain(cli.run, callbacks_of(cli.trainer))
            if ends and shown.best_checkpoint is not None and not shown.missed_its_bounds:
                say(next_step(shown.path))
            return cli
        del cli  # frees the run's network and the memory maps of its data
        gc.collect()


def _option(overrides: Sequence[str], name: str) -> str:
    """Returns the value of the option `name` in `overrides`; "" if the option is not given."""
    words = [word for given in overrides for word in (given.split("=", 1) if given.startswith("--") else [given])]
    return words[words.index(name) + 1] if name in words else ""
