"""Calls the algorithms of captum as attribution methods of this package."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.captum_algorithms import (
    ALGORITHMS,
    Algorithm,
    call_defaults,
    captum_class,
    check_algorithm,
)
from lightning_xai.attributions.captum_layers import EmbeddingInput, checked_layer, layer_states
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.gradients.path_gradients import Baseline, path_ends
from lightning_xai.functional.network.chunking import rows_per_forward
from lightning_xai.functional.scores.aggregation import Pooling, pool
from lightning_xai.functional.scores.completeness import DELTA_TOLERANCE, CompletenessCheck
from lightning_xai.functional.seeds import check_seed, example_generator, example_indices, global_seed
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

# this algorithm averages gradients over all dimensions after the second, so it needs states [B, D, T]
CHANNELS_FIRST = "LayerGradCam"
MOST_ORDERED = 8  # largest number of tokens for ShapleyValues, which tries every order (8! = 40,320)


def _columns(inputs: TextInputs, columns: Tensor) -> TextInputs:
    return inputs.map(lambda tensor: tensor[:, columns] if tensor.dim() > 1 else tensor)


class Captum(AttributionMethod):
    """Scores tokens by an algorithm from captum.

    Gradient algorithms explain the embeddings that `Classifier.embed` returns. Layer algorithms explain the output of a
    layer. Both give D values per token, which are then pooled. There are two exceptions: LayerGradCam gives one value
    per token, and of LayerFeatureAblation's D equal values per token, the first is taken. Perturbation algorithms
    replace the ids of explainable tokens by the fill token; special tokens and padding are never replaced. The
    explained output is the logit of a class. LayerActivation has no explained output, so all classes get the same
    scores. Algorithms that draw random numbers run one example at a time; the seed depends on the example's index.

    Passes: the passes that captum makes; the table in captum_algorithms.py gives their number.

    Args:
        algorithm: name of a class in captum.attr, with or without the prefix "captum.attr.".
        arguments: further arguments of the algorithm's constructor or of its method `attribute`, such as n_steps.
        wrapped: the algorithm whose scores NoiseTunnel averages over noisy inputs; None for other algorithms.
        layer: name of the layer that a layer algorithm explains, such as "transformer.bert.encoder.layer.0". The layer
            must return one state per token. If None, the embeddings are explained.
        pooling: how the D values of a token become one score (see `pool`). Perturbation algorithms, LayerGradCam and
            LayerFeatureAblation do not use it.
        baseline: "fill" replaces explainable tokens by the encoder's fill token; "zero" sets all embeddings to 0,
            except those of a prompt. Perturbation algorithms always use "fill".
        seed: seed of the random draws, at least 0.
        delta_tolerance: largest completeness error, in logits, that causes no warning; None for no check. Only
            algorithms for which captum computes this error (its convergence delta) are checked. An instance warns at
            most once.

    Raises:
        ValueError: this class cannot call the algorithm (the message says why), `wrapped` or `layer` does not suit the
            algorithm, or a name in `arguments` is not an argument of the algorithm.

    Reference: Kokhlikyan et al. (2020), "Captum: A unified and generic model interpretability library for PyTorch",
        arXiv 2009.07896.
    Differs: by default, captum's Saliency takes absolute values; here Saliency keeps the signs before pooling.

    Example:
        >>> from lightning_xai.attributions.input_x_gradient import InputXGradient
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs, targets = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]]), torch.tensor([[0, 1]])
        >>> scores = Captum("captum.attr.InputXGradient").attribute(model, inputs, targets).scores
        >>> torch.allclose(scores, InputXGradient(pooling="sum").attribute(model, inputs, targets).scores)
        True
    """

    def __init__(
        self,
        algorithm: str,
        arguments: dict[str, Any] | None = None,
        wrapped: str | None = None,
        layer: str | None = None,
        pooling: Pooling = "sum",
        baseline: Baseline = "fill",
        seed: int = 0,
        delta_tolerance: float | None = DELTA_TOLERANCE,
    ) -> None:
        self.algorithm = algorithm.removeprefix("captum.attr.")
        check_algorithm(self.algorithm)
        self.wrapped = wrapped and wrapped.removeprefix("captum.attr.")
        self._check_wrapped()
        require_choices({"pooling": Pooling, "baseline": Baseline}, {"pooling": pooling, "baseline": baseline})
        check_seed(seed)
        self.arguments = dict(arguments or {})
        self._options = call_defaults(self.algorithm)
        if self.wrapped:
            self._options |= call_defaults(self.wrapped)
        if unknown := sorted(set(self.arguments) - set(self._options)):
            known = ", ".join(self._options) or "none"
            raise ValueError(f"arguments.{unknown[0]} is not an argument of {self.algorithm}, which accepts: {known}")
        self._options |= self.arguments
        if layer is not None and (ALGORITHMS[self.algorithm].features != "layer" or self.algorithm == CHANNELS_FIRST):
            raise ValueError(f"layer is {layer!r}, but {self.algorithm} cannot explain a layer here: set layer to null")
        self.layer = layer
        self.pooling: Pooling = pooling
        self.baseline: Baseline = baseline
        self.seed = seed
        self.delta_tolerance = delta_tolerance
        remedy = "raise n_steps, or set delta_tolerance to null"
        self._completeness = CompletenessCheck(f"captum's {self.algorithm}", delta_tolerance, remedy)

    def _check_wrapped(self) -> None:
        if self.algorithm != "NoiseTunnel":
            if self.wrapped is not None:
                raise ValueError(f"wrapped is {self.wrapped!r}, but only NoiseTunnel wraps algorithms: remove wrapped")
            return
        choices = [name for name, known in ALGORITHMS.items() if known.features == "embeds" and name != "NoiseTunnel"]
        if self.wrapped not in choices:
            raise ValueError(f"wrapped is {self.wrapped!r}, but NoiseTunnel needs one of {', '.join(choices)}")

    @property
    def _known(self) -> Algorithm:
        return ALGORITHMS[self.algorithm]

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        if not num_tokens and self._known.features == "tokens":
            return Passes(forward=0, backward=0)
        forward, backward = self._known.count(num_tokens, self._options)
        if self.wrapped:
            points = ALGORITHMS[self.wrapped].count(num_tokens, self._options).backward
            forward, backward = forward * points, backward * points
        baseline = self.layer is not None and self._known.masks_tokens  # one pass gives the layer's states for it
        return Passes(forward * num_targets + baseline, backward * num_targets)

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        if self._known.takes_batches and self.layer is None:
            return self._explain_embeds(model, inputs, targets)
        scores = torch.zeros(*targets.shape, inputs.input_ids.shape[1], device=inputs.device)
        for row, index in enumerate(example_indices(inputs)):
            columns = inputs.attention_mask[row].nonzero().flatten()
            text = _columns(inputs[[row]], columns)
            scores[row][:, columns] = self._explain_text(model, text, targets[[row]], index)[0].to(scores.dtype)
        return scores

    def _explain_text(self, model: Classifier, text: TextInputs, targets: Tensor, index: int | None) -> Tensor:
        """Returns the scores [1, K, T] of one text without padding."""
        explain = self._explain_tokens if self._known.features == "tokens" else self._explain_embeds
        if not self._known.draws:
            return explain(model, text, targets)
        seed = int(example_generator(self.seed, index, self.algorithm).integers(2**31))
        parts = []
        for column in range(targets.shape[1]):
            with global_seed(seed):  # all classes see the same random numbers
                parts.append(explain(model, text, targets[:, [column]]))
        return torch.cat(parts, dim=1)

    def _explain_tokens(self, model: Classifier, text: TextInputs, targets: Tensor) -> Tensor:
        columns = text.token_mask[0].nonzero().flatten()
        scores = torch.zeros(*targets.shape, text.input_ids.shape[1], device=text.device)
        if not len(columns):
            return scores
        if self.algorithm == "ShapleyValues" and len(columns) > MOST_ORDERED:
            raise ValueError(
                f"ShapleyValues tries all orders of the tokens of a text, but a text has {len(columns)} tokens, more "
                f"than the limit of {MOST_ORDERED}: use ShapleyValueSampling"
            )

        @torch.no_grad()
        def logits(ids: Tensor) -> Tensor:  # `ids` are [R, number of explainable tokens]
            versions = text[[0] * len(ids)]
            input_ids = versions.input_ids.clone()
            input_ids[:, columns] = ids
            return model(replace(versions, input_ids=input_ids)).logits

        options = self._sized(len(text), text, differentiated=False)
        if self.algorithm == "Occlusion":
            options["sliding_window_shapes"] = (min(options["sliding_window_shapes"], len(columns)),)
        algorithm, options = self._build(self.algorithm, options, forward_func=logits)
        ids, baselines = text.input_ids[:, columns], text.baseline_ids[:, columns]
        for column, target in enumerate(targets[0].tolist()):
            given = algorithm.attribute(ids, baselines=baselines, target=target, **options)
            scores[:, column, columns] = given.to(scores.dtype)
        return scores

    def _explain_embeds(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        start, end = (embeds.detach() for embeds in path_ends(model, inputs, self.baseline))
        function = EmbeddingInput(model, inputs, channels_first=self.algorithm == CHANNELS_FIRST)
        with ExitStack() as stack:
            layer: nn.Module = function.layer
            if self.layer is not None:
                layer = stack.enter_context(checked_layer(model, self.layer, inputs.input_ids.shape[1]))
                if self._known.masks_tokens:
                    start = layer_states(function, layer, start, torch.arange(len(inputs), device=inputs.device))
            options = self._embeds_options(inputs, start)
            algorithm, options = self._build(self.algorithm, options, forward_func=function, layer=layer)
            parts = []
            for column in range(targets.shape[1]):
                target = {} if self.algorithm == "LayerActivation" else {"target": targets[:, column]}
                given = algorithm.attribute(end.clone().requires_grad_(), **target, **options)
                if self._known.is_complete:
                    given, delta = given
                    self._completeness(delta)
                parts.append(self._token_scores(given))
        return torch.stack(parts, dim=1)

    def _embeds_options(self, inputs: TextInputs, start: Tensor) -> dict[str, Any]:
        """Returns all options of the algorithm for B texts, whose baselines have the embeddings `start` [B, T, D]."""
        options = self._sized(len(inputs), inputs, differentiated=not self._known.masks_tokens)
        options["additional_forward_args"] = (torch.arange(len(inputs), device=inputs.device),)
        explaining = captum_class(self.wrapped or self.algorithm)
        takes = inspect.signature(explaining.attribute).parameters
        if "baselines" in takes:
            options["baselines"] = start
        if "abs" in takes:
            options["abs"] = False
        if self._known.masks_tokens:
            places = torch.where(inputs.token_mask, inputs.token_mask.cumsum(dim=1), 0)
            options |= {"layer_baselines": start, "layer_mask": places.unsqueeze(-1).expand_as(start)}
        if self._known.is_complete:
            options["return_convergence_delta"] = True
        return options

    def _token_scores(self, given: Any) -> Tensor:
        """Returns scores [B, T] from captum's result. The D values that most algorithms return per token are pooled."""
        values = given[0] if isinstance(given, tuple) else given
        if self.algorithm == CHANNELS_FIRST:
            return values.squeeze(1)
        if self._known.masks_tokens:
            return values[..., 0]  # the D values of a token are erased together, so they have the same score
        return pool(values, self.pooling)

    def _sized(self, num_texts: int, inputs: TextInputs, *, differentiated: bool) -> dict[str, Any]:
        """Returns the algorithm's options, with as many rows per forward pass as the user set or as suit the device."""
        rows = rows_per_forward(None, inputs.input_ids.shape[1], inputs.device, differentiated=differentiated)
        sizes = {"perturbations_per_eval": rows, "internal_batch_size": max(rows, num_texts)}
        chosen = {name: size for name, size in sizes.items() if name in self._options and name not in self.arguments}
        return self._options | chosen

    def _build(
        self, name: str, options: dict[str, Any], forward_func: Any, layer: nn.Module | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Returns an instance of the algorithm, and the options for its method `attribute`."""
        kind = captum_class(name)
        if name == "NoiseTunnel":
            assert self.wrapped is not None
            inner, rest = self._build(self.wrapped, options, forward_func)
            return kind(inner), rest
        names = set(inspect.signature(kind.__init__).parameters)
        given = {"layer": layer} if "layer" in names else {}
        algorithm = kind(forward_func, **given, **{key: options[key] for key in options if key in names})
        return algorithm, {key: options[key] for key in options if key not in names}
