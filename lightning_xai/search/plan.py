"""The plan of a hyperparameter search, as its file describes it: searched settings, metrics, sampler and pruner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch

from lightning_xai.functional.choices import require_choices
from lightning_xai.search.setting import Setting, Value

Sampler = Literal["tpe", "quasi_random"]
Pruner = Literal["none", "median"]
Direction = Literal["max", "min"]
START_TRIALS = 10  # number of first trials whose settings TPE draws at random; pruning starts after half of them


@dataclass(frozen=True)
class SearchPlan:
    """A search over settings of a run. Each trial is a fit with different values of these settings.

    Args:
        fit: configuration files of the trials' fits, as for the command-line option `fit --config`.
        settings: maps the dotted key of a setting, such as "model.init_args.loss.kept_weight", to the values to search.
        metrics: maps a validation metric, such as "val/log_loss", to the better direction, "max" or "min"; None takes
            the direction that the objective defines. A trial's value is the best value over its validations.
        options: maps the dotted key of a setting, such as "trainer.max_epochs", to its value in all trials.
        num_trials: number of trials of each study.
        sampler: "tpe" learns from earlier trials; "quasi_random" spreads the trials evenly.
        share_trials: True for one quasi-random study that serves all metrics; False for one study per metric.
        pruner: "median" ends a trial whose value is worse than the median value of earlier trials at the same step;
            "none" ends no trial early.

    Raises:
        ValueError: `fit`, `settings` or `metrics` is empty; `num_trials` is below 1; a direction, sampler or pruner is
            unknown; a searched setting is also an option, or contains another setting or option; or `share_trials` is
            True although the sampler is "tpe" or there is a pruner.

    Example:
        >>> settings = {"model.init_args.head_lr_factor": Setting(low=1.0, high=10.0)}
        >>> SearchPlan(["igr.yaml"], settings, {"val/log_loss": "min"}, share_trials=True)
        Traceback (most recent call last):
        ValueError: share_trials is true, but TPE chooses trials for only one metric: set `sampler: quasi_random`
    """

    fit: Sequence[str]
    settings: Mapping[str, Setting]
    metrics: Mapping[str, str | None]
    options: Mapping[str, Any] = field(default_factory=dict)
    num_trials: int = 30
    sampler: Sampler = "tpe"
    share_trials: bool = False
    pruner: Pruner = "none"

    def __post_init__(self) -> None:
        require_choices({"sampler": Sampler, "pruner": Pruner}, {"sampler": self.sampler, "pruner": self.pruner})
        for name in ("fit", "settings", "metrics"):
            if not getattr(self, name):
                raise ValueError(f"the search has no {name}: add this entry to its file, with at least one item")
        for tag, direction in self.metrics.items():
            if direction not in (None, "max", "min"):
                raise ValueError(f"metric {tag} has the direction {direction!r}: give max or min")
        for key in self.settings:
            if key in self.options:
                raise ValueError(f"{key} is in both settings and options: remove it from one of them")
            for other in (*self.settings, *self.options):
                if other.startswith(f"{key}."):
                    raise ValueError(f"{key} contains {other}, so they cannot both be set: remove one of them")
        if self.num_trials < 1:
            raise ValueError(f"num_trials is {self.num_trials}: give at least 1 trial")
        if self.share_trials and self.sampler == "tpe":
            raise ValueError(
                "share_trials is true, but TPE chooses trials for only one metric: set `sampler: quasi_random`"
            )
        if self.share_trials and self.pruner != "none":
            raise ValueError("share_trials is true, but a pruner compares only one metric: set `pruner: none`")

    @classmethod
    def of(cls, values: Any) -> SearchPlan:
        """Returns the plan that a search file describes; `values` is the content of this file.

        Raises:
            ValueError: an entry is unknown or has the wrong type.

        Example:
            >>> SearchPlan.of({"fti": "igr.yaml"})
            Traceback (most recent call last):
            ValueError: a search has no entry 'fti': choose from fit, settings, metrics, options, num_trials, sampler, \
share_trials, pruner
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"a search file must contain a mapping, not {values!r}: see configs/search/aml.yaml")
        known = cls.__dataclass_fields__
        for name in values:
            if name not in known:
                raise ValueError(f"a search has no entry {name!r}: choose from {', '.join(known)}")
        fit = values.get("fit") or []
        fit = [fit] if isinstance(fit, str) else fit
        if not isinstance(fit, list) or not all(isinstance(file, str) for file in fit):
            raise ValueError(f"fit is {values['fit']!r}: give the name of a configuration file, or a list of names")
        given = {**values, "fit": fit}
        for name in ("settings", "metrics", "options"):
            given[name] = given.get(name) or {}
            if not isinstance(given[name], Mapping):
                raise ValueError(f"{name} is {given[name]!r}: give a mapping from names to values")
        given["settings"] = {key: Setting.of(key, value) for key, value in given["settings"].items()}
        for name, kind in (("num_trials", int), ("share_trials", bool)):
            if type(given.get(name, kind(1))) is not kind:
                raise ValueError(f"{name} is {given[name]!r}: give a value of type {kind.__name__}")
        return cls(**given)

    def facts(self) -> dict[str, Any]:
        """Returns the entries of the plan that affect the trials, as primitive types.

        `num_trials` is not included, because a user may raise it later. `fit`, the list of configuration files,
        is not included, because `Study` records the settings in these files.
        """
        facts = asdict(self)
        del facts["num_trials"], facts["fit"]
        return facts


def quasi_random(settings: Mapping[str, Setting], seed: int, number: int) -> dict[str, Value]:
    """Returns the settings of a quasi-random trial: point `number` of a scrambled Sobol sequence.

    Args:
        settings: the searched settings.
        seed: seed of the sequence.
        number: index of the trial, counted from 0.

    Example:
        >>> settings = {"a": Setting(low=0.0, high=1.0), "b": Setting(choices=(1, 2))}
        >>> trials = [quasi_random(settings, seed=0, number=number) for number in range(4)]
        >>> sorted(trial["b"] for trial in trials), trials[2] == quasi_random(settings, seed=0, number=2)
        ([1, 1, 2, 2], True)
    """
    engine = torch.quasirandom.SobolEngine(len(settings), scramble=True, seed=seed)
    places = engine.fast_forward(number).draw(1, dtype=torch.float64)[0].tolist()
    below_one = 1 - 2**-40  # `Setting.at` needs a number below 1, but a coordinate of a Sobol point may be rounded to 1
    return {
        key: setting.at(min(place, below_one)) for (key, setting), place in zip(settings.items(), places, strict=True)
    }
