"""The runs of a ROAR chain, their names and the runs that they depend on."""

from typing import Any

import pytest

from lightning_xai.chains.roar_stages import parse_stage_name, roar_stages, stage_name
from lightning_xai.chains.stages import Stage


def stages(**options: Any) -> list[Stage]:
    defaults: dict[str, Any] = {"amount_unit": "percentage", "control": False, "recursive_methods": ["gradient"]}
    return roar_stages(["gradient"], [20, 50], **(defaults | options))


@pytest.mark.parametrize("control", [False, True])
@pytest.mark.parametrize("method", ["gradient", "integrated gradients", "gradient_once"])
def test_names_can_be_parsed(method, control):
    assert parse_stage_name(stage_name(method, 5, control=control)) == (method, 5, control)


def test_runs_of_a_recursive_method_depend_on_the_run_before_them():
    writers = {stage.name: stage.writer for stage in stages()}
    assert (writers["gradient/020"], writers["gradient/050"], writers["random/050"]) == ("", "gradient/020", "")


def test_runs_of_other_methods_depend_on_the_root():
    assert {stage.writer for stage in stages(recursive_methods=[])} == {""}


def test_controls_follow_with_the_erasures_and_the_writer_of_their_run():
    *_, first, second = stages(control=True)
    assert [first.name, second.name] == ["gradient_positions/020", "gradient_positions/050"]
    assert (second.erasures, second.writer, second.removal) == ("gradient/050", "gradient/020", "positions")


def test_fixed_orders_have_no_controls():
    names = [stage.name for stage in stages(control=True, fixed_orders=("random", "evidence_first"))]
    assert "evidence_first/020" in names and not any(name.startswith("evidence_first_positions") for name in names)


def test_time_of_controls_is_estimated_from_the_random_order():
    assert {stage.group for stage in stages(control=True)} == {"root", "random", "gradient"}
    assert stages(control=True)[-1].group == "random"
