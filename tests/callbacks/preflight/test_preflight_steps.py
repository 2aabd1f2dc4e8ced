"""The examples that a preflight takes for those that the run will explain."""

from types import SimpleNamespace

import pytest

from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.preflight.preflight_run import PreflightRun
from lightning_xai.callbacks.preflight.preflight_steps import explained_examples
from tests.callbacks.conftest import compute, planted_data
from tests.callbacks.preflight.test_preflight import silent


@pytest.mark.parametrize("max_examples", [3, None])
def test_examples_of_a_data_module_without_a_sampler_are_taken_in_the_order_of_the_split(
    objective, tmp_path, max_examples
):
    data = planted_data()
    data.prepare_data()
    data.setup("test")
    source = compute(Random(), max_examples=max_examples)
    run = silent(tmp_path, source)
    setattr(run, "datamodule", SimpleNamespace(split=data.split))  # noqa: B010 - Lightning does not declare it
    examples = explained_examples(PreflightRun(run, objective, {"test": ["test"]}), source, "test")
    assert examples.tolist() == data.split("test").index[:max_examples].tolist()
