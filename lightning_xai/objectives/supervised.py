"""The objective that trains a network on labels, alone or together with terms."""

from functools import partial

from lightning_xai.objectives.composed import ComposedObjective
from lightning_xai.objectives.losses import example_losses
from lightning_xai.objectives.terms.base import Task
from lightning_xai.types import Batch


class Supervised(ComposedObjective):
    """Minimizes cross-entropy (binary cross-entropy for multi-label data). Edin et al. (2024) call this objective B_U.

    With the term `InputGradient`, it becomes the paper's IGR; with `PGD`, the paper's PGD; with `SupervisedAttention`,
    the paper's B_S. If several of these terms are given, they are added up.

    The command line tries the gradient of every term before it trains. With a Trainer of your own, call `try_terms`
    on a batch first: a term whose gradient is 0 trains nothing, without an error.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> network, batch = random_bert(), Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0]))
        >>> probability = network.predict(batch.inputs)[0, 0]
        >>> torch.allclose(Supervised(network).losses(batch)["loss"], -probability.log())
        True
    """

    def task(self, batch: Batch) -> Task:
        return Task(self.network, batch, partial(example_losses, labels=batch.labels), self.step_seed)
