"""Attributions that explain the states after one encoder layer, to measure plausibility layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer, head_logits
from lightning_xai.models.base import Classifier
from lightning_xai.types import ClassifierOutput, Passes, TextInputs


class FirstLayers:
    """A view of a network that shows only the first `num_layers` encoder layers.

    If hidden states are requested, the classification head computes the logits from the states after the last of these
    layers. Otherwise, the logits are those of the whole network.

    Args:
        network: the network.
        num_layers: number of encoder layers in the view.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> len(FirstLayers(random_bert(), 1).encoder_layers())
        1
    """

    def __init__(self, network: Classifier, num_layers: int) -> None:
        self._network = network
        self._num_layers = num_layers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def __call__(self, *args: Any, **options: Any) -> ClassifierOutput:
        output = self._network(*args, **options)
        if output.attentions is not None:
            output = replace(output, attentions=output.attentions[: self._num_layers])
        if output.hidden_states is not None:
            states = output.hidden_states[: self._num_layers + 1]
            logits = head_logits(self._network.head_layers(), output.readout @ states[-1])
            output = replace(output, hidden_states=states, logits=logits)
        return output

    def encoder_layers(self) -> list[EncoderLayer]:
        return self._network.encoder_layers()[: self._num_layers]


class AtLayer(AttributionMethod):
    """Scores tokens as `method` would if the classification head read the states after the encoder layer `layer`.

    Passes: those of `method`.

    Args:
        method: a method that reads attention weights and takes no gradient: Attention, AttentionRollout, ALTI, GlobEnc,
            or DecompX.
        layer: index of the encoder layer, counted from 0. ComputeAttributions also accepts "all", and replaces this
            method NAME by one method per layer, NAME_layer0, NAME_layer1, ...

    Raises:
        ValueError: the method takes gradients or reads no attention weights, or `layer` is negative. When scores are
            computed: `layer` is still "all", the network has no layer with this index or normalizes before attention,
            or its classification head attends to tokens.

    Example:
        >>> import torch
        >>> from lightning_xai.attributions.rollout import AttentionRollout
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs, targets = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]), torch.tensor([[0]])
        >>> model = random_bert()
        >>> last = AtLayer(AttentionRollout(), len(model.encoder_layers()) - 1).attribute(model, inputs, targets)
        >>> torch.equal(last.scores, AttentionRollout().attribute(model, inputs, targets).scores)
        True
    """

    needs_attentions = True

    def __init__(self, method: AttributionMethod, layer: int | Literal["all"]) -> None:
        name = type(method).__name__
        if not method.needs_attentions or method.passes(1, 1).backward:
            raise ValueError(
                f"{name} cannot explain the states after an inner layer: choose Attention, AttentionRollout, ALTI, "
                "GlobEnc or DecompX"
            )
        if layer != "all" and layer < 0:
            raise ValueError(f"layer is {layer}: give the index of an encoder layer, counted from 0")
        self.method = method
        self.layer = layer

    @property
    def has_sign(self) -> bool:
        return self.method.has_sign

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        layers = model.encoder_layers()
        num_layers = len(layers)
        if self.layer == "all":
            raise ValueError("layer is all, which only ComputeAttributions accepts: give the index of an encoder layer")
        if self.layer >= num_layers:
            raise ValueError(f"layer is {self.layer}, but the network only has the layers 0 to {num_layers - 1}")
        if model.readout_is_attention:
            raise ValueError("the classification head attends to the states of the last layer: do not use AtLayer")
        if layers[0].norm_first:
            raise ValueError(
                "the network normalizes before attention, so its classification head can read only the states after "
                "the last layer: do not use AtLayer"
            )
        view = cast(Classifier, FirstLayers(model, self.layer + 1))
        return self.method.scores(view, inputs, targets)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return self.method.passes(num_tokens, num_targets)


def with_each_layer(methods: Mapping[str, AttributionMethod], network: Classifier) -> dict[str, AttributionMethod]:
    """Returns the methods, with one method per encoder layer of the network in place of AtLayer with layer "all".

    If the layers of the network cannot be decomposed, the methods are returned as they are. The preflight names them.

    Raises:
        ValueError: two methods would have the same name.

    Example:
        >>> from lightning_xai.attributions.attention import Attention
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> list(with_each_layer({"attention": AtLayer(Attention(), "all")}, random_bert()))
        ['attention_layer0']
    """
    found: dict[str, AttributionMethod] = {}
    for name, method in methods.items():
        named = {name: method}
        if isinstance(method, AtLayer) and method.layer == "all":
            try:
                layers = range(len(network.encoder_layers()))
            except ValueError:
                return dict(methods)
            named = {f"{name}_layer{layer}": AtLayer(method.method, layer) for layer in layers}
        for new in named:
            if new in found or (new != name and new in methods):
                raise ValueError(f"methods has {new}, and {name} with layer: all also makes it: rename one of them")
        found |= named
    return found
