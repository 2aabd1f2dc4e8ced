"""The time left of a chain: after a kill, and where the cheap stages come first."""

import pytest

from lightning_xai.chains.time_left import ERASURE_PASS, ScoringClock, StageTime, seconds_left, stage_time
from lightning_xai.runs.folder import RunFolder

ROOT = StageTime("root", True, 100.0, True, 10.0, scoring={"random": 1.0, "slow": 500.0})
CHEAP = StageTime("random", True, 100.0, True, 10.0)


def test_nothing_is_known_before_a_stage_is_done():
    assert seconds_left([StageTime("root", False)]) is None


def test_scores_of_an_expensive_method_count_before_its_first_stage_is_done():
    slow = [StageTime("slow", False, scores_with=["slow"]), StageTime("slow", False)]  # the last decides no erasures
    assert seconds_left([ROOT, CHEAP, *slow]) == 2 * 110 + 500


def test_group_of_its_own_counts_before_all_stages():
    short = StageTime("classifier", True, 20.0, True, 2.0)
    assert seconds_left([ROOT, short, StageTime("classifier", False)]) == 22
    assert seconds_left([ROOT, short, StageTime("other", False)]) == (100 + 20) / 2 + (10 + 2) / 2


@pytest.mark.parametrize(("training", "left"), [(0.0, 110), (60.0, 50), (130.0, 10)])
def test_training_before_a_kill_is_not_done_again(training, left):
    assert seconds_left([ROOT, StageTime("random", False, training)]) == left


def test_stage_that_is_only_tested_trains_no_more():
    assert seconds_left([ROOT, StageTime("random", False, 40.0, is_trained=True, testing=3.0)]) == 10


def test_manifest_of_an_older_version_knows_the_total_only():
    time = stage_time({"status": "finished", "seconds": 60}, "root", is_done=True, scores_with=[])
    assert (time.training, time.testing, time.is_trained) == (60, 0, True)


def test_pass_that_goes_on_after_a_kill_counts_for_all_examples(tmp_path):
    clock, run = ScoringClock(), RunFolder(tmp_path)
    run.write_manifest(status="running")
    clock.num_examples, clock.seconds = 2, {"slow": 3.0}
    clock.record(run, num_examples=10)
    assert run.manifest[ERASURE_PASS]["methods"] == {"slow": 15.0}
    ScoringClock().record(run, num_examples=10)  # a later test in which nothing was left to score
    assert run.manifest[ERASURE_PASS]["methods"] == {"slow": 15.0} and run.manifest[ERASURE_PASS]["seconds"] < 15
