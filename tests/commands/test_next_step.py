"""The command that a fit suggests at its end."""

from pathlib import Path

import pytest

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.chains.fresh import FRESH
from lightning_xai.chains.roar import ROAR
from lightning_xai.commands.next_step import next_step, run_to_explain
from lightning_xai.runs.folder import RunFolder


@pytest.mark.slow
@pytest.mark.parametrize(
    "chain", [FRESH({"gradient": Gradient()}), ROAR({"gradient": Gradient()})], ids=["fresh", "roar"]
)
def test_every_stage_of_a_chain_leads_to_its_root(chain, tmp_path):
    root = RunFolder.of(tmp_path, "chain", 0)
    root.write_manifest(status="finished")
    assert {run_to_explain(root.stage(stage.name), [chain]) for stage in chain.stages} == {root}


def test_a_folder_with_a_space_can_be_pasted_into_a_shell():
    assert "--ckpt 'runs/my run/seed0' --text" in next_step(Path("runs/my run/seed0"))
