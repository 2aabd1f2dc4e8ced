"""The table of the best trials of a search."""

import math

from lightning_xai.report.search import best_trials_table, short_names


def test_names_are_as_short_as_they_can_be_and_differ():
    keys = ["a.loss.weight", "b.loss.weight", "lr", "trainer.lr_factor"]
    assert list(short_names(keys).values()) == ["a.loss.weight", "b.loss.weight", "lr", "lr_factor"]


def test_a_metric_without_a_trial_and_an_undefined_value_have_dashes():
    row = {"number": 3, "val/map": math.nan, "lr": 2e-5, "name": "tm", "none": None}
    lines = best_trials_table({"val/map": row, "val/f1": None}, ["lr", "name", "none"]).splitlines()
    assert lines[1].split() == ["trial", "value", "lr", "name", "none"]
    assert lines[2].split() == ["val/map", "3", "-", "2e-05", "tm", "-"]
    assert lines[3].split() == ["val/f1", "-", "-", "-", "-", "-"]
