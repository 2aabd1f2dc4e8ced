"""Handles SIGINT and SIGTERM: a command ends with a one-line message and an exit code, without a traceback."""

from __future__ import annotations

import atexit
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

from lightning import Callback, LightningModule, Trainer

from lightning_xai.runs.ranks import is_first


class Terminated(SystemExit):
    """Raised when SIGTERM arrives. The exit code is 143, the usual code after SIGTERM.

    Example:
        >>> Terminated().code
        143
    """

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def ending_in_one_line(command: str = "fit") -> Iterator[None]:
    """Context manager that ends a command with a one-line message after SIGTERM (exit code 143) or SIGINT (130).

    Args:
        command: name of the command. The message says what happens if the same command is started again: a fit or a
            search continues, and any other command starts from the beginning.

    Example:
        >>> with ending_in_one_line():
        ...     raise KeyboardInterrupt
        Traceback (most recent call last):
        SystemExit: 130
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    in_main_thread = threading.current_thread() is threading.main_thread()  # only the main thread may set handlers
    if in_main_thread:
        signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    except Terminated:
        _say("SIGTERM", command)
        raise SystemExit(128 + signal.SIGTERM) from None
    except (KeyboardInterrupt, SystemExit) as error:
        # after SIGINT, Lightning raises SystemExit while it handles a KeyboardInterrupt
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        _say("SIGINT", command)
        raise SystemExit(128 + signal.SIGINT) from None
    finally:
        if in_main_thread:
            # restores SIGINT's handler too, because Lightning's own handler ignores every SIGINT but the first
            for number, handler in before.items():
                signal.signal(number, handler)


class EndOnSigterm(Callback):
    """Ends the trainer's loops immediately after SIGTERM, even with several processes.

    Lightning's own handler waits for the end of the batch, and then ends the process with code 0. With several
    processes, that handler starts a collective operation; if another process is in a different one, both wait forever.
    If the cluster requeues jobs itself (`auto_requeue`), Lightning's handler stays in place; it then calls the
    handler of `ending_in_one_line`.

    Example:
        >>> before = signal.getsignal(signal.SIGTERM)
        >>> trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False)
        >>> EndOnSigterm().on_train_start(trainer, LightningModule())
        >>> signal.signal(signal.SIGTERM, before) == before
        False
    """

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._listen(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._listen(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._listen(trainer)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._listen(trainer)

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._listen(trainer)

    def _listen(self, trainer: Trainer) -> None:
        environment = getattr(trainer.strategy, "cluster_environment", None)
        if threading.current_thread() is threading.main_thread() and not getattr(environment, "auto_requeue", False):
            signal.signal(signal.SIGTERM, partial(_terminate, launcher=trainer.strategy.launcher))


def _terminate(number: int, frame: FrameType | None, launcher: Any = None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second SIGTERM would interrupt the clean-up
    if launcher is not None:
        # this process kills the other processes of the launcher only at its own exit. If one of them ended now, the
        # launcher would kill this process, too, before its clean-up
        atexit.register(launcher.kill, signal.SIGKILL)
    raise Terminated


def _say(name: str, command: str) -> None:
    remedies = {
        "fit": "continues a fit after its last finished epoch, if there is one",
        "search": "continues the search with its unfinished trial",
    }
    remedy = remedies.get(command, "starts again from the beginning")
    if is_first():
        print(f"ended by {name}: the same command {remedy}", file=sys.stderr)
