"""The sweeps over the weight of the explanation loss that the headers of the baselines of Ferreira et al. list."""

import re
import shlex
from pathlib import Path

import pytest

from tests.test_configs import CONFIGS, parsed

SETTINGS = ("optimizer", "warmup_fraction", "network", "task_weight", "head_lr_factor", "decay")


def sweep(baseline: Path, method: str) -> list[str]:
    """Returns the arguments of `fit` that the header of a baseline gives for a method, with the weight 5."""
    header = baseline.read_text().replace("\\\n#", "").replace("attention", method)
    (command,) = re.findall(r"run.py fit (.+?); done", header)
    return shlex.split(command.replace("$weight", "5"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["ferreira2024", "ferreira2024_minilm"])
@pytest.mark.parametrize("method", ["attention", "rollout", "input_x_gradient"])
def test_a_sweep_has_the_settings_of_the_baseline_and_the_term_of_the_joint_training(folder, method):
    baseline = parsed("--config", f"{folder}/baseline.yaml")
    joint = parsed("--config", f"{folder}/joint_{method}.yaml")["model"]["init_args"]["terms"]
    found = parsed(*sweep(CONFIGS / folder / "baseline.yaml", method))
    for name in SETTINGS:
        assert found["model"]["init_args"][name] == baseline["model"]["init_args"][name], name
    assert found["data"] == baseline["data"] and found["trainer"]["max_epochs"] == baseline["trainer"]["max_epochs"]
    joint["guidance"]["init_args"]["weight"] = 5.0
    assert found["model"]["init_args"]["terms"] == joint
