"""The command-line options of the preflight (see the callback Preflight) that precedes a run."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.cli import LightningArgumentParser

from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.preflight.preflight_memory import PreflightMemory
from lightning_xai.runs.settings import preflight_key


def add_preflight_arguments(parser: LightningArgumentParser) -> None:
    """Adds --preflight and --skip_unfit to a parser.

    Example:
        >>> parser = LightningArgumentParser()
        >>> add_preflight_arguments(parser)
        >>> parser.parse_args(["--skip_unfit", "true"]).skip_unfit
        True
    """
    parser.add_argument("--preflight", type=bool, default=True, help="first try each method and metric on short texts")
    parser.add_argument(
        "--skip_unfit", type=bool, default=False, help="leave out methods and metrics that fail in the preflight"
    )


def preflight_of(
    config: Any, settings: dict[str, Any], memory: PreflightMemory | None, *, tests_after_fit: bool
) -> Preflight:
    """Returns the callback that does the preflight: it tries methods and metrics on short texts before the real run.

    Args:
        config: the options of the command, with the values of --preflight and --skip_unfit.
        settings: dotted name -> setting of the run. Runs that agree in the settings of their methods, network and data
            share the outcomes of a preflight.
        memory: outcomes of the earlier preflights of the same command.
        tests_after_fit: whether the run is a fit that a test follows.

    Example:
        >>> from types import SimpleNamespace
        >>> preflight_of(SimpleNamespace(preflight=False, skip_unfit=False), {}, None, tests_after_fit=True).enabled
        False
    """
    return Preflight(
        tests_after_fit=tests_after_fit,
        enabled=config.preflight,
        skip_unfit=config.skip_unfit,
        key=preflight_key(settings),
        memory=memory,
    )
