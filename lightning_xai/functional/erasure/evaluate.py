"""Functions that evaluate erased inputs. Some of them can also evaluate many versions of a text together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.gradients.target_gradients import EmbeddingModel
from lightning_xai.types import Predict, TextInputs

Output = Literal["logit", "probability"]


class Evaluate(Protocol):
    """A function that maps erased inputs to outputs, such as logits or probabilities.

    Example:
        >>> def number_of_tokens(inputs, embed_mask=None):
        ...     return inputs.attention_mask.sum(dim=1, keepdim=True)
        >>> number_of_tokens(TextInputs.of_ids([[5, 6, 7], [5]])).tolist()
        [[3], [1]]
    """

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns outputs [B, C]. Embeddings are set to zero where `embed_mask` [B, T] is False."""
        ...


class ExplainedModel(EmbeddingModel, Protocol):
    """The interface of a classifier that can be explained by erasing tokens: an `EmbeddingModel` with probabilities.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> random_bert().probabilities(torch.tensor([[0.0, 0.0]]))
        tensor([[0.5000, 0.5000]])
    """

    num_classes: int
    multilabel: bool

    def probabilities(self, logits: Tensor) -> Tensor:
        """Returns the probabilities [B, C] for logits [B, C]."""
        ...

    def predict(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns the probabilities [B, C]. Embeddings are set to zero where `embed_mask` [B, T] is False."""
        ...


class Versions(NamedTuple):
    """R versions of B texts. Each version belongs to one text and keeps some of its tokens.

    Example:
        >>> versions = Versions(torch.tensor([0, 0]), torch.tensor([[True, False], [False, True]]))
        >>> versions.keep[1].tolist()  # the second version of text 0 keeps the second token
        [False, True]
    """

    example: Tensor  # [R] long, the row of each version's text in the batch
    # [R, T] bool, True at kept tokens. Tokens outside `token_mask` always stay. Only `predict_erased` and
    # `predict_zero_embeddings` take [R, J, T]: R rows of J versions, where all versions of a row belong to one text
    keep: Tensor


class ForVersions(Protocol):
    """A function that evaluates many versions of texts together, with gradients off.

    Example:
        >>> def first_kept(inputs, versions, classes, *, erasure, pad_id, chunk_size=None):
        ...     return versions.keep.int().argmax(dim=1, keepdim=True).expand(classes.shape)
        >>> versions = Versions(torch.tensor([0]), torch.tensor([[False, True]]))
        >>> first_kept(TextInputs.of_ids([[5, 6]]), versions, torch.tensor([[3, 4]]), erasure="mask", pad_id=0).tolist()
        [[1, 1]]
    """

    def __call__(
        self,
        inputs: TextInputs,
        versions: Versions,
        classes: Tensor,
        *,
        erasure: Erasure,
        pad_id: int,
        chunk_size: int | None = None,
    ) -> Tensor | None:
        """Returns the outputs [R, K] of the versions, or None if each version must be evaluated as a separate text.

        Args:
            inputs: B unerased inputs.
            versions: R versions, at least one.
            classes: [R, K] long, the classes of each version, on the CPU.
            erasure: how tokens are erased, see `erase`.
            pad_id: id of the padding token.
            chunk_size: a forward pass gets at most as many tokens as `chunk_size` texts; None lets the device decide.
        """
        ...


class WithVersions:
    """An `Evaluate` or `Predict` function whose attribute `for_versions` evaluates many versions of texts together.

    Args:
        evaluate: function that maps erased inputs to outputs.
        for_versions: function that evaluates many versions together, see `ForVersions`.

    Example:
        >>> evaluate = WithVersions(lambda inputs, embed_mask=None: inputs.input_ids, lambda *_, **__: None)
        >>> evaluate(TextInputs.of_ids([[5, 6]])).tolist(), for_versions_of(evaluate) is not None
        ([[5, 6]], True)
    """

    def __init__(self, evaluate: Evaluate | Predict, for_versions: ForVersions) -> None:
        self._evaluate = evaluate
        self.for_versions = for_versions

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns outputs [B, C]. Embeddings are set to zero where `embed_mask` [B, T] is False."""
        return self._evaluate(inputs, embed_mask)


def for_versions_of(evaluate: Evaluate | Predict) -> ForVersions | None:
    """Returns the attribute `for_versions` of `evaluate`, or None if `evaluate` has no such attribute.

    Example:
        >>> for_versions_of(lambda inputs, embed_mask=None: inputs.input_ids) is None
        True
    """
    return getattr(evaluate, "for_versions", None)


def logits_of(model: EmbeddingModel) -> Evaluate:
    """Returns a function that maps erased inputs to the logits [B, C] of a model.

    If the model has a method `version_logits`, this method becomes the attribute `for_versions` of the function.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[5, 6]])
        >>> torch.equal(logits_of(model)(inputs), model(inputs).logits)
        True
    """

    def evaluate(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        embeds = None if embed_mask is None else model.embed(inputs) * embed_mask.unsqueeze(-1)
        return logits_only(model, inputs, embeds)

    entry: ForVersions | None = getattr(model, "version_logits", None)
    return evaluate if entry is None else WithVersions(evaluate, entry)


def outputs_of(model: ExplainedModel, output: Output) -> Evaluate:
    """Returns a function that maps erased inputs to a model's logits or probabilities [B, C], as `output` says.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> outputs_of(random_bert(), "probability")(TextInputs.of_ids([[5, 6]])).sum().round().item()
        1.0
    """
    logits = logits_of(model)
    return logits if output == "logit" else mapped(logits, model.probabilities, model)


def predict_of(model: ExplainedModel) -> Predict:
    """Returns the method `predict` of a classifier as a function.

    If the classifier has a method `version_logits`, the function has an attribute `for_versions`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> predict_of(random_bert())(TextInputs.of_ids([[5, 6]])).sum().round().item()
        1.0
    """
    entry = for_versions_of(outputs_of(model, "probability"))
    return model.predict if entry is None else WithVersions(model.predict, entry)


def mapped(evaluate: Evaluate, function: Callable[[Tensor], Tensor], model: ExplainedModel) -> Evaluate:
    """Returns a function that applies `function` to the outputs of `evaluate` and of `evaluate.for_versions`.

    Args:
        evaluate: a function that returns the logits of `model`.
        function: a function that maps logits to outputs, such as probabilities. If the model is multi-label, this
            function may get the logits of a subset of the classes.
        model: the classifier.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[5, 6]])
        >>> torch.equal(mapped(logits_of(model), torch.neg, model)(inputs), -model(inputs).logits)
        True
    """

    def whole(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        return function(evaluate(inputs, embed_mask))

    entry = for_versions_of(evaluate)
    if entry is None:
        return whole

    def for_versions(inputs: TextInputs, versions: Versions, classes: Tensor, **options: Any) -> Tensor | None:
        every = classes if model.multilabel else torch.arange(model.num_classes).expand(len(classes), -1)
        logits = entry(inputs, versions, every, **options)
        if logits is None:
            return None
        outputs = function(logits)
        return outputs if model.multilabel else outputs.gather(1, classes.to(outputs.device))

    return WithVersions(whole, for_versions)
