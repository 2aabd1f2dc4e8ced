"""The interface of terms: losses that are added to an objective's own loss."""

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
    """The part of an objective that does not depend on its terms: network, batch, and the loss without terms.

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
    losses: Callable[[Tensor], Tensor]  # logits [B, C] -> the loss [B] of each example, without terms
    seed: int  # seed of the training step; a term seeds its random numbers by this seed and the example's index


class CleanPass(ForwardPass):
    """The forward pass over the unchanged inputs of a batch, which the objective and all of its terms share.

    Args:
        task: network, batch and loss.
        needs: what the objective and its terms together need from this pass.
        create_graph: whether gradients of this pass are differentiated again: True in training, False in validation.

    Attributes:
        task: network, batch and loss.
        losses: [B] the objective's own loss of every example, with its autograd graph.

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
        """Gradients [B, T, D] of `losses` with respect to embeddings. Computed once, for all terms together."""
        return self.gradient(self.losses * GRADIENT_SCALE) / GRADIENT_SCALE


class TermValue(NamedTuple):
    """The value of a term on a batch.

    Example:
        >>> TermValue(torch.tensor([0.5, 1.5])).values.mean()
        tensor(1.)
    """

    values: Tensor  # [B] the term's value for every example, with its autograd graph
    logged: Mapping[str, Tensor] = MappingProxyType({})  # name -> scalar, logged as train/<term>_<name>


class Term(nn.Module, ABC):
    """A loss that an objective adds to its own loss. A term may have buffers, but no parameters.

    An objective minimizes task_weight * mean(own losses) + the sum of weight * sum(w * v) / (B * mean(w)) over its
    terms. Here v are a term's values [B], w are its `example_weights` [B], and mean(w) is the mean over the training
    split. The loss is thus a mean over the examples, and does not depend on how an optimizer step is divided into equal
    micro-batches and processes.

    Before each call of a term's `value`, the random generators are set to their state after the clean pass (the forward
    pass over the unchanged inputs). The clean pass computes embeddings in every training with terms, because embeddings
    may draw dropout masks. A term that draws random numbers itself, such as noise, seeds them by `Task.seed` and the
    example's index. So no term affects the random numbers of another term. There is one exception: a term that needs
    eager attention replaces a fused kernel, which may draw other dropout masks.

    Args:
        weight: factor of the term; or a schedule, a list of pairs (fraction of the training steps, factor) between
            which the factor changes linearly. At weight 0, the term is not computed in training.
        validate: whether the term is computed in validation, and logged as val/<name of the term>. If None, the class
            attribute `measured` decides.

    Raises:
        ValueError: a weight is negative or not finite, or the fractions of a schedule do not rise within [0, 1].

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

    measured: ClassVar[bool] = False  # whether the term is computed in validation if `validate` is None
    suits_multilabel: ClassVar[bool] = True  # whether the term can train on multi-label data
    independent_of_batch: bool = True  # False if, by definition, a value depends on other examples or on padding

    def __init__(self, weight: Weight = 1.0, validate: bool | None = None) -> None:
        super().__init__()
        check_weight(weight)
        self.weight = weight
        self.validate = self.measured if validate is None else validate

    def check_network(self, network: Classifier) -> None:
        """Raises ValueError if the term cannot train `network`. Called when the objective is built."""
        if network.multilabel and not self.suits_multilabel:
            raise ValueError(
                f"{type(self).__name__} needs one class per text: choose single-label data, or leave out this term"
            )

    def check_data(self, data: Any) -> None:
        """Raises ValueError if the term cannot use the data module `data`. Called before training."""

    def check_precision(self, precision: str, network: Classifier) -> None:
        """Raises ValueError if the term cannot train `network` in the trainer's precision. Called before training."""

    def needs(self, network: Classifier) -> Needs:
        """Returns what the term needs, besides the logits, from the forward pass over the unchanged inputs."""
        return Needs()

    def describe(self) -> str:
        """Returns a text about the term's settings (by default, empty). It is printed at the start of training."""
        return ""

    def passes(self, num_tokens: int) -> float:
        """Returns the term's additional cost, in forward passes.

        The forward pass over the unchanged inputs, which all terms share, and its backward pass are not included. A
        forward pass costs 1. A backward pass costs 1 for the gradient of embeddings alone, and 2 for the gradient of
        embeddings and weights. Differentiating through a backward pass costs 2 more.

        Args:
            num_tokens: number of explainable tokens of an example.
        """
        return 0.0

    def example_weights(self, batch: Batch) -> Tensor:
        """Returns the weight [B] of each example, by default 1. An example with weight 0 does not count."""
        return torch.ones(len(batch), device=batch.labels.device)

    @property
    def weighs_examples(self) -> bool:
        """Whether the term defines weights of examples."""
        return type(self).example_weights is not Term.example_weights

    def prepare(self, task: Task) -> Any:
        """Returns what can be computed before the clean pass (the forward pass over the unchanged inputs).

        Examples are the result of a search and a detached target.

        The network is in train mode when `prepare` is called. An implementation therefore puts the network in eval mode
        for its computations (`functional.network.modes.frozen`), and returns tensors without an autograd graph.
        """
        return None

    @abstractmethod
    def value(self, clean: CleanPass, prepared: Any) -> TermValue:
        """Returns the term's value for every example.

        Args:
            clean: the forward pass over the unchanged inputs.
            prepared: the result of `prepare`.
        """
