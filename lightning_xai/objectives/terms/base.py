"""The interface of a term, a loss that is added to an objective's own loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.objectives.inner_search import GRADIENT_SCALE
from lightning_xai.objectives.terms.weights import Weight, check_weight
from lightning_xai.types import Batch


class Task(NamedTuple):
    """The part of an objective that does not depend on its terms: network, batch and own loss.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.losses import example_losses
        >>> from lightning_xai.types import TextInputs
        >>> batch = Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0]))
        >>> task = Task(random_bert(), batch, lambda logits: example_losses(logits, batch.labels), seed=0)
        >>> task.losses(torch.zeros(1, 2))
        tensor([0.6931])
    """

    network: Classifier
    batch: Batch
    losses: Callable[[Tensor], Tensor]  # logits [B, C] -> the objective's own loss of every example [B]
    seed: int  # seed of the training step; a term's random numbers come from this seed and the example's index


class CleanPass(ForwardPass):
    """The one forward pass over the unchanged inputs of a batch. The objective and all of its terms read it.

    Args:
        task: network, batch and loss.
        needs: the needs of the objective and of all terms together.
        create_graph: True in training; False in validation, where nothing is trained.

    Attributes:
        task: network, batch and loss.
        losses: [B] the objective's own loss of every example, in the graph.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> batch = Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0]))
        >>> task = Task(random_bert(), batch, lambda logits: logits[:, 0], seed=0)
        >>> CleanPass(task, Needs(embeds=True), create_graph=True).loss_gradient.shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, task: Task, needs: Needs, *, create_graph: bool) -> None:
        super().__init__(task.network, task.batch.inputs, needs, create_graph=create_graph)
        self.task = task
        self.losses = task.losses(self.output.logits)

    @cached_property
    def loss_gradient(self) -> Tensor:
        """Gradients [B, T, D] of the examples' losses with respect to their embeddings; computed once for all terms."""
        return self.gradient(self.losses * GRADIENT_SCALE) / GRADIENT_SCALE


class TermValue(NamedTuple):
    """The value of a term on a batch.

    Example:
        >>> TermValue(torch.tensor([0.5, 1.5])).values.mean()
        tensor(1.)
    """

    values: Tensor  # [B] the term of every example, in the graph
    logged: Mapping[str, Tensor] = MappingProxyType({})  # name -> scalar, logged as train/<term>_<name>


class Term(nn.Module, ABC):
    """A loss that an objective adds to its own. It may have buffers, but no parameters.

    An objective minimizes task_weight * mean(own losses) + the sum of weight * sum(w * v) / (B * mean w) over its
    terms. Here v are the term's values [B], w its `example_weights` [B], and mean w is their mean over the training
    split. So the loss is a sum over examples, and does not depend on how an optimizer step is divided into equal
    micro-batches and processes.

    Before each term's `value`, the random generators return to their state just after the clean pass. A term's own
    random numbers come from `Task.seed` and the index of the example. So no term changes the numbers of another.

    Args:
        weight: factor of the term; or a schedule, a list of pairs (fraction of the training steps, factor) between
            which the factor changes linearly. A term of weight 0 takes no time in training.
        validate: whether validation measures the term, as val/<name of the term>. None takes `measured`, the default
            of the class.

    Raises:
        ValueError: a weight is negative or no number.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> from lightning_xai.types import TextInputs
        >>> class LogitSize(Term):
        ...     def value(self, clean, prepared):
        ...         return TermValue(clean.output.logits.square().mean(dim=1))
        >>> objective = Supervised(random_bert(), terms={"size": LogitSize(weight=0.5)})
        >>> losses = objective.losses(Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0])))
        >>> torch.allclose(losses["loss"], losses["classification"] + 0.5 * losses["size"])
        True
    """

    measured: ClassVar[bool] = False  # whether validation measures terms of this class by default
    suits_multilabel: ClassVar[bool] = True  # whether the term can train on multi-label data
    independent_of_batch: bool = True  # False if a value depends, by definition, on other examples or on padding

    def __init__(self, weight: Weight = 1.0, validate: bool | None = None) -> None:
        super().__init__()
        check_weight(weight)
        self.weight = weight
        self.validate = self.measured if validate is None else validate

    def check_network(self, network: Classifier) -> None:
        """Raises ValueError if the term cannot train `network`. Called when the objective is built."""
        if network.multilabel and not self.suits_multilabel:
            raise ValueError(
                f"{type(self).__name__} needs one class per text: choose single-label data, or leave it out"
            )

    def check_data(self, data: Any) -> None:
        """Raises ValueError if the term cannot use the data module `data`. Called before training."""

    def check_precision(self, precision: str, network: Classifier) -> None:
        """Raises ValueError if the term cannot train `network` in the trainer's precision. Called before training."""

    def needs(self, network: Classifier) -> Needs:
        """Returns the term's needs from the clean pass of `network`, apart from logits and readout."""
        return Needs()

    def describe(self) -> str:
        """Returns settings to show at the start of training, such as defaults that were filled in. By default none."""
        return ""

    def passes(self, num_tokens: int) -> float:
        """Returns the term's additional cost, in forward passes.

        The clean pass and its backward pass are not included. A forward pass costs 1. A backward pass to the embeddings
        costs 1, and to embeddings and weights 2. Differentiating through a backward pass costs 2 more.

        Args:
            num_tokens: number of explainable tokens of an example.
        """
        return 0.0

    def example_weights(self, batch: Batch) -> Tensor:
        """Returns the weight [B] of each example; 0 for an example that does not count. By default 1."""
        return torch.ones(len(batch), device=batch.labels.device)

    @property
    def weighs_examples(self) -> bool:
        """Whether examples have different weights."""
        return type(self).example_weights is not Term.example_weights

    def prepare(self, task: Task) -> Any:
        """Computes results that do not depend on the clean pass, before it: for example, a search or a detached target.

        The network is in train mode when `prepare` is called. An implementation therefore switches it to eval mode for
        its computations (`functional.network.modes.frozen`), and keeps no graph.
        """
        return None

    @abstractmethod
    def value(self, clean: CleanPass, prepared: Any) -> TermValue:
        """Returns the term of every example.

        Args:
            clean: the forward pass over the unchanged inputs.
            prepared: the result of `prepare`.
        """
