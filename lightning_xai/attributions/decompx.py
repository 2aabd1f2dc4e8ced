"""DecompX: divides each logit among the tokens, by propagating one vector for each token through the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import encoder_attentions, target_rows
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import class_columns, class_output
from lightning_xai.functional.decomposition.bias_shares import BiasRule
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, check_head, trace_layers
from lightning_xai.functional.decomposition.frozen_activation import Approximation
from lightning_xai.functional.decomposition.frozen_layer import FeedForward, FrozenLayer, freeze_layer
from lightning_xai.functional.decomposition.source_sums import (
    Attended,
    SourceSums,
    decompose_head,
    decompose_layer,
    decompose_mixtures,
    mixtures_suffice,
)
from lightning_xai.functional.network.modes import graph_or_float32
from lightning_xai.models.base import Classifier
from lightning_xai.types import ClassifierOutput, Passes, TextInputs

FeedForwardChoice = Literal["decomposed", "left_out"]
Score = Literal["logit", "norm"]


@dataclass(frozen=True)
class DecompositionRules:
    """Rules that divide biases and non-linear functions among source tokens. The docstring of `DecompX` explains them.

    Example:
        >>> DecompositionRules(bias="norm").feed_forward
        'zero_origin'
    """

    bias: BiasRule = "absdot"
    feed_forward: FeedForward = "zero_origin"  # linear approximation of the activation; "none" omits the block
    head_activation: Approximation = "zero_origin"  # linear approximation of the head's activation
    chunk_size: int = 4  # number of source tokens that go through a layer at the same time


def text_segments(output: ClassifierOutput, row: int, num_tokens: int) -> Iterator[tuple[slice, ClassifierOutput]]:
    """Yields, for each segment of one text, the segment's columns and the network's output for the segment alone.

    Args:
        output: the result of a forward pass with attentions and hidden states.
        row: the text's row in the batch.
        num_tokens: number of the text's tokens; later columns are padding.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2], [1, 5, 2]])
        >>> output = random_bert()(inputs, output_attentions=True, output_hidden_states=True)
        >>> ((columns, segment),) = text_segments(output, row=1, num_tokens=3)
        >>> columns, segment.hidden_states[0].shape
        (slice(0, 3, None), torch.Size([1, 3, 4]))
    """
    attentions, hidden_states = encoder_attentions(output), output.hidden_states
    assert hidden_states is not None
    size, segments_per_text = attentions[0].shape[-1], attentions[0].shape[0] // len(output.logits)
    for number, start in enumerate(range(0, num_tokens, size)):
        columns = slice(start, min(start + size, num_tokens))
        length, segment = columns.stop - start, row * segments_per_text + number
        yield (
            columns,
            ClassifierOutput(
                logits=output.logits[row : row + 1],
                readout=output.readout[row : row + 1, :, columns],
                attentions=tuple(attention[segment : segment + 1, :, :length, :length] for attention in attentions),
                hidden_states=tuple(states[row : row + 1, columns] for states in hidden_states),
            ),
        )


def decompose_segment(
    layers: Sequence[EncoderLayer], output: ClassifierOutput, readout: Tensor, rules: DecompositionRules
) -> tuple[Tensor, Tensor]:
    """Divides R states, which are weighted sums of a segment's token states, among the S tokens of the segment.

    Returns vectors [R, S, D], one per state and token, and states [R, D]. A state is the sum of its vectors, unless
    `rules` drop biases (`bias` "none"), omit the feed-forward blocks or use "relu". With the bias rule "token", the
    vectors are [R, S + 1, D]; the last vector of each state stands for all biases.

    Args:
        layers: the network's first layers, or all of them. The states after the last of these layers are decomposed.
        output: the result of a forward pass on one segment without padding, with attentions and hidden states.
        readout: [R, S], weights. State r is the sum of the token states, weighted by row r.
        rules: how biases and non-linear functions are divided.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> vectors, states = decompose_segment(model.encoder_layers(), output, torch.eye(4), DecompositionRules())
        >>> torch.allclose(vectors.sum(dim=1), states, atol=1e-4)
        True
        >>> torch.allclose(states, output.hidden_states[1][0], atol=1e-4)
        True
    """
    num_tokens, hidden_states = readout.shape[1], output.hidden_states
    assert hidden_states is not None
    not_padding = torch.ones(1, num_tokens, dtype=torch.bool, device=readout.device)
    all_rows = torch.arange(num_tokens, device=readout.device)
    read_rows = all_rows[(readout != 0).any(dim=0)]
    scratch = None
    if rules.feed_forward != "none" and not torch.is_grad_enabled():
        widest = max(parts.up.out_features for parts in layers)
        scratch = hidden_states[0].new_empty(num_tokens * rules.chunk_size * widest)
    states: SourceSums | list[Tensor] | None = None
    for place, (parts, trace) in enumerate(zip(layers, trace_layers(layers, output, not_padding), strict=True)):
        rows = read_rows if place == len(layers) - 1 else all_rows
        layer = freeze_layer(parts, trace, rows, is_first=place == 0, feed_forward=rules.feed_forward, scratch=scratch)
        attended: Attended
        if states is None:
            attended = _attend_from_tokens(layer, rules)
        elif isinstance(states, list):
            attended = map(layer.attend_to_mixtures, states)
        else:
            attended = map(layer.attend, states.chunks())
        if place == len(layers) - 2 and mixtures_suffice(layer, layers[-1], rules.bias, len(read_rows)):
            unmixed = F.one_hot(read_rows, num_tokens).to(trace.hidden.dtype)
            weights = torch.cat([*encoder_attentions(output)[place + 1][0][:, read_rows], unmixed])
            states = decompose_mixtures(layer, attended, rules.bias, weights)
        else:
            states = decompose_layer(layer, attended, rules.bias)
    assert isinstance(states, SourceSums)
    weights = readout[:, rows].to(trace.output.dtype)
    read = [(weights @ chunk.flatten(1)).view(len(weights), *chunk.shape[1:]) for chunk in states.chunks()]
    return torch.cat(read, dim=1), weights @ trace.output[0, rows]


def _attend_from_tokens(layer: FrozenLayer, rules: DecompositionRules) -> Attended:
    """Yields the first layer's attention output, divided among source tokens, one chunk of source tokens at a time."""
    num_tokens, size = len(layer.hidden), layer.hidden.shape[-1]
    for start in range(0, num_tokens, rules.chunk_size):
        yield layer.attend_to_tokens(slice(start, min(start + rules.chunk_size, num_tokens)))
    if rules.bias == "token":  # zeros for one more source, which is not a token and later gets all biases
        yield layer.hidden.new_zeros(len(layer.rows), 1, size), None


