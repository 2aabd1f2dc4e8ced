"""Norms of what tokens pass to each other through whole encoder layers, followed through all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import read_for_targets, read_through
from lightning_xai.functional.decomposition.contributions import (
    layer_norm_deviation,
    source_vectors,
    transformed_norms,
)
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace, trace_layers
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def encoder_norms(layer: EncoderLayer, trace: LayerTrace) -> Tensor:
    """Returns the L2 norms N_Enc [M, S target, S source] of one layer, after both of its LayerNorms."""
    vectors, residual = source_vectors(layer, trace, [layer.attention_norm, layer.feed_forward_norm])
    deviation = layer_norm_deviation(layer.attention_norm, trace.attention_sum)
    deviation = deviation * layer_norm_deviation(layer.feed_forward_norm, trace.feed_forward_sum)
    return transformed_norms(trace.attention, vectors, residual) / deviation


class GlobEnc(DifferentiableAttribution):
    """Scores tokens by the norms of the vectors that they pass on within each encoder layer, multiplied over layers.

    In each layer, the vector from source j to target i is taken through attention, residual connection and both
    LayerNorms, whose deviations are held fixed; what the feed-forward layer adds is not divided among sources and only
    enters the second deviation. Rows are not normalized, so scores grow with depth: compare them within an example.
    They are the same for every class unless the head reads each class by its own attention.

    Raises:
        ValueError: in use, the layers have no known roles, or normalize before attention.

    Reference: Modarressi et al. (2022), "GlobEnc: Quantifying Global Token Attribution by Incorporating the Whole
    Encoder Layer in Transformers", arXiv 2205.03286, the measure N_Enc.
    Differs: the released code forms a vector for every pair of tokens; norms here come from inner products of heads.
    """

    needs_attentions = True

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        layers = model.encoder_layers()
        if any(layer.norm_first for layer in layers):
            raise ValueError(
                "GlobEnc is undefined for this network: it normalizes before attention, and GlobEnc's vectors are "
                "taken after the LayerNorm behind the feed-forward layer; choose ALTI"
            )
        with torch.set_grad_enabled(create_graph):
            output = model(inputs, output_attentions=True, output_hidden_states=True)
            traces = trace_layers(layers, output, inputs.attention_mask)
            norms = [encoder_norms(layer, trace) for layer, trace in zip(layers, traces, strict=True)]
            return read_for_targets(output.readout, targets, lambda readout: read_through(readout, norms))

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
