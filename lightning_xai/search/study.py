"""An Optuna study that is stored in a log file, is reproducible, and can go on after its process was killed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lightning_xai.runs.files.whole_files import write_whole
from lightning_xai.search.plan import START_TRIALS, SearchPlan, quasi_random
from lightning_xai.search.setting import Setting, Value

NUMBER = "number"  # attribute of a trial: its index in the study, which a killed trial keeps when it is queued again
SETTINGS = "settings"  # attribute of a study: all settings on which the study's trials depend


def require_optuna() -> Any:
    """Imports and returns the package Optuna.

    Raises:
        ValueError: the package is not installed.

    Example:
        >>> importlib.util.find_spec("optuna") is None or require_optuna().__name__
        'optuna'
    """
    if importlib.util.find_spec("optuna") is None:
        raise ValueError("search needs the package optuna: pip install 'lightning_xai[search]'")
    optuna = importlib.import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


@dataclass(frozen=True)
class Trial:
    """A trial that the search has to run, with its values for the searched settings.

    Attributes:
        number: index of the trial in its study, counted from 0.
        values: maps the key of each searched setting to its value.
        handle: Optuna's object for the trial.

    Example:
        >>> Trial(7, {"trainer.max_epochs": 2}, None).number
        7
    """

    number: int
    values: Mapping[str, Value]
    handle: Any

    def is_worse(self, value: float, step: int) -> bool:
        """Records the running trial's value at a step, and returns whether the pruner ends the trial."""
        self.handle.report(value, step)
        return bool(self.handle.should_prune())