def decompose_text(
    layers: Sequence[EncoderLayer],
    head: Sequence[Callable[[Tensor], Tensor]],
    output: ClassifierOutput,
    row: int,
    readout: Tensor,
    logits: Tensor,
    rules: DecompositionRules,
) -> tuple[Tensor, Tensor]:
    """Divides the logits, and the R states that the classification head reads, among T tokens.

    Returns vectors [R, T, D] and shares [R, T, C or 1], which sum to the states and the logits (with the exceptions of
    `decompose_segment`). With the bias rule "token", there are T + 1 vectors and shares, the last for all biases.

    Args:
        layers: all layers of the encoder.
        head: the layers of the classification head.
        output: the result of a forward pass with attentions and hidden states.
        row: the text's row in the batch.
        readout: [R, T], weights without padding. State r is the sum of the token states, weighted by row r.
        logits: [C] logits of the text, or [R] logits if each of the R states belongs to a different class.
        rules: how biases and non-linear functions are divided.

    Raises:
        ValueError: the layers `head` do not map the states to `logits`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> layers, head, rules = model.encoder_layers(), model.head_layers(), DecompositionRules()
        >>> _, shares = decompose_text(layers, head, output, 0, output.readout[0], output.logits[0], rules)
        >>> torch.allclose(shares.sum(dim=1), output.logits, atol=1e-4)
        True
    """
    parts, pooled = [], []
    for columns, segment in text_segments(output, row, readout.shape[1]):
        part, state = decompose_segment(layers, segment, readout[:, columns], rules)
        parts.append(part)
        pooled.append(state)
    if rules.bias == "token":  # each segment's last vector stands for its biases; these vectors are added
        bias_vectors = [part[:, -1:] for part in parts]
        parts = [*(part[:, :-1] for part in parts), sum(bias_vectors, torch.zeros_like(bias_vectors[0]))]
    vectors, states = torch.cat(parts, dim=1), sum(pooled, torch.zeros_like(pooled[0]))
    check_head(head, states.unsqueeze(0), logits.unsqueeze(0))
    return vectors, decompose_head(head, vectors, states, rule=rules.bias, activation=rules.head_activation)


