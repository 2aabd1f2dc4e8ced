"""DecompX's token scores by one backward pass through the network with everything frozen that makes it non-linear."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lightning_xai.attributions.base import DifferentiableAttribution, explaining
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.chunking import even_slices, rows_per_forward
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, from_segments
from lightning_xai.functional.padding import right_padding_order, take_columns
from lightning_xai.functional.propagation.frozen_coefficients import FrozenCoefficients
from lightning_xai.functional.propagation.tracked import Tracked, track
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

Coefficients = Literal["detached", "differentiable"]


@contextmanager
def states_replaced(
    layer: EncoderLayer, states: Callable[[Tensor], Tensor], values: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Within the context `layer` gets `states(its input)`, and goes on with `values(its value vectors)`."""

    def replace_input(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        if args:
            return (states(args[0]), *args[1:]), kwargs
        return args, kwargs | {"hidden_states": states(kwargs["hidden_states"])}

    handles = [layer.module.register_forward_pre_hook(replace_input, with_kwargs=True)]
    try:
        handles.append(layer.value.register_forward_hook(lambda _module, _args, output: values(output)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def wide_gradients(
    logits: Tensor, targets: Tensor, sources: Sequence[Tensor], *, create_graph: bool = False
) -> Iterator[tuple[Tensor, ...]]:
    """Yields each source's gradients [k, ...] of the rows' target logits, for the next k columns of `targets` [B, K].

    One backward pass takes several classes beside each other, as many as a bound on tokens allows, which saves what
    they share. The graph of `logits` [B, C] is freed after the last one unless `create_graph`.
    """
    chosen = logits.gather(1, targets).sum(dim=0)
    num_targets = len(chosen)
    tokens = sources[0].shape[:-1].numel()
    # a backward pass keeps as little as a forward pass without a graph
    size = rows_per_forward(None, tokens, logits.device, differentiated=False)
    for some in even_slices(num_targets, size):
        is_last = some.stop == num_targets

        def pull_back(column: Tensor, is_last: bool = is_last) -> tuple[Tensor, ...]:
            return torch.autograd.grad(
                chosen, sources, column, retain_graph=create_graph or not is_last, create_graph=create_graph
            )

        columns = torch.eye(num_targets, dtype=chosen.dtype, device=chosen.device)[some]
        yield torch.func.vmap(pull_back)(columns)


class DecompXReverse(DifferentiableAttribution):
    """Scores tokens by what their vectors in the first layer's input add to the class's logit in the frozen network.

    Attention probabilities, each norm's 1 / std and each activation's act(z) / z are frozen at their true values; of a
    gated unit (SwiGLU) the activated factor is. The logit is then linear in the first layer's input x, and token i
    adds x_i . d logit / d x_i: one forward pass, and one backward pass for each class, at any length; classes share a
    wider one unless the text is long. Scores and `bias_scores` sum to the logit. The attention kernel changes no score;
    with "sdpa" no probabilities of T x T tokens are kept.

    These are the scores of DecompX with biases left out ("none") or given to a source of their own ("token"), which
    differ in `bias_scores` only. Rules that divide biases by the size of the decomposed vectors need the forward form.

    Args:
        value_bias: whether the first layer's value bias belongs to its token, as in the authors' code.
        coefficients: what a loss on the scores differentiates (with create_graph): "detached" takes the coefficients as
            constants, so that it does not reach queries and keys, "differentiable" goes through them and costs a
            second forward pass.

    Raises:
        ValueError: the architecture has no known layers, or a function in it has no linear rule (both are named).

    Reference: Modarressi et al. (2023), "DecompX: Explaining Transformers Decisions by Propagating Token
    Decomposition", arXiv 2306.02873, Section 3, with the classifier.
    Differs: the paper carries a vector for each pair of tokens forward, O(N) forward passes for N tokens.
    """

    passes_at_most = True

    def __init__(self, value_bias: bool = True, coefficients: Coefficients = "detached") -> None:
        require_choices({"coefficients": Coefficients}, {"coefficients": coefficients})
        self.value_bias = value_bias
        self.coefficients = coefficients

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        # without a graph, differentiable coefficients are constants all the same
        rules = FrozenCoefficients(detached=not create_graph or self.coefficients == "detached")
        layer = model.encoder_layers()[0]
        bias = layer.value.bias if self.value_bias else None
        factors: list[Tensor] = []  # what multiplies each gradient: the states, and the value bias
        sources: list[Tensor] = []  # what the logits are differentiated by

        def states(hidden: Tensor) -> Tensor:
            if rules.detached:
                source = hidden if create_graph and hidden.requires_grad else hidden.detach().requires_grad_()
                factors.append(source if create_graph else source.detach())
                sources.append(source)
                return track(source, rules)
            factors.append(hidden)
            sources.append(hidden.detach().requires_grad_())
            return track(hidden, rules, sources[-1])

        def values(output: Tracked) -> Tensor:
            if bias is None:
                return output
            factors.append(bias)
            sources.append(rules.linear(output))
            return track(sources[-1], rules) if output.second_run is None else output

        with states_replaced(layer, states, values):
            logits = rules.linear(model(inputs).logits)
        rows = []
        for gradients in wide_gradients(logits, targets, sources, create_graph=create_graph):
            row = sum((factor * gradient).sum(-1) for factor, gradient in zip(factors, gradients, strict=True))
            rows.append(from_segments(row.movedim(0, -1), *inputs.input_ids.shape))  # [B, T, k]
        return self._as_given(torch.cat(rows, dim=-1).transpose(1, 2), inputs)

    @staticmethod
    def _as_given(scores: Tensor, inputs: TextInputs) -> Tensor:
        """Returns scores [B, K, T] in the caller's order of columns: the network has padding moved to the right."""
        order = right_padding_order(inputs.attention_mask)
        if order is None:
            return scores
        return take_columns(scores.transpose(1, 2), order.argsort(dim=1)).transpose(1, 2)

    def bias_scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns what all biases together add to the logits of `targets` [B, K]: [B, K], in logits.

        It is the frozen network's output for a first layer's input of zeros, found by a second run in one forward pass.
        """
        layer = model.encoder_layers()[0]
        rules = FrozenCoefficients(detached=True)
        bias = layer.value.bias if self.value_bias else None

        def values(output: Tracked) -> Tensor:
            return output if bias is None else track(output.plain(), rules, output.second_run - bias)

        with explaining(model, inputs.device.type), torch.no_grad():
            inputs, targets = inputs.map(torch.clone), targets.clone()
            with states_replaced(layer, lambda hidden: track(hidden, rules, torch.zeros_like(hidden)), values):
                return rules.linear(model(inputs).logits).gather(1, targets)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=num_targets)
