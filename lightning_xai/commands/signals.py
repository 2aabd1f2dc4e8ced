"""Ends a command in one line when a signal asks it to."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from lightning_xai.runs.ranks import is_first


class Terminated(SystemExit):
    """Raised where a command is when SIGTERM arrives; its code is 143, as the shell reports this signal.

    Example:
        >>> Terminated().code
        143
    """

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def ending_in_one_line() -> Iterator[None]:
    """Ends with code 143 after SIGTERM and with 130 after SIGINT, and prints one line; files are left whole.

    Example:
        >>> with ending_in_one_line():
        ...     raise KeyboardInterrupt
        Traceback (most recent call last):
        SystemExit: 130
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    in_main_thread = threading.current_thread() is threading.main_thread()  # only it may set handlers
    if in_main_thread:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except Terminated:
        _say("SIGTERM")
        raise SystemExit(128 + signal.SIGTERM) from None
    except (KeyboardInterrupt, SystemExit) as error:
        # Lightning ends with code 1 after SIGINT
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        _say("SIGINT")
        raise SystemExit(128 + signal.SIGINT) from None
    finally:
        if in_main_thread:
            for number, handler in before.items():  # Lightning ignores SIGINT from the first one on
                signal.signal(number, handler)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def _say(name: str) -> None:
    if is_first():
        print(f"ended by {name}: the same command continues a fit after its last finished epoch", file=sys.stderr)
