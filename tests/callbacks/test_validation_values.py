"""The values of a fit's validations, which a search reads from a file."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

from lightning_xai.callbacks.validation_values import Pruned, ValidationValues, best_value, values_by_step


def validate(callback: ValidationValues, step: int, value: float, **changes: Any) -> None:
    state = SimpleNamespace(fn=changes.pop("fn", "fit"))
    trainer: Any = SimpleNamespace(
        sanity_checking=False, state=state, global_step=step, callback_metrics={"val/map": value}
    )
    vars(trainer).update(changes)
    callback.on_validation_end(trainer, None)  # type: ignore[arg-type]


def test_values_that_are_not_finite_do_not_count(tmp_path):
    callback = ValidationValues(tmp_path / "validations.json", ["val/map"])
    for step, value in ((5, 0.5), (10, math.nan), (15, math.inf), (20, 0.25)):
        validate(callback, step, value)
    assert values_by_step(callback.file, "val/map") == {5: 0.5, 20: 0.25}
    assert [best_value(callback.file, "val/map", mode) for mode in ("max", "min")] == [0.5, 0.25]
    assert math.isnan(best_value(tmp_path / "none.json", "val/map", "max"))


def test_a_resumed_fit_replaces_the_values_that_it_repeats(tmp_path):
    for values in ({5: 0.5, 10: 0.6}, {10: 0.7, 15: 0.8}):
        callback = ValidationValues(tmp_path / "validations.json", ["val/map"])
        for step, value in values.items():
            validate(callback, step, value)
    assert values_by_step(callback.file, "val/map") == {5: 0.5, 10: 0.7, 15: 0.8}


def test_sanity_checks_and_tests_are_not_written(tmp_path):
    callback = ValidationValues(tmp_path / "validations.json", ["val/map"])
    validate(callback, 5, 0.5, sanity_checking=True)
    validate(callback, 5, 0.5, fn="test")
    assert not callback.file.exists()


def test_only_the_current_step_ends_the_fit_but_all_steps_are_judged_once(tmp_path):
    judged: list[tuple[float, int]] = []

    def is_worse(value: float, step: int) -> bool:
        judged.append((value, step))
        return value < 0.4

    validate(ValidationValues(tmp_path / "validations.json", ["val/map"]), 5, 0.1)
    resumed = ValidationValues(tmp_path / "validations.json", ["val/map"], is_worse)
    validate(resumed, 10, 0.5)  # the value of step 5 was worse, but the fit is past it
    with pytest.raises(Pruned):
        validate(resumed, 15, 0.2)
    assert judged == [(0.1, 5), (0.5, 10), (0.2, 15)]


def test_a_metric_that_is_not_logged_is_refused(tmp_path):
    with pytest.raises(ValueError, match="val/f1 is never logged in validation: choose one of val/map"):
        validate(ValidationValues(tmp_path / "validations.json", ["val/f1"]), 5, 0.5)
