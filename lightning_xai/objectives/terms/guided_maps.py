"""Scores to compare with rationales: those of an attribution method, or the attention of chosen layers and heads."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution, explaining
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.functional.attention import encoder_attentions, read_tokens, target_rows
from lightning_xai.functional.network.modes import eager_attention, evaluation_mode
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.base import Classifier
from lightning_xai.models.contracts import random_inputs
from lightning_xai.models.forward_pass import ForwardPass
from lightning_xai.types import ClassifierOutput

Combine = Literal["losses", "scores"]

# a token's score is a sum of products. If |score| is at most this multiple of the sum of the products' magnitudes, the
# score counts as 0, because only rounding errors remain
_ROUNDING = 1e-4


def attention_maps(
    output: ClassifierOutput,
    targets: Tensor,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    combine_layers: Combine = "losses",
) -> list[Tensor]:
    """Returns a tensor [B, K, T] for each chosen layer and attention head: the attention to each of the T tokens.

    The attention is that of the tokens whose states the classification head reads, such as [CLS].

    Args:
        output: output of a forward pass with attentions.
        targets: [B, K] long; the attention is the same for all classes.
        layers: indices of encoder layers; 0 is the first layer, and -1 the last. If None, the last layer is used.
        heads: indices of attention heads, each of which gives a tensor. If None, the mean over all heads is used.
        combine_layers: how several layers are combined. With "losses", each layer has its own tensors, so that the
            caller can average losses over the layers. With "scores", the attention is averaged over the layers before
            heads are chosen or averaged.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> output = random_bert()(TextInputs.of_ids([[1, 5, 2]]), output_attentions=True)
        >>> len(attention_maps(output, torch.tensor([[0]]), heads=[0, 1]))
        2
    """
    chosen = [encoder_attentions(output)[layer] for layer in layers or [-1]]
    if combine_layers == "scores":
        chosen = [torch.stack(chosen).mean(dim=0)]
    maps = []
    for attention in chosen:  # [B, H, T, T]
        mixings = [attention.mean(dim=1)] if heads is None else [attention[:, head] for head in heads]
        maps += [target_rows(read_tokens(output.readout, mixing.to(output.readout)), targets) for mixing in mixings]
    return maps


def method_map(method: DifferentiableAttribution, forward_pass: ForwardPass, targets: Tensor) -> Tensor:
    """Returns a method's scores [B, K, T], with their autograd graph.

    Methods with `shares_pass` compute the scores from `forward_pass`. Other methods run forward passes of their own, in
    eval mode, so that no dropout masks are drawn.

    Example:
        >>> from lightning_xai.attributions.alti import ALTI
        >>> from lightning_xai.models.forward_pass import Needs
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> forward_pass = ForwardPass(random_bert(), TextInputs.of_ids([[1, 5, 2]]), Needs(), create_graph=True)
        >>> method_map(ALTI(), forward_pass, torch.tensor([[0]])).requires_grad
        True
    """
    if method.shares_pass:
        return method.from_pass(forward_pass, targets, create_graph=forward_pass.create_graph)
    # cuDNN is off, because its recurrent layers have no backward pass in eval mode
    with evaluation_mode(forward_pass.network), torch.backends.cudnn.flags(enabled=False):
        return method.scores(forward_pass.network, forward_pass.inputs, targets, create_graph=forward_pass.create_graph)


def check_guided_method(method: DifferentiableAttribution, network: Classifier) -> None:
    """Checks on a random text that the method can explain the network, and that its scores are not always 0.

    Raises:
        ValueError: the method cannot explain the network; or it is InputXGradient with signed pooling, and its scores
            are always 0 because a LayerNorm acts directly on the embeddings.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> check_guided_method(InputXGradient("sum"), random_bert())
    """
    inputs = random_inputs(network, [5])
    inputs = replace(inputs, index=torch.zeros(1, dtype=torch.long, device=inputs.device))
    target = torch.zeros(1, 1, dtype=torch.long, device=inputs.device)
    method = copy.deepcopy(method)  # a method warns once; here, the copy warns, so the original can still warn later
    with warnings.catch_warnings(), eager_attention(network), explaining(network, inputs.device.type):
        warnings.simplefilter("ignore")
        method.scores(network, inputs, target)
        product = _innermost(method)
        if isinstance(product, InputXGradient) and product.has_sign:
            signed = InputXGradient("sum").scores(network, inputs, target).abs()
            if bool((signed <= _ROUNDING * InputXGradient("l1").scores(network, inputs, target)).all()):
                raise ValueError(
                    f"InputXGradient with pooling {product.pooling} is 0 for every token, since a LayerNorm acts "
                    "directly on the embeddings: set `embedding: module` for the network, or `pooling: l2` for the "
                    "method"
                )


def check_layers_and_heads(network: Classifier, layers: Sequence[int] | None, heads: Sequence[int] | None) -> None:
    """Raises ValueError if the network lacks a chosen layer or head, or if its classification head attends to tokens.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> check_layers_and_heads(random_bert(), [-1], [0, 2])
        Traceback (most recent call last):
        ValueError: heads contains 2, but the network has 2 attention heads: give indices from 0 to 1
    """
    if network.readout_is_attention:
        raise ValueError(
            "the options `layers` and `heads` choose attention in an encoder, but in this network, the classification "
            "head itself attends to tokens: leave out layers and heads"
        )
    inputs = random_inputs(network, [3])
    with torch.no_grad(), eager_attention(network), evaluation_mode(network):
        attentions = encoder_attentions(network(inputs, output_attentions=True))
    num_layers, num_heads = len(attentions), attentions[0].shape[1]
    for layer in layers or []:
        if not -num_layers <= layer < num_layers:
            raise ValueError(
                f"layers contains {layer}, but the network has {quantity(num_layers, 'layer')}: give indices from "
                f"{-num_layers} to {num_layers - 1}"
            )
    for head in heads or []:
        if not 0 <= head < num_heads:
            raise ValueError(
                f"heads contains {head}, but the network has {num_heads} attention heads: give indices from 0 to "
                f"{num_heads - 1}"
            )


def _innermost(method: AttributionMethod) -> AttributionMethod:
    while isinstance(method, Transformed):
        method = method.method
    return method
