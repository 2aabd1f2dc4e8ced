"""Training on labels alone."""

import torch

from lightning_xai.objectives.losses import example_losses
from lightning_xai.objectives.supervised import Supervised
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer


def test_loss_is_the_classification_loss_of_the_network(tiny_hf):
    batch = planted_batch()
    expected = example_losses(tiny_hf(batch.inputs).logits, batch.labels).mean()
    assert torch.equal(Supervised(tiny_hf).losses(batch)["loss"], expected)


def test_planted_tokens_are_learned(tiny_hf, tmp_path):
    batch = planted_batch(num_examples=16)
    before = example_losses(tiny_hf(batch.inputs).logits, batch.labels).mean().item()
    objective = Supervised(tiny_hf, optimizer=fast_optimizer, warmup_fraction=0.0)
    quiet_trainer(tmp_path, max_epochs=10).fit(objective, loader(4, num_examples=16))
    tiny_hf.eval()
    assert example_losses(tiny_hf(batch.inputs).logits, batch.labels).mean().item() < 0.5 * before
