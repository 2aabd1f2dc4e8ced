"""GlobEnc: norms of the vectors that tokens pass to each other in an encoder layer, multiplied over all layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import read_for_targets, read_through
from lightning_xai.functional.classes.class_outputs import class_columns, class_output
from lightning_xai.functional.decomposition.contributions import (
    layer_norm_deviation,
    source_vectors,
    transformed_norms,
)
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace, trace_layers
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def encoder_norms(layer: EncoderLayer, trace: LayerTrace) -> Tensor:
    """Returns GlobEnc's N_Enc [M, S target, S source]: the L2 norm of the vector from each source to each target token.

    The vectors are taken after both LayerNorms of the layer.

    Args:
        layer: the parts of a layer that normalizes after attention.
        trace: the intermediate results of the layer for M rows of S tokens.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> (trace,) = trace_layers(model.encoder_layers(), output, inputs.attention_mask)
        >>> norms = encoder_norms(model.encoder_layers()[0], trace)
        >>> norms.shape, bool((norms >= 0).all())
        (torch.Size([1, 4, 4]), True)
    """
    attention_norm, feed_forward_norm = layer.attention_norm, layer.feed_forward_norm
    assert isinstance(attention_norm, nn.LayerNorm) and isinstance(feed_forward_norm, nn.LayerNorm)
    vectors, residual = source_vectors(layer, trace, [attention_norm, feed_forward_norm])
    deviation = layer_norm_deviation(attention_norm, trace.attention_sum)
    deviation = deviation * layer_norm_deviation(feed_forward_norm, trace.feed_forward_sum)
    return transformed_norms(trace.attention, vectors, residual) / deviation


class GlobEnc(DifferentiableAttribution):
    """Scores tokens by the norms of the vectors that they send to other tokens in each layer, multiplied over layers.

    In each layer, the vector from source j to target i goes through attention, the residual connection and both
    LayerNorms, whose standard deviations are held fixed. The feed-forward layer is not divided among the sources; it
    only affects the standard deviation of the second LayerNorm. The norms are not scaled to sum to 1, so the scale of
    the scores differs between examples and grows with the number of layers: compare scores only within an example. All
    classes have the same scores, unless the classification head attends to tokens for each class separately.

    Passes: one forward pass for all classes.

    Raises:
        ValueError: `attribute` raises the error if this package does not know the structure of the network's layers, or
            if the network normalizes before attention.

    Reference: Modarressi et al. (2022), "GlobEnc: Quantifying Global Token Attribution by Incorporating the Whole
    Encoder Layer in Transformers", arXiv 2205.03286, variant N_Enc.
    Differs: the released code computes a vector for every pair of tokens. Here the norms of these vectors are computed
    without the vectors: from the inner products between the vectors that a source sends through its attention heads.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0]])
        >>> model = random_bert()
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> (trace,) = trace_layers(model.encoder_layers(), output, inputs.attention_mask)
        >>> norms = encoder_norms(model.encoder_layers()[0], trace)
        >>> scores = GlobEnc().attribute(model, inputs, targets).scores
        >>> torch.allclose(scores[0, 0], norms[0, 0])  # one layer, read at [CLS]
        True
    """

    needs_attentions = True
    has_sign = False

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        layers = model.encoder_layers()
        if any(layer.norm_first for layer in layers):
            raise ValueError(
                "GlobEnc needs a LayerNorm after the feed-forward layer, but this network normalizes before attention: "
                "choose ALTI instead of GlobEnc"
            )
        with torch.set_grad_enabled(create_graph):
            output = class_output(model, inputs, targets, output_attentions=True, output_hidden_states=True)
            traces = trace_layers(layers, output, inputs.attention_mask)
            norms = [encoder_norms(layer, trace) for layer, trace in zip(layers, traces, strict=True)]
            columns = class_columns(targets)
            return read_for_targets(output.readout, columns, lambda readout: read_through(readout, norms))

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
