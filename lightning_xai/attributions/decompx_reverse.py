"""Computes DecompX's token scores by one backward pass through a network whose non-linear parts are frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lightning_xai.attributions.base import DifferentiableAttribution, explaining
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import class_columns, class_output
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, from_segments
from lightning_xai.functional.network.chunking import even_slices, rows_per_forward
from lightning_xai.functional.propagation.frozen_coefficients import FrozenCoefficients
from lightning_xai.functional.propagation.tracked import Tracked, track
from lightning_xai.functional.text.padding import right_padding_order, take_columns
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.types import Passes, TextInputs

Coefficients = Literal["detached", "differentiable"]


@contextmanager
def override_states(
    layer: EncoderLayer, states: Callable[[Tensor], Tensor], values: Callable[[Tracked], Tensor]
) -> Iterator[None]:
    """Context manager that replaces the input x of `layer` by `states(x)`.

    It also replaces the value vectors v of the layer's attention by `values(v)`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> with override_states(model.encoder_layers()[0], torch.zeros_like, lambda values: values):
        ...     first = model(inputs).logits
        ...     second = model(TextInputs.of_ids([[1, 7, 8, 2]])).logits
        >>> torch.equal(first, second)  # the first layer no longer sees the tokens
        True
    """

    def override_input(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        if args:
            return (states(args[0]), *args[1:]), kwargs
        return args, kwargs | {"hidden_states": states(kwargs["hidden_states"])}

    handles = [layer.module.register_forward_pre_hook(override_input, with_kwargs=True)]
    try:
        handles.append(layer.value.register_forward_hook(lambda _module, _args, output: values(output)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def parallel_gradients(
    logits: Tensor, targets: Tensor, sources: Sequence[Tensor], *, create_graph: bool = False
) -> Iterator[tuple[Tensor, ...]]:
    """Yields the gradients of target logits with respect to `sources`, for k columns of `targets` at a time.

    Each item has one tensor [k, ...] for each source. One backward pass serves k classes in parallel; a limit on the
    number of tokens determines k. The graph of `logits` is freed after the last backward pass unless `create_graph` is
    set.

    Args:
        logits: [B, C].
        targets: [B, K] long.
        sources: tensors of token vectors [..., D]; the dimensions before the last enumerate the tokens.
        create_graph: whether the gradients can be differentiated again.

    Example:
        >>> x = torch.tensor([[2.0]], requires_grad=True)
        >>> logits = torch.cat([x, x**2], dim=1)  # derivatives 1 and 2 x
        >>> [gradient.flatten().tolist() for (gradient,) in parallel_gradients(logits, torch.tensor([[0, 1]]), [x])]
        [[1.0, 4.0]]
    """
    target_sums = logits.gather(1, targets).sum(dim=0)
    num_targets = len(target_sums)
    num_tokens = sources[0].shape[:-1].numel()
    # a backward pass for k classes needs no more memory than a forward pass over k rows without a graph, so the
    # largest k is the number of rows that such a forward pass may have
    max_columns = rows_per_forward(None, num_tokens, logits.device, differentiated=False)
    for columns in even_slices(num_targets, max_columns):
        is_last = columns.stop == num_targets

        def pull_back(one_hot: Tensor, is_last: bool = is_last) -> tuple[Tensor, ...]:
            return torch.autograd.grad(
                target_sums, sources, one_hot, retain_graph=create_graph or not is_last, create_graph=create_graph
            )

        one_hots = torch.eye(num_targets, dtype=target_sums.dtype, device=target_sums.device)[columns]
        yield torch.func.vmap(pull_back)(one_hots)


class DecompXReverse(DifferentiableAttribution):
    """Scores tokens by their share of the class's logit, from one backward pass through a frozen, linear network.

    Attention probabilities, 1 / std of each normalization layer, and act(z) / z of each activation are frozen at their
    true values; in a gated unit (SwiGLU), act(gate) is frozen. The logit is then linear in the input x of the first
    layer, and the share of token i is x_i . d logit / d x_i. The scores of all tokens and `bias_scores` sum to the
    logit. Scores do not depend on the attention kernel; "sdpa" needs less memory, because it stores no T x T attention
    probabilities.

    DecompX gives the same scores with the bias rule "none" or "token". The other bias rules of DecompX are not
    available here.

    Passes: one forward pass, and at most one backward pass for each class. Classes share a backward pass, unless the
    text is long.

    Args:
        value_bias: True gives the value bias of the first layer to the token whose value vector contains this bias, as
            in the authors' code. False counts the value bias among the biases.
        coefficients: how scores are differentiated if they are part of a loss (create_graph). "detached" treats the
            frozen coefficients as constants, so queries and keys get no gradient. "differentiable" also differentiates
            the coefficients, which costs a second forward pass.

    Raises:
        ValueError: when scores are computed, this package does not know the architecture's layers, or the network
            calls a function without a linear rule (the message names the function).

    Reference: Modarressi et al. (2023), "DecompX: Explaining Transformers Decisions by Propagating Token
    Decomposition", arXiv 2306.02873, Section 3, including the classifier.
    Differs: the paper propagates a vector for each pair of tokens forward through the network, at the cost of O(N)
    forward passes for N tokens.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs, targets = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]]), torch.tensor([[0, 1]])
        >>> method = DecompXReverse()
        >>> shares = method.attribute(model, inputs, targets).scores.sum(dim=2)
        >>> torch.allclose(shares + method.bias_scores(model, inputs, targets), model(inputs).logits, atol=1e-4)
        True
    """

    passes_at_most = True

    def __init__(self, value_bias: bool = True, coefficients: Coefficients = "detached") -> None:
        require_choices({"coefficients": Coefficients}, {"coefficients": coefficients})
        self.value_bias = value_bias
        self.coefficients = coefficients

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        # without create_graph, no caller differentiates the scores, so the coefficients may be constants
        rules = FrozenCoefficients(detached=not create_graph or self.coefficients == "detached")
        layer = model.encoder_layers()[0]
        bias = layer.value.bias if self.value_bias else None
        factors: list[Tensor] = []  # input and value bias of the first layer; each is multiplied by its gradient
        sources: list[Tensor] = []  # the logits are differentiated with respect to these tensors

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

        with override_states(layer, states, values):
            logits = rules.linear(class_output(model, inputs, targets).logits)
        columns = []
        for gradients in parallel_gradients(logits, class_columns(targets), sources, create_graph=create_graph):
            products = [(factor * gradient).sum(-1) for factor, gradient in zip(factors, gradients, strict=True)]
            total = sum(products, torch.zeros_like(products[0]))
            columns.append(from_segments(total.movedim(0, -1), *inputs.input_ids.shape))  # [B, T, k]
        return self._in_given_order(torch.cat(columns, dim=-1).transpose(1, 2), inputs)

    @staticmethod
    def _in_given_order(scores: Tensor, inputs: TextInputs) -> Tensor:
        """Moves scores [B, K, T] from the network's columns, with padding on the right, to the columns of `inputs`."""
        order = right_padding_order(inputs.attention_mask)
        if order is None:
            return scores
        return take_columns(scores.transpose(1, 2), order.argsort(dim=1)).transpose(1, 2)

    def bias_scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns the contribution [B, K] of all biases together to the logit of each class in `targets` [B, K].

        This contribution is the logit that the frozen network returns if the input of its first layer is 0. If
        `value_bias` is True, the value bias of the first layer is also 0. One forward pass computes both this logit and
        the true logit.
        """
        rules = FrozenCoefficients(detached=True)
        with explaining(model, inputs.device.type), torch.no_grad():
            layer = model.encoder_layers()[0]
            bias = layer.value.bias if self.value_bias else None

            def values(output: Tracked) -> Tensor:
                if bias is None:
                    return output
                assert output.second_run is not None  # value vectors in the second run, in which the layer's input is 0
                return track(output.plain(), rules, output.second_run - bias)

            inputs, targets = inputs.map(torch.clone), targets.clone()
            with override_states(layer, lambda hidden: track(hidden, rules, torch.zeros_like(hidden)), values):
                return rules.linear(class_output(model, inputs, targets).logits)

    def needs(self, model: Classifier) -> Needs:
        return Needs(double_backward=True)  # the scores contain gradients, which a loss on the scores differentiates

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns an upper bound on the number of passes. Fewer are needed if classes share a backward pass."""
        return Passes(forward=1, backward=num_targets)
