"""Studies: the order of trials does not depend on kills, and other settings are refused."""

import importlib.util
import math
from typing import Any

import pytest

from lightning_xai.search import study as study_module
from lightning_xai.search.plan import SearchPlan
from lightning_xai.search.setting import Setting
from lightning_xai.search.study import Study, Trial

if importlib.util.find_spec("optuna") is None:
    pytest.skip("needs optuna", allow_module_level=True)

SETTINGS = {"x": Setting(low=0.0, high=1.0), "kind": Setting(choices=("a", "b"))}


def study(folder, *, seed=0, settings=None, metrics=None, **options) -> Study:
    metrics = metrics or {"val/loss": "min"}
    plan = SearchPlan(["f.yaml"], SETTINGS, metrics, **({"num_trials": 4} | options))
    return Study(folder / "study.log", "name", plan, metrics, seed=seed, settings=settings or {})


def following(found: Study) -> Trial:
    trial = found.next_trial()
    assert trial is not None
    return trial


def best(found: Study, tag: str) -> dict[str, Any]:
    row = found.best(tag)
    assert row is not None
    return row


def loss(trial) -> dict[str, float]:
    return {"val/loss": (trial.values["x"] - 0.3) ** 2 + (trial.values["kind"] == "b")}


def run(folder, num: int = 99, **options) -> list[dict]:
    """Carries out up to `num` trials and returns the table."""
    found = study(folder, **options)
    while num and (trial := found.next_trial()) is not None:
        found.finish(trial, loss(trial))
        num -= 1
    return found.table()


@pytest.mark.parametrize("sampler", ["tpe", "quasi_random"])
def test_a_killed_study_goes_on_with_the_same_trials(sampler, tmp_path, monkeypatch):
    monkeypatch.setattr(study_module, "START_TRIALS", 1)  # the second trial depends on the first one
    whole = run(tmp_path / "whole", sampler=sampler)
    assert [row["number"] for row in whole] == list(range(4))
    run(tmp_path / "killed", num=2, sampler=sampler)
    killed = following(study(tmp_path / "killed", sampler=sampler))  # its process ends here
    again = study(tmp_path / "killed", sampler=sampler)
    queued = following(again)
    assert (queued.number, queued.values) == (killed.number, killed.values) == (2, queued.values)
    again.finish(queued, loss(queued))
    assert run(tmp_path / "killed", sampler=sampler) == whole


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path):
    before = run(tmp_path, num=1)
    with (tmp_path / "study.log").open("ab") as log:
        log.write(b'{"op_code": 4, "worker')
    assert study(tmp_path).table() == before
    assert len(run(tmp_path)) == 4


def test_the_sampler_follows_the_seed(tmp_path):
    first, same, other = (run(tmp_path / str(n), num=2, seed=seed) for n, seed in enumerate([0, 0, 1]))
    assert first == same and first[0]["x"] != other[0]["x"] and first[0]["x"] != first[1]["x"]


@pytest.mark.slow
def test_tpe_finds_the_better_half(tmp_path):
    late = run(tmp_path, num_trials=25)[10:]
    assert sum(row["kind"] == "a" for row in late) > len(late) / 2


def test_a_shared_study_has_a_best_trial_for_each_metric(tmp_path):
    found = study(
        tmp_path, metrics={"val/low": "min", "val/high": "max"}, sampler="quasi_random", share_trials=True, num_trials=2
    )
    while (trial := found.next_trial()) is not None:
        found.finish(trial, dict.fromkeys(["val/low", "val/high"], float(str(trial.values["x"]))))
    rows = {tag: best(found, tag) for tag in ("val/low", "val/high")}
    values = [row["x"] for row in found.table()]
    assert (rows["val/low"]["x"], rows["val/high"]["x"]) == (min(values), max(values))


def test_an_undefined_value_fails_the_trial_and_not_the_study(tmp_path):
    found = study(tmp_path, num_trials=2)
    first = following(found)
    found.finish(first, {"val/loss": math.nan})
    second = following(found)
    found.finish(second, {"val/loss": 0.5})
    assert [row["status"] for row in found.table()] == ["undefined", "finished"]
    assert second.number == 1 and second.values != first.values and best(found, "val/loss")["number"] == 1
    assert found.next_trial() is None


def test_a_median_pruner_ends_a_bad_trial(tmp_path, monkeypatch):
    monkeypatch.setattr(study_module, "START_TRIALS", 4)  # the pruner waits for two trials
    found = study(tmp_path, pruner="median")
    for _ in range(2):
        trial = following(found)
        assert not trial.is_worse(0.1, step=1)
        found.finish(trial, {"val/loss": 0.1})
    bad = following(found)
    assert bad.is_worse(0.9, step=1)
    found.prune(bad)
    assert found.table()[-1]["status"] == "pruned" and following(found).number == 3


def test_a_study_may_grow_but_not_change(tmp_path):
    run(tmp_path, num_trials=2)
    assert len(run(tmp_path, num_trials=3)) == 3
    with pytest.raises(ValueError, match="holds a study with other settings .seed was 0, now 1.: choose another"):
        study(tmp_path, seed=1)
    with pytest.raises(ValueError, match="trainer.max_epochs was None, now 2"):
        study(tmp_path, settings={"trainer.max_epochs": 2})


def test_a_missing_optuna_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"search needs the package optuna: pip install 'lightning_xai\[search\]'"):
        study(tmp_path)
