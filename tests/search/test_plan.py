"""The file of a search, and quasi-random trials."""

import pytest

from lightning_xai.search.plan import SearchPlan, quasi_random
from lightning_xai.search.setting import Setting

FILE = {"fit": "aml.yaml", "settings": {"a.b": {"low": 0.0, "high": 1.0}}, "metrics": {"val/map": "max"}}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"low": 1.0, "high": 1.0}, "a.b: low is 1.0 and high is 1.0: low must be below high"),
        ({"low": 2, "high": 1}, "a.b: low is 2 and high is 1: low must be below high"),
        ({"low": 0.0, "high": 1.0, "log": True}, "a.b: low is 0.0, but log is true: low must be above 0"),
        ({"low": 0.5, "high": 3, "integer": True}, "a.b: low is 0.5, but integer is true: give a whole number"),
        ({"low": "x", "high": 3}, "a.b: low is 'x': give low and high as numbers, or a list of choices"),
        ({"low": 1}, "a.b: high is None: give low and high as numbers, or a list of choices"),
        ({"choices": [1]}, r"a.b: choices are \[1\]: give two or more different numbers or words"),
        ({"choices": [[1], [2]]}, "give two or more different numbers or words"),
        ({"choices": [1, 2], "low": 0.0}, "a.b: a setting has both choices and a range"),
        ({"hihg": 1}, "a.b has an unknown entry 'hihg': choose from low, high, log, integer, choices"),
        ({"low": 1, "high": 2, "log": "no"}, "a.b: log is 'no': give true or false"),
        (3, "a.b is 3: give low and high, or choices"),
    ],
)
def test_a_setting_without_a_range_is_refused(values, message):
    with pytest.raises(ValueError, match=message):
        SearchPlan.of(FILE | {"settings": {"a.b": values}})


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"settings": {}}, "the search has no settings"),
        ({"metrics": {}}, "the search has no metrics"),
        ({"fit": []}, "the search has no fit"),
        ({"fit": 3}, "fit is 3: give the name of a configuration file, or a list of names"),
        ({"options": {"a.b.c": 1}}, "a.b contains a.b.c, so they cannot both be set"),
        ({"metrics": {"val/map": "up"}}, "metric val/map has the direction 'up': give max or min"),
        ({"sampler": "grid"}, "sampler"),
        ({"options": {"a.b": 1}}, "a.b is in both settings and options"),
        ({"num_trials": 0}, "num_trials is 0: give at least 1"),
        ({"num_trials": "many"}, "num_trials is 'many': give a value of type int"),
        ({"share_trials": True}, "TPE chooses trials for only one metric: set `sampler: quasi_random`"),
        ({"share_trials": True, "sampler": "quasi_random", "pruner": "median"}, "set `pruner: none`"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(entries, message):
    with pytest.raises(ValueError, match=message):
        SearchPlan.of(FILE | entries)


def test_quasi_random_trials_fill_each_range_evenly():
    settings = {"x": Setting(low=0.0, high=8.0), "n": Setting(low=1, high=4, integer=True)}
    trials = [quasi_random(settings, seed=3, number=number) for number in range(8)]
    assert sorted(int(float(str(trial["x"]))) for trial in trials) == list(range(8))  # one in each eighth
    assert sorted(int(str(trial["n"])) for trial in trials) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert trials != [quasi_random(settings, seed=4, number=number) for number in range(8)]


def test_a_logarithmic_range_is_halved_at_its_geometric_mean():
    assert Setting(low=1e-4, high=1e-2, log=True).at(0.5) == pytest.approx(1e-3)
