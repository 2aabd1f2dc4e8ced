"""Logits as sums over tokens, whose vectors are carried through the whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import encoder_attentions, target_rows
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.decomposition.bias_shares import BiasRule
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, check_head, trace_layers
from lightning_xai.functional.decomposition.frozen_activation import Approximation
from lightning_xai.functional.decomposition.frozen_layer import FeedForward, freeze_layer
from lightning_xai.functional.decomposition.source_sums import (
    decompose_head,
    decompose_layer,
    decompose_mixtures,
    mixtures_suffice,
)
from lightning_xai.models.base import Classifier
from lightning_xai.types import ClassifierOutput, Passes, TextInputs

Score = Literal["logit", "norm"]


def segments(output: ClassifierOutput, row: int, num_tokens: int) -> Iterator[tuple[slice, ClassifierOutput]]:
    """Yields the columns of each segment of one text, without padding, and what the network gave for it alone.

    Args:
        row: the text's place in the batch.
        num_tokens: its length; padding follows.
    """
    attentions = encoder_attentions(output)
    size, per_text = attentions[0].shape[-1], attentions[0].shape[0] // len(output.logits)
    for place, first in enumerate(range(0, num_tokens, size)):
        columns = slice(first, min(first + size, num_tokens))
        length, at = columns.stop - first, row * per_text + place
        yield (
            columns,
            ClassifierOutput(
                logits=output.logits[row : row + 1],
                readout=output.readout[row : row + 1, :, columns],
                attentions=tuple(attention[at : at + 1, :, :length, :length] for attention in attentions),
                hidden_states=tuple(states[row : row + 1, columns] for states in output.hidden_states),
            ),
        )


def decompose_segment(
    layers: Sequence[EncoderLayer],
    output: ClassifierOutput,
    readout: Tensor,
    *,
    bias: BiasRule = "absdot",
    feed_forward: FeedForward = "zero_origin",
    chunk_size: int = 4,
) -> tuple[Tensor, Tensor]:
    """Returns vectors [R, S, D] of the S tokens of one segment, and the states [R, D] that they sum to.

    Args:
        layers: of the network that gave `output`; with fewer of them, states after the last of these are decomposed.
        output: of one segment without padding, with attentions and hidden states.
        readout: [R, S] weights with which states after the last layer are read.
        bias: "token" adds a source, the last, that has all biases.
        chunk_size: sources at a time.
    """
    length = readout.shape[1]
    real = torch.ones(1, length, dtype=torch.bool, device=readout.device)
    every = torch.arange(length, device=readout.device)
    last = every[(readout != 0).any(dim=0)]
    scratch, states = None, None
    if feed_forward != "none" and not torch.is_grad_enabled():
        widest = max(parts.up.out_features for parts in layers)
        scratch = output.hidden_states[0].new_empty(length * chunk_size * widest)
    for place, (parts, trace) in enumerate(zip(layers, trace_layers(layers, output, real), strict=True)):
        rows = last if place == len(layers) - 1 else every
        layer = freeze_layer(parts, trace, rows, is_first=place == 0, feed_forward=feed_forward, scratch=scratch)
        if states is None:
            starts = range(0, length, chunk_size)
            attended = (layer.attend_to_tokens(slice(start, min(start + chunk_size, length))) for start in starts)
            if bias == "token":
                attended = chain(attended, [(trace.hidden.new_zeros(len(rows), 1, trace.hidden.shape[-1]), None)])
        elif isinstance(states, list):
            attended = map(layer.attend_to_mixtures, states)
        else:
            attended = map(layer.attend, states.chunks())
        if place == len(layers) - 2 and mixtures_suffice(layer, layers[-1], bias, len(last)):
            unmixed = F.one_hot(last, length).to(trace.hidden.dtype)
            weights = torch.cat([*output.attentions[place + 1][0][:, last], unmixed])
            states = decompose_mixtures(layer, attended, bias, weights)
        else:
            states = decompose_layer(layer, attended, bias)
    weights = readout[:, rows].to(trace.output.dtype)
    read = [(weights @ chunk.flatten(1)).view(len(weights), *chunk.shape[1:]) for chunk in states.chunks()]
    return torch.cat(read, dim=1), weights @ trace.output[0, rows]


def decompose_text(
    layers: Sequence[EncoderLayer],
    head: Sequence[Callable[[Tensor], Tensor]],
    output: ClassifierOutput,
    row: int,
    readout: Tensor,
    logits: Tensor,
    *,
    bias: BiasRule = "absdot",
    activation: Approximation = "zero_origin",
    feed_forward: FeedForward = "zero_origin",
    chunk_size: int = 4,
) -> tuple[Tensor, Tensor]:
    """Returns the vectors [R, T, D] that the head reads of each token of a text, and their outputs [R, T, C or 1].

    Args:
        row: the text's place in the batch.
        readout: [R, T] weights with which the head reads token states, without padding.
        logits: [C] of the text, or [R] if every row reads for a class of its own; the head has to give them.
        bias: "token" adds a source, the last, that has all biases.
    """
    vectors, states, extra = [], 0, 0
    for columns, segment in segments(output, row, readout.shape[1]):
        part, read = decompose_segment(
            layers, segment, readout[:, columns], bias=bias, feed_forward=feed_forward, chunk_size=chunk_size
        )
        if bias == "token":  # segments are sources of their own, but what is left to biases is one
            part, extra = part[:, :-1], extra + part[:, -1:]
        vectors.append(part)
        states = states + read
    vectors = torch.cat([*vectors, extra] if bias == "token" else vectors, dim=1)
    check_head(head, states.unsqueeze(0), logits.unsqueeze(0))
    return vectors, decompose_head(head, vectors, states, rule=bias, activation=activation)


class DecompX(DifferentiableAttribution):
    """Scores a token by what its vector, carried through the whole network, adds to the class's logit.

    States are sums of one vector for each token, from the input of the first layer on (after the embedding's LayerNorm,
    whatever `embedding` of the model is). Attention probabilities, standard deviations of norms and slopes of
    activations are constants at their true values; so is activation(gate) of gated feed-forward blocks. What remains is
    linear but for biases, which are shared out among the tokens. Signed scores of all tokens, special ones included,
    sum to the logit for the rules that keep biases ("token" and "none" do not), unless `activation` is "relu" or the
    feed-forward blocks are left out.

    Padding takes no part. A text's cost grows with the square of its length (of a segment's where the model segments):
    R^2 D numbers of a segment of R tokens are held at a time, beside `chunk_size` sources on their way through a layer.

    Args:
        bias: shares of the tokens in each bias: by the size of the bias's product with their vectors ("absdot"), of its
            cosine ("abssim"), of the vectors ("norm"), alike ("equal"), all to the first token ("cls"), all to a source
            of its own that is no token ("token"), or nothing to anyone ("none"). The value bias of the first layer
            belongs to the tokens that have it.
        activation: what stands for an activation: the line through the origin and its true value ("zero_origin"), its
            tangent, whose intercept is one more bias ("local_affine"), or 1 above zero and 0 below ("relu"; the head
            keeps "zero_origin").
        feed_forward: "left_out" goes past the feed-forward blocks, to whose true outputs LayerNorm still refers.
        score: "logit" scores by the part of the logit; "norm" by the length of the token's vector in the state that
            the head reads, the same for every class unless classes read for themselves.
        chunk_size: sources on their way through a layer at a time. Results do not depend on it.

    Reference: Modarressi et al. (2023), "DecompX: Explaining Transformers Decisions by Propagating Token
    Decomposition", arXiv 2306.02873, section 3.
    Differs: with its bias token the published code hands that token's logits out by "absdot" in the end; here they are
    left out.
    """

    needs_attentions = True

    def __init__(
        self,
        bias: BiasRule = "absdot",
        activation: Approximation = "zero_origin",
        feed_forward: Literal["decomposed", "left_out"] = "decomposed",
        score: Score = "logit",
        chunk_size: int = 4,
    ) -> None:
        require_choices(
            {
                "bias": BiasRule,
                "activation": Approximation,
                "feed_forward": Literal["decomposed", "left_out"],
                "score": Score,
            },
            {"bias": bias, "activation": activation, "feed_forward": feed_forward, "score": score},
        )
        if chunk_size < 1:
            raise ValueError(f"chunk_size is {chunk_size}: give a number of sources from 1")
        self.bias = bias
        self.activation = activation
        self.feed_forward = feed_forward
        self.score = score
        self.chunk_size = chunk_size

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        with torch.set_grad_enabled(create_graph):
            output = model(inputs, output_attentions=True, output_hidden_states=True)
            layers, head = model.encoder_layers(), model.head_layers()
            rows = []
            for row, length in enumerate(inputs.attention_mask.sum(dim=1).tolist()):
                readout, logits = output.readout[row : row + 1, :, :length], output.logits[row]
                if model.readout_is_attention:
                    readout, logits = target_rows(readout, targets[row : row + 1]), logits[targets[row]]
                vectors, outputs = decompose_text(
                    layers,
                    head,
                    output,
                    row,
                    readout[0],
                    logits,
                    bias=self.bias,
                    activation="zero_origin" if self.activation == "relu" else self.activation,
                    feed_forward=self.activation if self.feed_forward == "decomposed" else "none",
                    chunk_size=self.chunk_size,
                )
                if self.score == "norm":
                    scores = torch.linalg.vector_norm(vectors, dim=-1).expand(targets.shape[1], -1)
                elif model.readout_is_attention:
                    scores = outputs[..., 0]
                else:
                    scores = outputs[0][:, targets[row]].T
                rows.append(F.pad(scores[:, :length], (0, inputs.input_ids.shape[1] - length)))
        return torch.stack(rows)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
