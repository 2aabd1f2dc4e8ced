"""The run whose settings a search varies. Before the trials, the search builds this run once and checks it."""

from __future__ import annotations

import json
from typing import Any

from lightning_xai.callbacks.base import callbacks_of
from lightning_xai.callbacks.monitors import TRAIN
from lightning_xai.commands.cli import XAICLI
from lightning_xai.commands.setting_checks import measured_in_fit, validation_directions
from lightning_xai.commands.stage_runs import run_stages
from lightning_xai.objectives.trained_first import TrainedFirst
from lightning_xai.search.plan import SearchPlan


def with_value(argv: list[str], key: str, value: Any) -> list[str]:
    """Returns a command line in which the setting `key` has the given value.

    Example:
        >>> with_value(["fit", "--trainer.max_epochs=3"], "trainer.max_epochs", 2)
        ['fit', '--trainer.max_epochs=2']
        >>> with_value(["fit"], "data", "planted.yaml")
        ['fit', '--data=planted.yaml']
    """
    text = value if isinstance(value, str) else json.dumps(value)
    kept = [word for word in argv if not word.startswith(f"--{key}=")]
    return [*kept, f"--{key}={text}"]


class SearchedRun(XAICLI):
    """A fit that is built and checked, but not run.

    Args:
        args: the command line of the fit, with fast_dev_run and with a value for each searched setting.
        plan: the plan of the search.

    Raises:
        ValueError: a key or a value is not allowed; a metric is never logged, or its direction is missing or wrong; or
            the run needs several processes.

    Example:
        >>> issubclass(SearchedRun, XAICLI)
        True
    """

    def __init__(self, args: list[str], plan: SearchPlan) -> None:
        self.plan = plan
        self.directions: dict[str, str] = {}
        super().__init__(args)

    @property
    def other_settings(self) -> dict[str, Any]:
        """The settings of the run that are not searched."""
        searched = {name for name in self.settings for key in self.plan.settings if f"{name}.".startswith(f"{key}.")}
        return {name: value for name, value in self.settings.items() if name not in searched}

    @property
    def _logs_more(self) -> bool:
        """Whether the objective or a callback is from another package, and may log metrics unknown to this package."""
        parts = [self.model, *callbacks_of(self.trainer)]
        return any(type(part).__module__.split(".")[0] not in ("lightning_xai", "lightning") for part in parts)

    def fit(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        self.is_done = True
        if self.trainer.world_size > 1:
            raise ValueError(
                f"the run needs {self.trainer.world_size} processes, but trials run in one process: set "
                "trainer.devices to 1"
            )
        known, measured = validation_directions(self.model), measured_in_fit(callbacks_of(self.trainer))
        for tag, given in self.plan.metrics.items():
            mode = given or known.get(tag)
            # metrics that a user's own callback logs become known only in the first trial, so they are allowed here
            if tag not in known and not tag.startswith((TRAIN, *measured)) and not self._logs_more:
                choices = ", ".join([*known, *(f"{start}..." for start in measured)])
                raise ValueError(f"metric {tag} is never logged in validation: choose one of {choices}")
            if mode is None:
                raise ValueError(f"metric {tag} has no direction: give max or min, or choose from {', '.join(known)}")
            if known.get(tag, mode) != mode:
                raise ValueError(
                    f"metric {tag} has the direction {mode}, which prefers its worst value: leave the direction null"
                )
            self.directions[tag] = mode

    def prepare(self, command: list[str]) -> list[str]:
        """Trains the networks that the run needs, such as a teacher, once for all trials.

        Returns the command-line options that tell the trials the paths of these networks.

        Args:
            command: the command line of the run. It lacks the options that the search adds only for trials.
        """
        options = []
        for part in vars(self.model).values():
            if isinstance(part, TrainedFirst) and part.is_trained_here:
                overrides = part.runs_before(self.trainer)
                if overrides:
                    run_stages([*command, *overrides, "--test_after_fit=false"])
                options.append(f"--model.init_args.{part.option}={part.location(self.trainer)}")
        return options
