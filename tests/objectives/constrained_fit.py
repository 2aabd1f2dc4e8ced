"""Fits Constrained on one process or on two and saves its state: constrained_fit.py FOLDER NUM_PROCESSES."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.models.tiny import TINY_BERT
from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.dual_ascent import Constraint
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.laws import BatchDataset, loader, planted_batch, quiet_trainer
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention

DATA: dict[str, Any] = {"num_classes": 5, "multilabel": True}


def main(folder: Path, num_processes: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = PLMCA(config=TINY_BERT, num_classes=5, segment_length=8, dropout=0.0).double()
    terms: dict[str, Term] = {
        "igr": InputGradient(),
        "noise": PGD(epsilon=0.1, search=Search(num_steps=2), validate=True),
        "attention": SupervisedAttention(reduction="per_code"),
    }
    constraints = {"igr": Constraint(0.01, 100.0), "attention": Constraint(0.5, 100.0)}
    objective = Constrained(
        network, constraints, terms, averaging=0.5, gradient_clip_val=1.0,
        accumulate_grad_batches=2 // num_processes, optimizer=lambda p: torch.optim.SGD(p, lr=0.1),
        warmup_fraction=0.0,
    )  # fmt: skip
    options: dict[str, Any] = {"strategy": "ddp", "devices": 2} if num_processes == 2 else {}
    trainer = quiet_trainer(folder, max_epochs=2, use_distributed_sampler=False, **options)
    # a step of the two processes has the two batches of an accumulated step; both validate the same batches
    rank = int(os.environ.get("LOCAL_RANK", 0))
    batches = [planted_batch(seed, **DATA) for seed in range(4)][rank::num_processes]
    trainer.fit(objective, DataLoader(BatchDataset(batches), batch_size=None), loader(3, **DATA))
    if trainer.is_global_zero:
        validated = {name: value for name, value in trainer.callback_metrics.items() if name.startswith("val/")}
        torch.save({**objective.state_dict(), **validated, "minima": objective.minima}, folder / f"{num_processes}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
