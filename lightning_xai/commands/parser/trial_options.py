"""The command-line options of the trial (see the callback Trial) that precedes a run."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.cli import LightningArgumentParser

from lightning_xai.callbacks.trial.trial import Trial
from lightning_xai.callbacks.trial.trial_memory import TrialMemory
from lightning_xai.runs.settings import trial_key


def add_trial_arguments(parser: LightningArgumentParser) -> None:
    """Adds --preflight and --skip_unfit to a parser.

    Example:
        >>> parser = LightningArgumentParser()
        >>> add_trial_arguments(parser)
        >>> parser.parse_args(["--skip_unfit", "true"]).skip_unfit
        True
    """
    parser.add_argument("--preflight", type=bool, default=True, help="first try methods and metrics on short texts")
    parser.add_argument(
        "--skip_unfit", type=bool, default=False, help="leave out methods and metrics that fail in this trial"
    )


def trial_of(config: Any, settings: dict[str, Any], memory: TrialMemory | None, *, tests_after_fit: bool) -> Trial:
    """Returns the callback that does a trial, a quick check of methods and metrics, before the real run.

    Args:
        config: the options of the command.
        settings: dotted name -> setting of the run.
        memory: outcomes of trials from earlier runs of the command.
        tests_after_fit: whether the run is a fit that a test follows.

    Example:
        >>> from types import SimpleNamespace
        >>> trial_of(SimpleNamespace(preflight=False, skip_unfit=False), {}, None, tests_after_fit=True).enabled
        False
    """
    return Trial(
        tests_after_fit=tests_after_fit,
        enabled=config.preflight,
        skip_unfit=config.skip_unfit,
        key=trial_key(settings),
        memory=memory,
    )
