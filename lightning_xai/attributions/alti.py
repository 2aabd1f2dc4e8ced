"""Contributions of tokens to each other's states, followed through all layers."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import read_for_targets, read_through
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.decomposition.contributions import (
    Norm,
    alti_contributions,
    layer_norm_deviation,
    source_vectors,
)
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace, trace_layers
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def alti_mixing(layer: EncoderLayer, trace: LayerTrace, *, norm: Norm) -> Tensor:
    """Returns the contributions [M, S target, S source] of one layer; rows sum to one."""
    if layer.norm_first:
        vectors, residual = source_vectors(layer, trace, [])
        resultants = trace.attention_block
    else:
        vectors, residual = source_vectors(layer, trace, [layer.attention_norm])
        # everything times the deviation, which cancels in a contribution
        resultants = trace.attention_block * layer_norm_deviation(layer.attention_norm, trace.attention_sum)
    return alti_contributions(trace.attention, vectors, residual, resultants, norm=norm)


class ALTI(DifferentiableAttribution):
    """Scores tokens by how much nearer their vectors bring each attention block's output, multiplied over layers.

    Contributions are c_ij = max(0, |y_i| - |y_i - T_ij|) / sum_j, where y_i is the output of the attention block with
    its residual and LayerNorm, and T_ij the part of it that comes from source j, the LayerNorm's deviation held fixed.
    Feed-forward layers act on each token alone and are left out. Scores sum to one as the readout does, and are the
    same for every class unless the head reads each class by its own attention.

    In networks that normalize before attention (Llama), y_i is the residual stream after attention and T_ij = the
    weighted values of source j, taken from the normalized states, with the stream itself at j = i; no norm follows.

    Args:
        norm: of the distances; "l1" in the paper.

    Reference: Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the Transformer",
    arXiv 2203.04212, section 3.
    Differs: the released code adds 1e-6 to every coordinate of a difference and skips texts above 200 tokens. A state
    that no source brings nearer, undefined there, is its own token's.
    """

    needs_attentions = True

    def __init__(self, norm: Norm = "l1") -> None:
        require_choices({"norm": Norm}, {"norm": norm})
        self.norm = norm

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        layers = model.encoder_layers()
        with torch.set_grad_enabled(create_graph):
            output = model(inputs, output_attentions=True, output_hidden_states=True)
            traces = trace_layers(layers, output, inputs.attention_mask)
            mixings = [alti_mixing(layer, trace, norm=self.norm) for layer, trace in zip(layers, traces, strict=True)]
            return read_for_targets(output.readout, targets, lambda readout: read_through(readout, mixings))

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
