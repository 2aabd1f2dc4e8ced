"""Networks whose pretrained weights suffice for the task, such as a language model that classifies by a prompt."""

from __future__ import annotations

from pathlib import Path

from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork
from lightning_xai.models.checkpoints.class_order import pretrained_class_names
from lightning_xai.models.pretrained.pretrained_weights import refuse_gaps
from lightning_xai.runs.encoder_facts import tokenizer_at


def pretrained_network(network: Classifier) -> TrainedNetwork:
    """Returns a pretrained network as a TrainedNetwork, in eval mode.

    Raises:
        ValueError: some of the network's weights are random.
    """
    path = network.init_args.get("path")
    if path is None or not network.init_args.get("pretrained", True):
        raise ValueError(
            f"the weights of {type(network).__name__} are random: give the `path` of pretrained weights, or train the "
            "network first"
        )
    refuse_gaps(network.weight_gaps, path)
    return TrainedNetwork(network.eval(), pretrained_class_names(network), encoder=tokenizer_at(path))


def is_pretrained_at(network: Classifier, path: str) -> bool:
    """Returns whether a network was built with the pretrained weights at `path`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> is_pretrained_at(random_bert(), "folder")
        False
    """
    own = network.init_args.get("path")
    if own is None or not network.init_args.get("pretrained", True):
        return False
    return own == path or (Path(own).exists() and Path(own).resolve() == Path(path).resolve())
