"""ALTI: contributions of each token to the states of all tokens in a layer, multiplied over all layers."""

from __future__ import annotations

from torch import Tensor, nn

from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.functional.attention import read_for_targets, read_through
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import class_columns, class_output
from lightning_xai.functional.decomposition.contributions import (
    Norm,
    alti_contributions,
    layer_norm_deviation,
    source_vectors,
)
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, LayerTrace, trace_layers
from lightning_xai.functional.network.modes import graph_or_float32
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs


def alti_mixing(layer: EncoderLayer, trace: LayerTrace, *, norm: Norm) -> Tensor:
    """Returns how much the source tokens contribute to each target token in one layer, [M, S target, S source].

    The contributions to a target token sum to one.

    Args:
        layer: the parts of the layer.
        trace: the intermediate results of the layer for M rows of S tokens.
        norm: the norm that measures distances between vectors.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[1, 5, 6, 2]])
        >>> output = model(inputs, output_attentions=True, output_hidden_states=True)
        >>> (trace,) = trace_layers(model.encoder_layers(), output, inputs.attention_mask)
        >>> mixing = alti_mixing(model.encoder_layers()[0], trace, norm="l1")
        >>> torch.allclose(mixing.sum(dim=2), torch.ones(1, 4))
        True
    """
    if layer.norm_first:
        vectors, residual = source_vectors(layer, trace, [])
        resultants = trace.attention_block
    else:
        layer_norm = layer.attention_norm
        assert isinstance(layer_norm, nn.LayerNorm)
        vectors, residual = source_vectors(layer, trace, [layer_norm])
        # `vectors` are not divided by the LayerNorm's standard deviation. The block's outputs are multiplied by this
        # deviation, which brings them to the same scale. Contributions are later divided by their sum, so the scale
        # does not matter
        resultants = trace.attention_block * layer_norm_deviation(layer_norm, trace.attention_sum)
    return alti_contributions(trace.attention, vectors, residual, resultants, norm=norm)


class ALTI(DifferentiableAttribution):
    """Scores tokens by their contributions to the output of each attention block, multiplied over layers.

    Let y_i be the output of an attention block for token i, after the residual connection and LayerNorm. With the
    standard deviation in the LayerNorm held fixed, y_i is a sum of biases and one vector T_ij for each source token j.
    The contribution c_ij of token j to token i is max(0, |y_i| - |y_i - T_ij|), divided by the sum of this expression
    over all j. Feed-forward layers are left out, because they do not mix tokens. The classification head reads a
    weighted sum of token states. The scores add up to the sum of these weights, which is usually 1. All classes have
    the same scores, unless the classification head attends to tokens for each class separately.

    In networks that normalize before attention (such as Llama), y_i is the residual stream after attention, before any
    norm. T_ij is then the part of y_i that attention takes from source token j; T_ii also contains the residual stream
    before attention.

    Passes: one forward pass for all classes.

    Args:
        norm: the norm |.| in c_ij, "l1" or "l2"; the paper uses "l1".

    Reference: Ferrando et al. (2022), "Measuring the Mixing of Contextual Information in the Transformer",
    arXiv 2203.04212, Section 3.
    Differs: the released code adds 1e-6 to every coordinate of y_i - T_ij and skips texts of more than 200 tokens.
    Here, if max(0, ...) is 0 for every j, so that c_ij is undefined, token i contributes only to itself.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0, 1]])
        >>> scores = ALTI().attribute(random_bert(), inputs, targets).scores
        >>> torch.allclose(scores.sum(dim=2), torch.ones(1, 2)), bool((scores >= 0).all())
        (True, True)
    """

    needs_attentions = True
    has_sign = False

    def __init__(self, norm: Norm = "l1") -> None:
        require_choices({"norm": Norm}, {"norm": norm})
        self.norm: Norm = norm

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor, *, create_graph: bool = False) -> Tensor:
        layers = model.encoder_layers()
        with graph_or_float32(inputs.device.type, create_graph=create_graph):
            output = class_output(model, inputs, targets, output_attentions=True, output_hidden_states=True)
            traces = trace_layers(layers, output, inputs.attention_mask)
            mixings = [alti_mixing(layer, trace, norm=self.norm) for layer, trace in zip(layers, traces, strict=True)]
            columns = class_columns(targets)
            return read_for_targets(output.readout, columns, lambda readout: read_through(readout, mixings))

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=1, backward=0)