class DecompX(DifferentiableAttribution):
    """Scores a token by its share of the class's logit, found by propagating one vector per token through the network.

    From the input of the first layer on, every state is a sum of vectors, one for each token. (This input follows the
    LayerNorm of the embeddings, whatever the model's setting `embedding` is.) Attention probabilities, standard
    deviations in normalization layers, slopes of activations and activation(gate) in gated feed-forward blocks are
    frozen at their true values. The network is then linear except for biases, which are divided among the tokens.

    Scores of all tokens, special tokens included, sum to the logit, with four exceptions: `bias` is "token" or "none"
    (scores then leave biases out), `activation` is "relu", `feed_forward` is "left_out", or `score` is "norm".

    Passes: one forward pass for all classes. Time and memory grow with the square of the number S of tokens in a text
    (or in a segment, if the model divides texts): S^2 D numbers are stored, and more while a layer is computed.

    Args:
        bias: how a bias b is divided. The share of a token with the vector x is proportional to |x . b| ("absdot"), to
            the absolute cosine of x and b ("abssim"), or to |x| ("norm"). "equal" gives equal shares. "cls" gives b to
            the first token, "token" gives it to an extra source that is not a token, and "none" drops it. In the first
            layer, the value bias always belongs to the token whose value vector contains it.
        activation: the line that replaces an activation at its true input z. "zero_origin" is the line through (0, 0)
            and (z, activation(z)). "local_affine" is the tangent at z, whose intercept counts as a bias. "relu" has
            slope 1 for z > 0 and slope 0 otherwise; the classification head then uses "zero_origin".
        feed_forward: "decomposed" divides the output of the feed-forward blocks among the tokens. "left_out" omits
            these blocks, but norms keep their true standard deviations.
        score: "logit" is the token's share of the logit. "norm" is the length of the token's vector in the state that
            the classification head reads; it is the same for all classes, unless the head reads one state per class.
        chunk_size: number of source tokens that go through a layer at the same time. Scores do not depend on it.

    Reference: Modarressi et al. (2023), "DecompX: Explaining Transformers Decisions by Propagating Token
    Decomposition", arXiv 2306.02873, Section 3.
    Differs: with the bias rule "token", the published code finally divides the biases' share of the logit among the
    tokens by the rule "absdot"; here, this share belongs to no token.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> scores = DecompX().attribute(model, inputs, torch.tensor([[0, 1]])).scores
        >>> torch.allclose(scores.sum(dim=2), model(inputs).logits, atol=1e-4)
        True
    """

    needs_attentions = True

    def __init__(
        self,
        bias: BiasRule = "absdot",
        activation: Approximation = "zero_origin",
        feed_forward: FeedForwardChoice = "decomposed",
        score: Score = "logit",
        chunk_size: int = 4,
    ) -> None:
        require_choices(
            {"bias": BiasRule, "activation": Approximation, "feed_forward": FeedForwardChoice, "score": Score},
            {"bias": bias, "activation": activation, "feed_forward": feed_forward, "score": score},
        )
        if chunk_size < 1:
            raise ValueError(f"chunk_size is {chunk_size}: give at least 1 source token")
        self.bias: BiasRule = bias
        self.activation: Approximation = activation
        self.feed_forward = feed_forward
        self.score = score
        self.chunk_size = chunk_size

    def _rules(self) -> DecompositionRules:
        return DecompositionRules(
            bias=self.bias,
            feed_forward=self.activation if self.feed_forward == "decomposed" else "none",
            head_activation="zero_origin" if self.activation == "relu" else self.activation,
            chunk_size=self.chunk_size,
        )

    @property
    def has_sign(self) -> bool:
        return self.score == "logit"

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        with graph_or_float32(inputs.device.type, create_graph=create_graph):
            shown: Any = {"output_attentions": True, "output_hidden_states": True}
            by_class = model.readout_is_attention
            output = class_output(model, inputs, targets, **shown) if by_class else model(inputs, **shown)
            layers, head = model.encoder_layers(), model.head_layers()
            rows = []
            for row, length in enumerate(inputs.attention_mask.sum(dim=1).tolist()):
                readout, logits = output.readout[row : row + 1, :, :length], output.logits[row]
                if by_class:
                    readout = target_rows(readout, class_columns(targets[row : row + 1]))
                vectors, shares = decompose_text(layers, head, output, row, readout[0], logits, self._rules())
                if self.score == "norm":
                    scores = torch.linalg.vector_norm(vectors, dim=-1).expand(targets.shape[1], -1)
                elif by_class:
                    scores = shares[..., 0]
                else:
                    scores = shares[0][:, targets[row]].T
                rows.append(F.pad(scores[:, :length], (0, inputs.input_ids.shape[1] - length)))
        return torch.stack(rows)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