class Study:
    """The trials of a hyperparameter search, stored in a log file. Only one process at a time may open this file.

    The settings of a trial depend only on the plan, the seed, the trial's number and the results of earlier trials. A
    killed trial is queued again with the same settings and number.

    Args:
        file: the log file; it may already exist.
        name: name of the study in the file.
        plan: the plan of the search.
        directions: maps each metric to "max" or "min".
        seed: seed of the sampler.
        settings: maps dotted keys to values, for all settings that are not searched but affect the trials.

    Raises:
        ValueError: Optuna is missing, or the file has a study of this name with other settings.

    Example:
        >>> import tempfile
        >>> plan = SearchPlan(["igr.yaml"], {"lr": Setting(low=0.0, high=1.0)}, {"val/loss": "min"}, num_trials=2)
        >>> study = Study(Path(tempfile.mkdtemp(), "study.log"), "loss", plan, {"val/loss": "min"}, seed=0, settings={})
        >>> while (trial := study.next_trial()) is not None:
        ...     study.finish(trial, {"val/loss": (trial.values["lr"] - 0.5) ** 2})
        >>> study.best("val/loss")["number"] in (0, 1), len(study.table())
        (True, 2)
    """

    def __init__(
        self,
        file: Path,
        name: str,
        plan: SearchPlan,
        directions: Mapping[str, str],
        *,
        seed: int,
        settings: Mapping[str, Any],
    ) -> None:
        self._optuna = require_optuna()
        self.name, self.plan, self.directions, self.seed = name, plan, dict(directions), seed
        self._study = self._optuna.create_study(
            storage=_storage(file),
            study_name=name,
            directions=["maximize" if mode == "max" else "minimize" for mode in directions.values()],
            load_if_exists=True,
            pruner=self._pruner(),
        )
        self._check_settings(file, dict(settings))
        self._queue_killed()

    def next_trial(self) -> Trial | None:
        """Returns the next trial to run; None if the plan's number of trials is reached. Queued trials come first."""
        queued = self._with_state("WAITING")
        if not queued:
            done = {trial.user_attrs[NUMBER] for trial in self._finished()}
            number = next(number for number in range(len(done) + 1) if number not in done)
            if number >= self.plan.num_trials:
                return None
            self._study.sampler = self._sampler(number)
            if self.plan.sampler == "quasi_random":
                values = quasi_random(self.plan.settings, self.seed, number)
                self._study.enqueue_trial(values, user_attrs={NUMBER: number})
        handle = self._study.ask(self._distributions())
        if NUMBER not in handle.user_attrs:
            handle.set_user_attr(NUMBER, number)
        return Trial(handle.user_attrs[NUMBER], {key: handle.params[key] for key in self.plan.settings}, handle)

    @property
    def num_left(self) -> int:
        """Number of trials that have not ended yet."""
        return max(0, self.plan.num_trials - len(self._finished()))

    def finish(self, trial: Trial, values: Mapping[str, float]) -> None:
        """Stores a trial's value for each metric. If a value is not finite, the trial counts as failed."""
        numbers = [float(values[tag]) for tag in self.directions]
        if all(map(math.isfinite, numbers)):
            self._study.tell(trial.handle, numbers)
        else:
            trial.handle.set_user_attr("undefined", True)
            self._study.tell(trial.handle, state=self._optuna.trial.TrialState.FAIL)

    def prune(self, trial: Trial) -> None:
        """Records that a trial was ended by the pruner."""
        self._study.tell(trial.handle, state=self._optuna.trial.TrialState.PRUNED)

    def table(self) -> list[dict[str, Any]]:
        """Returns a row for each trial that has ended, with its study, number, status, settings and metrics."""
        rows = []
        for trial in sorted(self._finished(), key=lambda trial: trial.user_attrs[NUMBER]):
            status = {"COMPLETE": "finished", "PRUNED": "pruned"}.get(trial.state.name, "undefined")
            measured = trial.values if status == "finished" else [math.nan] * len(self.directions)
            facts = {"study": self.name, "number": trial.user_attrs[NUMBER], "status": status}
            rows.append(facts | dict(trial.params) | dict(zip(self.directions, measured, strict=True)))
        return rows

    def best(self, tag: str) -> dict[str, Any] | None:
        """Returns the row of the trial with the best value of a metric, or the earliest of equally good trials.

        Pruned and failed trials do not count. Returns None if there are no other trials.
        """
        rows = [row for row in self.table() if row["status"] == "finished"]
        sign = 1 if self.directions[tag] == "max" else -1
        return max(rows, key=lambda row: sign * row[tag], default=None)

    def _sampler(self, number: int) -> Any:
        if self.plan.sampler == "quasi_random":
            return self._optuna.samplers.RandomSampler(seed=0)  # never used, because `next_trial` queues the values
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        return self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=START_TRIALS)

    def _pruner(self) -> Any:
        if self.plan.pruner == "none":
            return self._optuna.pruners.NopPruner()
        return self._optuna.pruners.MedianPruner(n_startup_trials=START_TRIALS // 2)

    def _distributions(self) -> dict[str, Any]:
        return {key: _distribution(self._optuna, setting) for key, setting in self.plan.settings.items()}

    def _with_state(self, *names: str) -> Sequence[Any]:
        return [trial for trial in self._study.get_trials(deepcopy=False) if trial.state.name in names]

    def _finished(self) -> list[Any]:
        ended = self._with_state("COMPLETE", "PRUNED", "FAIL")
        return [trial for trial in ended if trial.state.name != "FAIL" or trial.user_attrs.get("undefined")]

    def _queue_killed(self) -> None:
        """Marks killed trials as failed. Queues a killed trial again if its number and all its settings were stored."""
        queued = {trial.user_attrs.get(NUMBER) for trial in self._with_state("WAITING")}
        for trial in self._with_state("RUNNING"):
            number = trial.user_attrs.get(NUMBER)
            if number is not None and number not in queued and set(trial.params) == set(self.plan.settings):
                self._study.enqueue_trial(trial.params, user_attrs={NUMBER: number})
            self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)

    def _check_settings(self, file: Path, others: dict[str, Any]) -> None:
        now = json.loads(json.dumps({"seed": self.seed, **self.plan.facts(), "directions": self.directions} | others))
        before = self._study.user_attrs.get(SETTINGS)
        if before is None:
            self._study.set_user_attr(SETTINGS, now)
            return
        changed = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        if changed:
            shown = "; ".join(f"{key} was {before.get(key)!r}, now {now.get(key)!r}" for key in changed[:3])
            raise ValueError(
                f"{file} holds a study with other settings ({shown}): choose another --experiment, or remove this file"
            )


def _storage(file: Path) -> Any:
    """Removes the lock and the incomplete line that a killed process left, and returns Optuna's storage in `file`."""
    journal = importlib.import_module("optuna.storages.journal")
    file.parent.mkdir(parents=True, exist_ok=True)
    Path(f"{file}.lock").unlink(missing_ok=True)  # Optuna would wait half a minute for the lock of a killed process
    if file.exists():
        log = file.read_bytes()
        if not log.endswith(b"\n"):  # the last line is incomplete, and the next line would be appended to it
            write_whole(file, lambda target: target.write_bytes(log[: log.rfind(b"\n") + 1]))
    return importlib.import_module("optuna").storages.JournalStorage(journal.JournalFileBackend(str(file)))


def _distribution(optuna: Any, setting: Setting) -> Any:
    if setting.choices:
        return optuna.distributions.CategoricalDistribution(setting.choices)
    if setting.integer:
        return optuna.distributions.IntDistribution(int(setting.low or 0), int(setting.high or 0), log=setting.log)
    return optuna.distributions.FloatDistribution(setting.low, setting.high, log=setting.log)
