"""The interface of every attribution method and the state it leaves untouched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from lightning_xai.functional.modes import frozen
from lightning_xai.models.base import Classifier
from lightning_xai.types import Attribution, Passes, TextInputs


@contextmanager
def explaining(model: Classifier, device_type: str) -> Iterator[None]:
    """Runs the body in eval mode with gradients on, autocast off, outside inference mode, and restores all of it.

    Parameters do not collect gradients inside: methods differentiate with respect to embeddings only.
    """
    with (
        torch.inference_mode(False),
        frozen(model),
        torch.autocast(device_type, enabled=False),
    ):
        yield


class AttributionMethod(ABC):
    """Scores every token for every class asked for. The constructor takes hyperparameters, never the model."""

    needs_attentions: bool = False  # the callback then chooses eager attention at setup
    # True where `passes` is a bound: texts that turn out equal are evaluated once, or classes share a backward pass
    passes_at_most: bool = False

    @abstractmethod
    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns scores [B, K, T], signed and unnormalized, for the classes `targets` [B, K]."""

    @abstractmethod
    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns the passes through the network that one example needs.

        Args:
            num_tokens: how many of its tokens may be explained (token_mask): special tokens take no pass of their own.
            num_targets: how many classes are explained.
        """

    def for_split(self, split: str) -> AttributionMethod:
        """Returns the method that explains examples of `split`: this one, unless scores are stored by split.

        `inputs.index` counts within a split, so that a method which looks examples up needs the split as well.
        """
        return self

    def attribute(
        self, model: Classifier, inputs: TextInputs, targets: Tensor, target_mask: Tensor | None = None
    ) -> Attribution:
        """Returns the detached float32 Attribution of `model` for `targets` [B, K], leaving the model as it was.

        Scores are 0 at padding and in rows where `target_mask` [B, K] is False; special tokens keep theirs. Examples
        and columns without a class to explain cost nothing, and targets outside `target_mask` may be anything.

        Raises:
            ValueError: a target is outside the model's classes, or a score is not finite (the example is named).
        """
        if target_mask is None:
            target_mask = torch.ones_like(targets, dtype=torch.bool)
        asked = targets[target_mask]
        if asked.numel() and not 0 <= int(asked.min()) <= int(asked.max()) < model.num_classes:
            raise ValueError(
                f"targets range from {int(asked.min())} to {int(asked.max())}, but the model has "
                f"{model.num_classes} classes: pass class ids from 0 to {model.num_classes - 1}"
            )
        with explaining(model, inputs.device.type):
            inputs = inputs.map(torch.clone)  # tensors born in inference mode cannot enter a graph
            targets, target_mask = targets.clone(), target_mask.clone()
            scores = torch.zeros(*targets.shape, inputs.input_ids.shape[1], device=inputs.device)
            rows, columns = (target_mask.any(dim=dim).nonzero().flatten() for dim in (1, 0))
            if len(rows):
                # padding repeats the example's first class, so that only classes asked for are computed
                first = targets.gather(1, target_mask.int().argmax(dim=1, keepdim=True))
                filled = targets.where(target_mask, first)[rows][:, columns]
                scores[rows.unsqueeze(1), columns] = self.scores(model, inputs[rows], filled).detach().float()
            scores = scores.masked_fill(~inputs.attention_mask.unsqueeze(1), 0.0)
            scores = scores.masked_fill(~target_mask.unsqueeze(-1), 0.0)
        finite = scores.isfinite().flatten(1).all(dim=1)
        if not finite.all():
            rows = (~finite).nonzero().flatten()
            named = rows if inputs.index is None else inputs.index[rows]
            raise ValueError(
                f"{type(self).__name__} gave non-finite scores for examples {named.tolist()}: check the model's "
                "weights for overflow, or explain in float32"
            )
        return Attribution(scores, targets, target_mask, inputs.token_mask)


class DifferentiableAttribution(AttributionMethod):
    """A method whose scores can enter a loss: with `create_graph` they reach the encoder's weights."""

    @abstractmethod
    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        """Returns scores [B, K, T]; with `create_graph` a loss on them has gradients for the model's weights."""
