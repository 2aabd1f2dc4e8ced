"""Learning rate, gradient norm and tokens per second, against numbers worked out by hand."""

import math
from pathlib import Path

import pytest
import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader, Dataset

from lightning_xai.callbacks.training.token_rate import TokenRate
from lightning_xai.callbacks.training.training_scalars import TrainingScalars
from lightning_xai.types import Batch, TextInputs

LENGTHS = [[3, 1], [2, 2], [5, 4], [1, 1]]  # tokens of the texts of each batch


class BatchDataset(Dataset):
    def __len__(self) -> int:
        return len(LENGTHS)

    def __getitem__(self, position: int) -> Batch:
        return Batch(TextInputs.of_ids([[7] * length for length in LENGTHS[position]]), torch.tensor([0, 1]))


class Line(LightningModule):
    """The loss is 2 w + tokens * v, so the gradient of a batch is (2, its number of tokens)."""

    def __init__(self, *, manual: bool = False) -> None:
        super().__init__()
        self.w, self.v = (torch.nn.Parameter(torch.zeros(())) for _ in range(2))
        self.automatic_optimization = not manual

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor | None:
        loss = 2 * self.w + batch.inputs.attention_mask.sum() * self.v
        if self.automatic_optimization:
            return loss
        optimizers = self.optimizers()
        assert isinstance(optimizers, list)
        for optimizer in optimizers:
            optimizer.zero_grad()
            self.manual_backward(loss, retain_graph=True)
            optimizer.step()
        return None

    def configure_optimizers(self):
        if not self.automatic_optimization:
            return [torch.optim.SGD([self.w], lr=0.5), torch.optim.SGD([self.v], lr=0.25)]
        optimizer = torch.optim.SGD([{"params": [self.w], "lr": 0.5}, {"params": [self.v], "lr": 1.0}])
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def fit(folder: Path, module: LightningModule, *callbacks, ckpt_path: str | None = None, **arguments) -> Trainer:
    defaults = {"max_epochs": 1, "log_every_n_steps": 1, "enable_progress_bar": False, "enable_model_summary": False}
    logger = TensorBoardLogger(folder, name="", version="run")
    trainer = Trainer(
        accelerator="cpu", default_root_dir=folder, logger=logger, callbacks=list(callbacks), **(defaults | arguments)
    )
    trainer.fit(module, DataLoader(BatchDataset(), batch_size=None), ckpt_path=ckpt_path)
    return trainer


def logged(folder: Path) -> dict[str, dict[int, float]]:
    """Returns tag -> step -> value of all events."""
    found: dict[str, dict[int, float]] = {}
    for file in sorted((folder / "run").glob("events*")):
        events = EventAccumulator(str(file)).Reload()
        for tag in events.Tags()["scalars"]:
            found.setdefault(tag, {}).update({event.step: event.value for event in events.Scalars(tag)})
    return found


@pytest.mark.parametrize(
    ("arguments", "tokens"),
    [
        ({}, [4, 4, 9, 2]),
        ({"gradient_clip_val": 0.1}, [4, 4, 9, 2]),  # the norm is that before clipping
        ({"accumulate_grad_batches": 2}, [4, 5.5]),  # means of two batches
        ({"precision": "bf16-mixed"}, [4, 4, 9, 2]),
    ],
    ids=["plain", "clipped", "accumulated", "bf16"],
)
def test_gradient_norm_and_learning_rates_of_every_step(tmp_path, arguments, tokens):
    fit(tmp_path, Line(), TrainingScalars(), **arguments)
    scalars = logged(tmp_path)
    norms = {step: math.hypot(2, tokens) for step, tokens in enumerate(tokens)}
    assert scalars["train/gradient_norm"] == pytest.approx(norms)
    assert scalars["train/learning_rate"] == pytest.approx({step: 0.5 * 0.5**step for step in norms})
    assert scalars["train/learning_rate/1"] == pytest.approx({step: 0.5**step for step in norms})
    assert min(scalars["train/tokens_per_second"].values()) > 0


def test_only_the_steps_that_lightning_logs_are_logged(tmp_path):
    fit(tmp_path, Line(), TrainingScalars(), log_every_n_steps=2)
    assert list(logged(tmp_path)["train/gradient_norm"]) == [1, 3]


def test_second_optimizer_of_a_manual_step_logs_nothing(tmp_path):
    fit(tmp_path, Line(manual=True), TrainingScalars())
    scalars = logged(tmp_path)
    assert set(scalars["train/learning_rate"].values()) == {0.5}
    assert len(scalars["train/gradient_norm"]) == 4


def test_resumed_fit_goes_on_and_ends_with_the_same_weights_as_without_the_scalars(tmp_path):
    plain, scalars = Line(), Line()
    whole = fit(tmp_path / "whole", plain, max_epochs=2)
    first = fit(tmp_path / "resumed", Line(), TrainingScalars())
    first.save_checkpoint(tmp_path / "last.ckpt")
    second = fit(tmp_path / "resumed", scalars, TrainingScalars(), max_epochs=2, ckpt_path=str(tmp_path / "last.ckpt"))
    assert list(logged(tmp_path / "resumed")["train/learning_rate"]) == list(range(8))
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), scalars.parameters(), strict=True))
    assert set(second.callback_metrics) == set(whole.callback_metrics)  # only the loggers get the scalars


def test_fit_without_a_logger_logs_nothing(tmp_path):
    callback = TrainingScalars()
    trainer = Trainer(
        accelerator="cpu", default_root_dir=tmp_path, logger=False, max_epochs=1, callbacks=[callback],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(Line(), DataLoader(BatchDataset(), batch_size=None))
    assert callback.scalars == {}


def test_pauses_do_not_count():
    now = [0.0]
    rate = TokenRate(clock=lambda: now[0])
    rate.add(torch.tensor(30))
    now[0] = 2.0
    rate.pause()
    now[0] = 50.0
    rate.resume()
    rate.add(torch.tensor(10))
    now[0] = 53.0
    assert rate.take() == (torch.tensor(40), 5.0)
    now[0] = 54.0
    assert rate.take() == (torch.tensor(0), 1.0)
