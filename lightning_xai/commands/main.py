"""The command line: prints the help of all commands, or runs one command."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

from lightning_xai.commands.garbage import without_collections
from lightning_xai.commands.overview import COMMANDS, overview, unknown_command

# packages that pip installs with this one. If one is missing, Python runs outside the environment of lightning_xai
INSTALLED = ("torch", "lightning", "jsonargparse", "transformers", "numpy")


def main(argv: list[str] | None = None) -> None:
    """Runs one command and, for `fit`, also the other runs that the fit needs.

    An error that the user can correct is printed as one line.

    Args:
        argv: the command line without the program's name; by default, the command line of this process.

    Example:
        >>> main(["fti"])
        Traceback (most recent call last):
        SystemExit: error: fti is not a command: choose one of fit, validate, test, predict, search, data, explain, \
racu, compare, stability, tables
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    asks_for_help = not argv or argv[0] in ("-h", "--help")
    if asks_for_help and len(argv) < 2:
        print(overview("lightning-xai" if Path(sys.argv[0]).stem == "lightning-xai" else "run.py"))
        return
    if not asks_for_help and argv[0] not in COMMANDS:
        raise SystemExit(f"error: {unknown_command(argv[0])}")
    try:
        with without_collections(freeze=True):
            from lightning_xai.commands.execution import carry_out  # loads torch, which takes seconds
    except ModuleNotFoundError as error:
        if error.name not in INSTALLED:
            raise
        raise SystemExit(
            f"error: {error}: activate the environment in which lightning_xai is installed (. .venv/bin/activate), or "
            "install lightning_xai (pip install -e .)"
        ) from None

    try:
        carry_out(argv)
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        # Python flushes stdout when it exits. This flush would fail on the closed pipe, so stdout is sent to os.devnull
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def _nobody_reads() -> bool:
    """Returns whether the standard output is a pipe whose reader, such as head, has ended."""
    try:
        pipe = select.poll()
        pipe.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # Windows has no poll, and a notebook's output is no file
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in pipe.poll(0))
