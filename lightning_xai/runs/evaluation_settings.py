"""Selects the settings of a run that affect its training, and those that affect its evaluation."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.settings import changed_settings

# settings of the data and the trainer that only tests and predictions use
ONLY_EVALUATION = {
    "data.init_args.eval_batch_size", "data.init_args.extra_test_splits", "data.init_args.tune_on_validation",
    "trainer.limit_test_batches", "trainer.limit_predict_batches",
}  # fmt: skip
# settings that change neither weights nor test results. predict_split changes only predictions, and the predictions
# for each split have their own file. The name of an experiment changes if a user renames or copies its folder
NEITHER = {"data.init_args.predict_split", "trainer.log_every_n_steps", "experiment"}
TRAINING_AND_EVALUATION = {"trainer.precision"}
# groups: the callback's number in the list `trainer.callbacks`, and the name of the callback's setting. The number is
# missing if `trainer.callbacks` is a single callback
CALLBACK = re.compile(r"trainer\.callbacks\.(?:(\d+)\.)?(.+)")
Settings = Mapping[str, Any]  # dotted name -> value, as returned by `run_settings`


def training_settings(settings: Settings) -> dict[str, Any]:
    """Returns the settings that can change the trained weights.

    Three kinds of settings are left out: those that affect only evaluation (ONLY_EVALUATION), those that affect neither
    training nor evaluation (NEITHER), and those of callbacks that only evaluate. A callback only evaluates if its own
    class (not a base class) sets `only_evaluates = True` and its argument `during_fit` is not True. With `during_fit`,
    the callback logs values during the fit, and `checkpoint.monitor` may use such a value to choose which weights are
    kept. The remaining callbacks are renumbered from 0, so that the positions of left-out callbacks have no effect.

    Example:
        >>> name = "lightning_xai.callbacks.heatmaps.Heatmaps"
        >>> stopping = {"trainer.callbacks.1.class_path": "EarlyStopping"}
        >>> training_settings({"trainer.callbacks.0.class_path": name, **stopping, "trainer.limit_test_batches": 2})
        {'trainer.callbacks.0.class_path': 'EarlyStopping'}
    """
    callbacks = [one for one in _callbacks(settings) if not _only_evaluates(one) or one.get("init_args.during_fit")]
    return {
        name: value
        for name, value in settings.items()
        if not name.startswith("trainer.callbacks") and not _is_one_of(name, ONLY_EVALUATION | NEITHER)
    } | _numbered(callbacks)


def evaluation_settings(settings: Settings) -> dict[str, Any]:
    """Returns the settings that can change the results of a test of the same weights on the same examples.

    They include the settings of all callbacks whose class sets `only_evaluates`. If such a callback has `during_fit`,
    its settings are both training settings and evaluation settings.

    Example:
        >>> name = "lightning_xai.callbacks.heatmaps.Heatmaps"
        >>> evaluation_settings({"trainer.callbacks.3.class_path": name, "trainer.max_epochs": 2})
        {'trainer.callbacks.0.class_path': 'lightning_xai.callbacks.heatmaps.Heatmaps'}
    """
    return {
        name: value for name, value in settings.items() if _is_one_of(name, ONLY_EVALUATION | TRAINING_AND_EVALUATION)
    } | _numbered([one for one in _callbacks(settings) if _only_evaluates(one)])


def changed_training(
    stored: Settings, current: Settings, *, chain_has_begun: bool = True
) -> dict[str, tuple[Any, Any]]:
    """Returns the training settings that differ: name -> (value in `stored`, value in `current`), sorted by name.

    Args:
        stored: settings of a run.
        current: settings of a command that continues this run.
        chain_has_begun: whether the run has chosen tokens to erase for later stages of a chain. If not, the settings of
            a chain are left out. A chain begins when a training has ended, so it may still be added, changed or left
            out.

    Example:
        >>> changed_training({"lr": 1, "trainer.limit_test_batches": 2}, {"lr": 3, "trainer.limit_test_batches": 4})
        {'lr': (1, 3)}
    """
    before, now = training_settings(stored), training_settings(current)
    if not chain_has_begun:
        before, now = _without_chain(before), _without_chain(now)
    return {name: (before.get(name), now.get(name)) for name in _changed(before, now)}


def changed_evaluation(stored: Settings, current: Settings) -> list[str]:
    """Returns the sorted names of the evaluation settings that differ between `stored` and `current`.

    Example:
        >>> changed_evaluation({"lr": 1, "trainer.limit_test_batches": 2}, {"lr": 3, "trainer.limit_test_batches": 4})
        ['trainer.limit_test_batches']
    """
    return _changed(evaluation_settings(stored), evaluation_settings(current))


def hash_of_evaluation(settings: Settings) -> str:
    """Returns 8 hex digits that identify the evaluation settings. A setting that is None counts as missing.

    Example:
        >>> hash_of_evaluation({"trainer.limit_test_batches": 2, "trainer.max_epochs": 1})
        '5a217716'
        >>> hash_of_evaluation({"trainer.limit_test_batches": 2, "trainer.max_epochs": 3})
        '5a217716'
    """
    given = {name: value for name, value in sorted(evaluation_settings(settings).items()) if value is not None}
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()[:8]


def _changed(stored: Settings, current: Settings) -> list[str]:
    return changed_settings(without_new_options(stored, current), without_new_options(current, stored))


def _callbacks(settings: Settings) -> list[dict[str, Any]]:
    """Returns a dictionary of settings for each callback, without "trainer.callbacks.NUMBER." before the names."""
    callbacks: dict[int, dict[str, Any]] = {}
    for name, value in settings.items():
        if match := CALLBACK.fullmatch(name):
            callbacks.setdefault(int(match[1] or 0), {})[match[2]] = value
    return [callbacks[position] for position in sorted(callbacks)]


def _without_chain(settings: Settings) -> dict[str, Any]:
    others = {name: value for name, value in settings.items() if not name.startswith("trainer.callbacks")}
    return others | _numbered([one for one in _callbacks(settings) if not _begins_chain(one)])


def _numbered(callbacks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        f"trainer.callbacks.{position}.{name}": value
        for position, callback in enumerate(callbacks)
        for name, value in callback.items()
    }


def _only_evaluates(callback: Settings) -> bool:
    """Returns whether the class of a callback sets `only_evaluates = True`; False if the class is unknown."""
    return (cls := _class_of(callback)) is not None and vars(cls).get("only_evaluates") is True


def _begins_chain(callback: Settings) -> bool:
    """Returns whether a callback starts a chain of further runs, such as ROAR; False if its class is unknown."""
    return getattr(_class_of(callback), "begins_chain", False) is True


def _class_of(callback: Settings) -> type | None:
    try:
        return imported_class(str(callback.get("class_path")), object)
    except ValueError:
        return None


def _is_one_of(name: str, settings: set[str]) -> bool:
    return name in settings or any(name.startswith(f"{setting}.") for setting in settings)
