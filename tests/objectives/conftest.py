"""A planted problem, a trainer that writes nothing, and a teacher on disk for the tests of objectives."""

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import Trainer
from torch.utils.data import DataLoader, Dataset

from lightning_xai.objectives.supervised import Supervised
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs, tiny_classifier

PLANTED = 5  # the token PLANTED + label at position 1 or 2 decides the label


def planted_batch(seed: int = 0, *, num_examples: int = 6, num_classes: int = 3, multilabel: bool = False) -> Batch:
    """Returns examples whose label follows from one token, which is their rationale."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(5, 10, (num_examples,), generator=generator).tolist()
    inputs = text_inputs(lengths, seed=seed, pad_to=10)
    labels = torch.randint(0, num_classes, (num_examples,), generator=generator)
    places = torch.randint(1, 3, (num_examples,), generator=generator)
    rows = torch.arange(num_examples)
    ids = inputs.input_ids.clone()
    planted = inputs.token_mask & (ids < PLANTED + num_classes)
    ids[planted] = PLANTED + num_classes
    ids[rows, places] = PLANTED + labels
    inputs = type(inputs)(**(vars(inputs) | {"input_ids": ids, "index": rows + seed * num_examples}))
    scores = torch.zeros(num_examples, 1, 10)
    scores[rows, 0, places] = 1.0
    targets = labels.unsqueeze(1)
    rationale = Attribution(scores, targets, torch.ones_like(targets, dtype=torch.bool), inputs.token_mask)
    if multilabel:
        labels = torch.nn.functional.one_hot(labels, num_classes).float()
    return Batch(inputs, labels, rationale)


class Batches(Dataset[Batch]):
    """Batches in a list."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, position: int) -> Batch:
        return self.batches[position]


def loader(num_batches: int = 4, **arguments: Any) -> DataLoader[Batch]:
    """Returns a loader of planted batches with the seeds 0, 1, ..."""
    return DataLoader(Batches([planted_batch(seed, **arguments) for seed in range(num_batches)]), batch_size=None)


def quiet_trainer(folder: str | Path, **arguments: Any) -> Trainer:
    """Returns a trainer on the CPU that logs nothing and writes no checkpoints unless told to."""
    defaults: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False}
    defaults |= {"enable_model_summary": False, "enable_checkpointing": False, "num_sanity_val_steps": 0}
    return Trainer(default_root_dir=folder, **(defaults | arguments))


def fast_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def save_teacher(network, path) -> str:
    """Writes the checkpoint that a run with `network` would leave."""
    objective = Supervised(network)
    checkpoint = {"state_dict": objective.state_dict()}
    objective.on_save_checkpoint(checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, path)
    return str(path)


@pytest.fixture
def teacher_path(tmp_path) -> str:
    """A checkpoint of the tiny PLM-CA."""
    return save_teacher(tiny_classifier("plm_ca", seed=1), tmp_path / "teacher.ckpt")
