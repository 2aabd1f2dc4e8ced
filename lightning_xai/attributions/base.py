"""The interface of attribution methods, and the context in which they explain a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from lightning_xai.attributions.score_checks import require_finite, require_shape
from lightning_xai.functional.classes.class_outputs import class_columns, computes_by_class
from lightning_xai.functional.classes.targets import TargetPolicy
from lightning_xai.functional.network.modes import frozen
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import ForwardPass, Needs
from lightning_xai.models.pretrained.lora import merged_adapters
from lightning_xai.types import Attribution, Passes, TextInputs

SIGNED_POOLINGS = ("sum", "mean")  # ways to pool a token's D values into one score that may be negative


@contextmanager
def explaining(model: Classifier, device_type: str) -> Iterator[None]:
    """Context manager: puts `model` into eval mode, turns gradients on, and turns autocast and inference mode off.

    Parameters require no gradient within the context, because methods differentiate with respect to embeddings only.
    LoRA adapters are merged into the weights. All of this is undone afterwards.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model = random_bert().train()
        >>> with explaining(model, "cpu"):
        ...     print(model.training, model.embedding_matrix.requires_grad)
        False False
        >>> model.training, model.embedding_matrix.requires_grad
        (True, True)
    """
    with (
        torch.inference_mode(False),
        merged_adapters(model),
        frozen(model),
        torch.autocast(device_type, enabled=False),
    ):
        yield


class AttributionMethod(ABC):
    """The base class of attribution methods, which score every token of a text for each explained class.

    The constructor takes hyperparameters, never the network. A subclass defines `scores` and `passes`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> class TokenIds(AttributionMethod):
        ...     def scores(self, model, inputs, targets):
        ...         return inputs.input_ids.unsqueeze(1).expand(*targets.shape, -1)
        ...     def passes(self, num_tokens, num_targets):
        ...         return Passes(forward=0, backward=0)
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6]]), torch.tensor([[0, 1]])
        >>> TokenIds().attribute(random_bert(), inputs, targets).scores.tolist()
        [[[1.0, 5.0, 6.0], [1.0, 5.0, 6.0]]]
    """

    needs_attentions: bool = False  # True if scores need attention weights; callbacks then set up eager attention
    # True if an example may need fewer passes than `passes` returns, because equal texts are evaluated only once or
    # because classes share a backward pass
    passes_at_most: bool = False
    by_segment: bool = False  # whether the method may be wrapped in `BySegment`, which needs less memory for long texts

    @property
    def selected_on(self) -> str:
        """Name of the metric by which the scores were chosen from several candidates; "" if no metric chose them.

        "validation:NAME" means that a trained scorer gives the scores, and that its checkpoint was chosen by the metric
        NAME on the validation split. A method that contains another method returns the value of that method.

        Example:
            >>> from lightning_xai.attributions.gradient import Gradient
            >>> Gradient().selected_on
            ''
        """
        return next((part.selected_on for part in self.parts() if part.selected_on), "")

    @property
    def trained_weights(self) -> str:
        """Hash of the trained weights that the method itself has, such as those of a scorer; "" if it has none.

        A method that contains another method returns the value of that method.
        """
        return next((part.trained_weights for part in self.parts() if part.trained_weights), "")

    @property
    def has_sign(self) -> bool:
        """True if scores may be negative, as evidence against the class; False if no score is negative.

        The default is False if the method has an attribute `pooling` other than "sum" and "mean", otherwise True.

        Example:
            >>> from lightning_xai.attributions.gradient import Gradient
            >>> Gradient(pooling="sum").has_sign, Gradient(pooling="l2").has_sign
            (True, False)
        """
        return getattr(self, "pooling", "sum") in SIGNED_POOLINGS

    def parts(self) -> list[AttributionMethod]:
        """Returns the methods in this method's attributes, such as the method whose scores `Transformed` transforms."""
        return [value for value in vars(self).values() if isinstance(value, AttributionMethod)]

    @abstractmethod
    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns unnormalized scores [B, K, T] of all tokens. `targets` [B, K] holds the K classes of each text."""

    @abstractmethod
    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns how many forward and backward passes through the network one example needs.

        Args:
            num_tokens: number of explainable tokens in the example (True in `token_mask`); special tokens do not count.
            num_targets: number of classes that are explained for the example.
        """

    def settings(self) -> dict[str, Any]:
        """Returns the name of the method's class, and the method's public attributes that have JSON types.

        An attribute that is itself an AttributionMethod is replaced by the settings of that AttributionMethod.

        Example:
            >>> from lightning_xai.attributions.gradient import Gradient
            >>> Gradient(pooling="sum").settings()
            {'class': 'Gradient', 'pooling': 'sum'}
        """
        settings: dict[str, Any] = {"class": type(self).__name__}
        for name, value in sorted(vars(self).items()):
            if isinstance(value, AttributionMethod):
                settings[name] = value.settings()
            elif not name.startswith("_") and isinstance(value, str | int | float | bool | list | dict | None):
                settings[name] = value
        return settings

    def check_use(self, policy: TargetPolicy, longest: int) -> None:  # noqa: B027  # most methods explain everything
        """Raises ValueError if the method cannot explain a run's classes, or its longest text of `longest` tokens.

        `policy` says which classes of a text the run explains. By default, nothing is refused.
        """

    def for_split(self, split: str) -> AttributionMethod:
        """Returns the method that explains examples of `split`: `self`, unless the method reads stored scores.

        The index of an example is its row in its split, so stored scores can be found only if the split is known.
        """
        return self

    def for_preflight(self) -> AttributionMethod:
        """Returns the method for a preflight, which only looks for errors: `self`, or a copy with few steps or samples.

        Example:
            >>> from lightning_xai.attributions.integrated_gradients import IntegratedGradients
            >>> IntegratedGradients(num_steps=50).for_preflight().passes(8, 1).backward
            2
        """
        return self

    def attribute(
        self, model: Classifier, inputs: TextInputs, targets: Tensor, target_mask: Tensor | None = None
    ) -> Attribution:
        """Returns the Attribution, which holds the scores of all tokens for the classes in `targets` [B, K].

        Scores are detached and in float32. They are 0 at padding and where `target_mask` [B, K] is False; special
        tokens keep their scores. Targets where `target_mask` is False may be any number. Nothing is computed for rows
        and columns of `targets` in which `target_mask` is False everywhere. The model does not change.

        Raises:
            ValueError: a target is not one of the model's classes, `scores` returned no tensor of shape [B, K, T], or a
                score is not finite (the message gives the indices of the examples).
        """
        if target_mask is None:
            target_mask = torch.ones_like(targets, dtype=torch.bool)
        classes = targets[target_mask]
        if classes.numel() and not 0 <= int(classes.min()) <= int(classes.max()) < model.num_classes:
            raise ValueError(
                f"targets range from {int(classes.min())} to {int(classes.max())}, but the model has "
                f"{quantity(model.num_classes, 'class')}: pass class ids from 0 to {model.num_classes - 1}"
            )
        with explaining(model, inputs.device.type):
            inputs = inputs.map(torch.clone)  # copies, because autograd cannot use tensors from inference mode
            targets, target_mask = targets.clone(), target_mask.clone()
            scores = torch.zeros(*targets.shape, inputs.input_ids.shape[1], device=inputs.device)
            rows, columns = (target_mask.any(dim=dim).nonzero().flatten() for dim in (1, 0))
            if len(rows):
                # a target where the mask is False is replaced by the example's first valid target, so that no
                # additional class is computed
                first_class = targets.gather(1, target_mask.int().argmax(dim=1, keepdim=True))
                valid_targets = targets.where(target_mask, first_class)[rows][:, columns]
                given = self.scores(model, inputs[rows], valid_targets)
                require_shape(type(self).__name__, given, (*valid_targets.shape, inputs.input_ids.shape[1]))
                scores[rows.unsqueeze(1), columns] = given.detach().float()
            scores = scores.masked_fill(~inputs.attention_mask.unsqueeze(1), 0.0)
            scores = scores.masked_fill(~target_mask.unsqueeze(-1), 0.0)
        require_finite(type(self).__name__, scores, inputs.index)
        return Attribution(scores, targets, target_mask, inputs.token_mask)


