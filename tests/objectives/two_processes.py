"""Writes the gradients of a step on one process and on two, for each objective: two_processes.py FOLDER RANK PORT."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.metrics.faithfulness import Comprehensiveness
from lightning_xai.metrics.top_units import Percentages
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.objectives.aml import AML
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.egt import EGT
from lightning_xai.objectives.terms.explanation_guidance import ExplanationGuidance
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.rationale_contrast import RationaleContrast
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from lightning_xai.objectives.terms.unirex import UNIREX
from lightning_xai.objectives.terms.vat import VAT
from lightning_xai.types import Attribution, Batch, TextInputs

CONFIG = {
    "model_type": "bert", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 16, "pad_token_id": 0,
}  # fmt: skip


class Step(nn.Module):
    """Makes the loss a forward pass, as Lightning's strategies do with the training step."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, batch: Batch) -> torch.Tensor:
        return self.objective.losses(batch)["loss"]


def texts() -> TextInputs:
    ids = torch.randint(5, 50, (4, 8))
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    return TextInputs(ids, everywhere, everywhere, ~everywhere, torch.full_like(ids, 3), index=torch.arange(4))


def supervised_attention() -> tuple[Step, Batch]:
    network = PLMCA(config=CONFIG, num_classes=3, segment_length=8, dropout=0.0).double()
    term, inputs = SupervisedAttention(reduction="per_code", weight=1.0), texts()
    objective = Supervised(network, terms={"attention": term})
    evidence = torch.rand(4, 3, 8) > 0.5
    evidence[0] = evidence[1, :2] = False  # the first process has one pair with evidence, the second process has six
    targets = torch.arange(3).expand(4, 3)
    rationale = Attribution(evidence.float(), targets, targets >= 0, inputs.token_mask)
    batch = Batch(inputs, torch.ones(4, 3), rationale)
    objective.expected_weights["attention"] = float(term.example_weights(batch).mean())
    return Step(objective), batch


def with_term(make: Callable[[], Term], **options: float) -> tuple[Step, Batch]:
    network, inputs, term = HFClassifier(config=CONFIG, dropout=0.0).double(), texts(), make()
    objective = Supervised(network, terms={"term": term}, **options)
    evidence = torch.rand(4, 1, 8) > 0.5
    evidence[0] = False  # the first process has one text with evidence, the second process has two
    labels = torch.tensor([0, 1, 1, 0])
    rationale = Attribution(evidence.float(), labels.unsqueeze(1), labels.unsqueeze(1) >= 0, inputs.token_mask)
    batch = Batch(inputs, labels, rationale)
    objective.expected_weights["term"] = float(term.example_weights(batch).mean())
    return Step(objective), batch


def aml() -> tuple[Step, Batch]:
    network = HFClassifier(config=CONFIG, dropout=0.0)
    # without `setup`, the network explains itself, and the path need only exist
    objective = AML(network, explained=__file__, metric=Comprehensiveness(Percentages([20]))).double()
    objective.network.requires_grad_(False)
    return Step(objective.train()), Batch(texts(), torch.tensor([0, 1, 1, 0]))


GUIDES = [
    Attention(), AttentionRollout(), InputXGradient("sum"), ALTI(), DecompXReverse(), IntegratedGradients(num_steps=2),
    AttInGrad(),
]  # fmt: skip
TERMS: dict[str, Callable[[], Term]] = {
    "igr": lambda: InputGradient(weight=10.0),
    "pgd": lambda: PGD(epsilon=0.1, search=Search(num_steps=2)),
    "vat": lambda: VAT(weight=1e6),  # weights that make the term's part of the gradient visible
    "egt": lambda: EGT(InputXGradient(), weight=1.0),
    "unirex": lambda: UNIREX(InputXGradient()),
    "rationale_contrast": RationaleContrast,
    **{f"guidance by {type(m).__name__}": partial(ExplanationGuidance, m, average="token") for m in GUIDES},
}
STEPS: dict[str, Callable[[], tuple[Step, Batch]]] = {
    "aml": aml, "supervised_attention": supervised_attention,
    **{name: partial(with_term, make) for name, make in TERMS.items()},
    # the attention of the last layer alone leaves weights without a gradient, with which DDP needs a zero
    "attention alone": partial(with_term, TERMS["guidance by Attention"], task_weight=0.0),
}  # fmt: skip


def gradients(step: Step) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in step.named_parameters() if p.grad is not None}


def main(folder: Path, rank: int, port: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for name, build in STEPS.items():
        torch.manual_seed(0)
        step, batch = build()
        replica = DistributedDataParallel(step)  # a variable, so that its hooks still exist in the backward pass
        replica(batch[2 * rank : 2 * rank + 2]).backward()
        if rank == 0:
            torch.save(gradients(step), folder / f"{name}_two.pt")
            torch.manual_seed(0)
            step, batch = build()
            step(batch).backward()
            torch.save(gradients(step), folder / f"{name}_one.pt")
    distributed.barrier()  # a process that ends early would break the other's connection
    sys.stdout.flush()
    os._exit(0)  # in rare runs the replica's destructor waited forever for its process group


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
