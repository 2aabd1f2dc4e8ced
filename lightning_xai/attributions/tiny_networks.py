"""The networks on which `check_method` tests attribution methods by default."""

from __future__ import annotations

from lightning_xai.functional.laws import random_texts
from lightning_xai.models.base import Classifier
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.models.tiny import TINY_BERT, with_large_weights


def tiny_networks() -> tuple[Classifier, Classifier]:
    """Returns a tiny BERT with 3 classes and a tiny PLM-CA with 5 classes, with eager attention.

    Example:
        >>> [type(network).__name__ for network in tiny_networks()]
        ['HFClassifier', 'PLMCA']
    """
    networks = (
        with_large_weights(lambda: HFClassifier(config=TINY_BERT, num_classes=3)),
        with_large_weights(lambda: PLMCA(config=TINY_BERT, num_classes=5, segment_length=8)),
    )
    for network in networks:
        network.set_attention("eager")
        # in this pass, transformers installs lasting hooks. They must exist before `check_method` checks that methods
        # add no hooks
        network(random_texts([9]), output_attentions=True)
    return networks