class DifferentiableAttribution(AttributionMethod):
    """A method whose scores can be part of a loss, which then has gradients for the encoder's weights.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> class EmbeddingNorms(DifferentiableAttribution):
        ...     def scores(self, model, inputs, targets, *, create_graph=False):
        ...         with torch.set_grad_enabled(create_graph):
        ...             return model.embed(inputs).norm(dim=-1).unsqueeze(1).expand(*targets.shape, -1)
        ...     def passes(self, num_tokens, num_targets):
        ...         return Passes(forward=0, backward=0)
        >>> model, inputs, targets = random_bert(), TextInputs.of_ids([[1, 5, 6]]), torch.tensor([[0]])
        >>> EmbeddingNorms().scores(model, inputs, targets, create_graph=True).sum().backward()
        >>> model.embedding_matrix.grad.norm(dim=1).nonzero().flatten()  # each used token has a gradient
        tensor([1, 5, 6])
    """

    @property
    def shares_pass(self) -> bool:
        """Whether `from_pass` computes the scores from the given forward pass, and makes no other forward pass."""
        return False

    @abstractmethod
    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        """Returns scores [B, K, T]. With `create_graph`, a loss on the scores has gradients for the weights."""

    def needs(self, model: Classifier) -> Needs:
        """Returns what a forward pass of `model` must provide for `from_pass` if a loss is computed from the scores."""
        return Needs(own_attentions=self.needs_attentions)

    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        """Returns the scores [B, K, T] that `scores` would return, computed from a finished forward pass.

        This default implementation does not use the finished pass: it calls `scores`, which makes new passes.

        Args:
            forward_pass: a forward pass that provides what `needs` returns.
            targets: [B, K] long.
            create_graph: as in `scores`.
        """
        return self.scores(forward_pass.network, forward_pass.inputs, targets, create_graph=create_graph)


