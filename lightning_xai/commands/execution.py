"""Runs one command. An error that the user can correct becomes a one-line message."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from lightning_xai.commands.disk_errors import one_line_for_disks
from lightning_xai.commands.garbage import without_collections
from lightning_xai.commands.overview import MODULES
from lightning_xai.commands.signals import ending_in_one_line
from lightning_xai.commands.terminal import message_for_user
from lightning_xai.runs.progress import flush_every_line, quiet

TRACEBACK = "LIGHTNING_XAI_TRACEBACK"  # environment variable; if it is set, all errors keep their traceback


def carry_out(argv: list[str]) -> None:
    """Runs a command line whose first word is a command or --help.

    Raises:
        SystemExit: there was an error that the user can correct; the message says how. Other errors are not caught.

    Example:
        >>> carry_out(["racu"])
        Traceback (most recent call last):
        SystemExit: error: no experiment is named: give folders of finished chains, such as runs/roar
    """
    flush_every_line()
    with quiet(), ending_in_one_line(argv[0]), user_errors():
        command = argv[0]  # only the command's own module is imported, for a fast start
        if command in ("-h", "--help"):
            print(_loaded("parser.class_help").class_help(argv[1]))
        elif command in MODULES:
            getattr(_loaded(command), f"{command}_command")(argv[1:])
        else:
            _loaded("stage_runs").run_stages(argv)


@contextmanager
def user_errors() -> Iterator[None]:
    """Context manager that raises SystemExit in place of an error that the user can correct, unless `TRACEBACK` is set.

    Example:
        >>> with user_errors():
        ...     raise OSError(28, "No space left on device", "best.ckpt")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        SystemExit: error: best.ckpt cannot be read or written (No space left on device): free some space ...
    """
    try:
        with one_line_for_disks():
            yield
    except Exception as error:
        message = None if os.environ.get(TRACEBACK) else message_for_user(error)
        if message is None:
            raise
        raise SystemExit(f"error: {message}") from None


def _loaded(name: str) -> ModuleType:
    with without_collections(freeze=True):
        return import_module(f"lightning_xai.commands.{name}")
