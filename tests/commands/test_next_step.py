"""The command that a fit suggests at its end."""

import pytest

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.chains.fresh import FRESH
from lightning_xai.chains.roar import ROAR
from lightning_xai.commands.next_step import run_to_explain
from lightning_xai.runs.folder import RunFolder


@pytest.mark.slow
@pytest.mark.parametrize(
    "chain", [FRESH({"gradient": Gradient()}), ROAR({"gradient": Gradient()})], ids=["fresh", "roar"]
)
def test_every_stage_of_a_chain_leads_to_its_root(chain, tmp_path):
    root = RunFolder.of(tmp_path, "chain", 0)
    root.write_manifest(status="finished")
    assert {run_to_explain(root.stage(stage.name), [chain]) for stage in chain.stages} == {root}