class OnePassAttribution(DifferentiableAttribution):
    """A differentiable method that needs only one forward pass. Several such methods can share a pass.

    A subclass defines `needs`, `from_pass` and `passes`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> class FirstAttention(OnePassAttribution):
        ...     needs_attentions = True
        ...     def needs(self, model):
        ...         return Needs(attentions=True)
        ...     def from_pass(self, forward_pass, targets, *, create_graph):
        ...         return forward_pass.output.attentions[0][:, 0, :1].expand(*targets.shape, -1)
        ...     def passes(self, num_tokens, num_targets):
        ...         return Passes(forward=1, backward=0)
        >>> model, inputs, targets = random_bert(), TextInputs.of_ids([[1, 5, 6]]), torch.tensor([[0]])
        >>> method = FirstAttention()
        >>> forward_pass = ForwardPass(model, inputs, method.needs(model), create_graph=False)
        >>> scores = method.from_pass(forward_pass, targets, create_graph=False)
        >>> torch.equal(scores, method.scores(model, inputs, targets))
        True
    """

    @property
    def shares_pass(self) -> bool:
        return True

    @abstractmethod
    def needs(self, model: Classifier) -> Needs:
        """Returns what a forward pass of `model` must provide for `from_pass` if a loss is computed from the scores."""

    @abstractmethod
    def from_pass(self, forward_pass: ForwardPass, targets: Tensor, *, create_graph: bool) -> Tensor:
        """Returns scores [B, K, T], computed from a finished forward pass.

        Args:
            forward_pass: a forward pass that provides what `needs` returns.
            targets: [B, K] long, indices of columns of `forward_pass.output.logits`. These are class ids if the forward
                pass computed the logits of all classes.
            create_graph: as in `scores`.
        """

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        needs = self.needs(model)
        needs = needs._replace(double_backward=needs.double_backward and create_graph)
        classes = targets if computes_by_class(model) else None
        forward_pass = ForwardPass(model, inputs, needs, create_graph=create_graph, shared=False, classes=classes)
        return self.from_pass(
            forward_pass, targets if classes is None else class_columns(targets), create_graph=create_graph
        )
