"""The ablations of REGEX that the header of its configuration lists."""

import re
import shlex
from typing import Any

import pytest

from tests.test_configs import CONFIGS, parsed

REGEX = CONFIGS / "regex.yaml"
LINES = re.findall(r"^#   ([\w., ]+?): +(--model.*)$", REGEX.read_text(), flags=re.MULTILINE)
UNCHANGED = {"igr": 0.01, "vat": 0.5, "egt": 0.01}
WEIGHTS: dict[str, dict[str, float]] = {
    "without VAT": {"vat": 0.0},
    "without IGR": {"igr": 0.0},
    "without both": {"igr": 0.0, "vat": 0.0},
    "without EGT": {"egt": 0.0},
    "sweep of lambda_4": {"egt": 0.1},
}
METHODS = {
    "saliency": ("Gradient", "mean"),
    "input x grad.": ("InputXGradient", "mean"),
    "DeepLift": ("DeepLift", "mean"),
    "IG, mean": ("IntegratedGradients", "mean"),
}


def test_the_header_lists_the_ablations_of_the_paper():
    assert {name for name, _ in LINES} == {*WEIGHTS, *METHODS, "sweep of K"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), LINES, ids=[name for name, _ in LINES])
def test_an_ablation_changes_what_its_name_says_and_nothing_else(name, options):
    terms: dict[str, Any] = parsed("--config", str(REGEX), *shlex.split(options))["model"]["init_args"]["terms"]
    assert {key: term["init_args"]["weight"] for key, term in terms.items()} == UNCHANGED | WEIGHTS.get(name, {})
    egt = terms["egt"]["init_args"]
    method = egt["method"]["class_path"].rpartition(".")[2], egt["method"]["init_args"]["pooling"]
    assert method == METHODS.get(name, ("IntegratedGradients", "l2"))
    assert egt["method"]["init_args"].get("baseline", "zero") == "zero"
    assert egt["masked_fraction"] == (0.3 if name == "sweep of K" else 0.15)
    assert terms["igr"]["init_args"]["parameter_norm"] is True
