"""What one command of a chain has tried is not tried in the others, unless something is different there."""

import json

import pytest
from lightning import Callback

from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.preflight.preflight_memory import PreflightMemory
from lightning_xai.objectives.supervised import Supervised
from tests.callbacks.conftest import Recorder, compute, planted_data
from tests.callbacks.preflight.test_preflight import Broken, silent
from tests.conftest import tiny_classifier


class Chained(Callback):
    def __init__(self, file):
        self.preflight_record = lambda trainer: file


@pytest.fixture
def fit_tries(tmp_path):
    """Returns a function that runs a fit of a new command, and tells whether the fit tried its method."""

    def run(*, key: str = "a", working: bool = True, chained: bool = True, **trainer) -> bool:
        method = Broken(None if working else ValueError("no"))
        chain = [Chained(tmp_path / "preflights.json")] if chained else []
        parts = (
            Preflight(tests_after_fit=True, key=key, memory=PreflightMemory(), skip_unfit=True),
            compute(method, Random()),
        )
        fit = silent(tmp_path, *chain, *parts, Recorder(), limit_train_batches=1, limit_val_batches=1, **trainer)
        fit.fit(Supervised(tiny_classifier("bert")), datamodule=planted_data())
        return bool(method.calls)

    return run


def test_other_commands_of_a_chain_try_nothing_again(fit_tries, tmp_path):
    assert fit_tries() and not fit_tries()
    (parts,) = json.loads((tmp_path / "preflights.json").read_text()).values()
    assert sorted(map(tuple, parts)) == [
        ("fit", "validation"), ("test", "test"), ("test", "validation"), ("train", "train"),
    ]  # fmt: skip


@pytest.mark.slow
def test_other_settings_and_runs_outside_of_the_chain_are_tried(fit_tries):
    assert fit_tries() and fit_tries(key="b") and fit_tries(chained=False)


@pytest.mark.slow
def test_part_that_was_left_out_is_tried_again_since_it_may_be_mended(fit_tries):
    assert fit_tries(working=False) and fit_tries(working=False) and fit_tries() and not fit_tries()


def test_dry_run_records_nothing(fit_tries, tmp_path):
    assert fit_tries(fast_dev_run=True) and not (tmp_path / "preflights.json").exists()


def test_one_command_tries_equal_parts_once(tmp_path):
    memory, calls = PreflightMemory(), []
    for key in ("a", "a", "b"):
        method = Broken()
        run = silent(tmp_path, Preflight(tests_after_fit=True, key=key, memory=memory), compute(method), Recorder())
        run.fit(Supervised(tiny_classifier("bert")), datamodule=planted_data())
        calls.append(bool(method.calls))
    assert calls == [True, False, True]


def test_later_stage_leaves_out_what_an_earlier_stage_found_unfit(tmp_path):
    memory = PreflightMemory()
    for _ in range(2):
        broken, source = Broken(ValueError("no")), None
        source = compute(broken, Random())
        preflight = Preflight(tests_after_fit=True, skip_unfit=True, memory=memory)
        run = silent(tmp_path, preflight, source, Recorder())
        run.fit(Supervised(tiny_classifier("bert")), datamodule=planted_data())
        assert list(source.methods) == ["Random"]
    assert not broken.calls
