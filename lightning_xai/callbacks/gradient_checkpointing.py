"""Gradient checkpointing: the backward pass recomputes the encoder's layers, which saves memory in training."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lightning_xai.callbacks.base import network_of
from lightning_xai.functional.network.untouched import network_kept, random_states_kept
from lightning_xai.models.base import Classifier
from lightning_xai.types import TextInputs

TOLERANCE = 1e-3  # largest allowed change in second derivatives, as a fraction of the largest second derivative


def checkpoint_layers(network: nn.Module, *, enabled: bool = True) -> int:
    """Turns gradient checkpointing of a Hugging Face encoder on or off. Returns the number of modules that support it.

    Checkpointing is active in train mode only. Modules without support stay unchanged.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> checkpoint_layers(random_bert()) > 0, checkpoint_layers(nn.Linear(1, 1))
        (True, 0)
    """
    parts: list[Any] = [part for part in network.modules() if hasattr(part, "gradient_checkpointing")]
    for part in parts:
        # not reentrant, because reentrant checkpointing does not allow double backward
        part._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        part.gradient_checkpointing = enabled
    return len(parts)


def second_derivatives(network: Classifier, inputs: TextInputs) -> list[Tensor]:
    """Returns the gradients of |d(sum of logits) / d(embeddings)|^2 with respect to weights of the transformer.

    These are the trainable weights of `network.transformer` on which the squared norm depends.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network = random_bert()
        >>> network.set_attention("eager")
        >>> len(second_derivatives(network, TextInputs.of_ids([[1, 5, 2]]))) > 0
        True
    """
    embeds = network.embed(inputs).detach().requires_grad_()
    logits = network(inputs, embeds).logits
    (gradient,) = torch.autograd.grad(logits.sum(), embeds, create_graph=True)
    trained = [p for p in network.transformer.parameters() if p.requires_grad]  # type: ignore[union-attr]
    derivatives = torch.autograd.grad(gradient.square().sum(), trained, allow_unused=True)
    return [derivative for derivative in derivatives if derivative is not None]


class GradientCheckpointing(Callback):
    """In a training step, stores only the inputs of the encoder's layers; the backward pass recomputes the rest.

    A training step makes one more forward pass and needs far less memory, which helps with texts of thousands of
    tokens. The same holds for each step in the searches that PGD and TokenMasking make. Losses and gradients stay the
    same, even with dropout. Attribution methods still store all activations, because they run in eval mode. If the
    objective differentiates twice, setup checks on a short text that checkpointing does not change the second
    derivatives.

    Raises:
        ValueError: at the setup of a fit, if no layer of the network supports checkpointing, or if checkpointing
            changes the network's second derivatives.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> objective, callback, trainer = Supervised(random_bert()), GradientCheckpointing(), Trainer(logger=False)
        >>> callback.setup(trainer, objective, "fit")
        >>> objective.network.transformer.bert.encoder.layer[0].gradient_checkpointing
        True
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        network = network_of(pl_module)
        expected = self._derivatives(network) if getattr(pl_module, "needs_double_backward", False) else None
        if not checkpoint_layers(network):
            raise ValueError(
                f"{type(network).__name__} has no layers that support gradient checkpointing: remove "
                "GradientCheckpointing from trainer.callbacks"
            )
        if expected is not None:
            self._compare(expected, self._derivatives(network))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            checkpoint_layers(network_of(pl_module), enabled=False)

    @staticmethod
    def _derivatives(network: Classifier) -> list[Tensor]:
        weights = list(network.parameters())
        size = min(8, network.embedding_matrix.shape[0])
        inputs = TextInputs.of_ids([list(range(size))]).to(weights[0].device)
        with random_states_kept(), network_kept(network), torch.enable_grad():
            network.train()  # gradient checkpointing is active in train mode only
            return second_derivatives(network, inputs)

    @staticmethod
    def _compare(expected: list[Tensor], actual: list[Tensor]) -> None:
        largest = max((float(derivative.abs().max()) for derivative in expected), default=0.0)
        gaps = [float((a - e).abs().max()) for a, e in zip(actual, expected, strict=False)]
        # the condition uses `not all(<=)` instead of `any(>)`, so that it also holds if a gap is NaN
        if len(actual) != len(expected) or not all(gap <= TOLERANCE * largest for gap in gaps):
            raise ValueError(
                "gradient checkpointing changes second derivatives, so this objective would be trained with wrong "
                "gradients: remove GradientCheckpointing from trainer.callbacks, or choose an objective whose loss "
                "contains no gradient"
            )
