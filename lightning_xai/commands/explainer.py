"""Explains texts in batches with a trained network and the encoder that it was trained with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.commands.class_checks import CheckedParser
from lightning_xai.data.collate import Item, collate
from lightning_xai.data.encoding import Encoded, Encoder
from lightning_xai.functional.targets import predicted_classes
from lightning_xai.models.checkpoint import TrainedNetwork
from lightning_xai.report.heatmap import ExplainedClass, ExplainedDocument
from lightning_xai.runs.renamed_classes import current_spec
from lightning_xai.types import TextInputs

BATCH_SIZE = 16


@dataclass(frozen=True)
class Explainer:
    """Predicts and explains texts in batches.

    Args:
        trained: the network and the names of its classes.
        encoder: encoder that the network was trained with.
        method: attribution method that scores the tokens.
        num_classes: least number of classes explained on multi-label data. The most probable classes are added if fewer
            are predicted.
        text_pair: second text of every example; None if the network reads single texts.

    Example:
        >>> from lightning_xai.attributions.input_x_gradient import InputXGradient
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> trained = TrainedNetwork(random_bert(), ["bad", "good"])
        >>> explainer = Explainer(trained, VocabularyEncoder(words=15), InputXGradient())
        >>> (document,) = explainer.documents(["w1 w2"])
        >>> document.offsets.tolist(), [explained.name for explained in document.classes]
        ([[0, 0], [0, 2], [3, 5], [0, 0]], ['bad'])
    """

    trained: TrainedNetwork
    encoder: Encoder
    method: AttributionMethod
    num_classes: int = 3
    text_pair: str | None = None

    def __post_init__(self) -> None:
        if self.trained.class_names is None:
            raise ValueError("the checkpoint names no classes: it was trained without a data module")
        if self.method.needs_attentions:
            self.trained.network.set_attention("eager")

    @property
    def method_name(self) -> str:
        return type(self.method).__name__

    def documents(self, texts: list[str]) -> Iterator[ExplainedDocument]:
        """Yields the explained documents in the order of `texts`."""
        for start in range(0, len(texts), BATCH_SIZE):
            yield from self._batch(texts[start : start + BATCH_SIZE], start)

    def _batch(self, texts: list[str], start: int) -> Iterator[ExplainedDocument]:
        network, class_names = self.trained.network, self.trained.class_names
        assert class_names is not None
        encoded = self.encoder.encode_batch([{"text": text, "text_pair": self.text_pair} for text in texts])
        inputs = self._inputs(encoded, start)
        probs = network.predict(inputs)
        predicted = predicted_classes(
            probs, multilabel=network.multilabel, decision_threshold=self.trained.decision_threshold
        )
        attribution = self.method.attribute(network, inputs, *self._targets(probs, predicted))
        for row, text in enumerate(texts):
            offsets = encoded[row].text_offsets
            classes = [
                ExplainedClass(
                    name=class_names[target],
                    probability=float(probs[row, target]),
                    gold=None,
                    predicted=bool(predicted[row, target]),
                    scores={self.method_name: attribution.scores[row, k, : len(offsets)].cpu().numpy()},
                    magnitudes=frozenset() if self.method.has_sign else frozenset([self.method_name]),
                )
                for k, target in enumerate(attribution.targets[row].tolist())
                if attribution.target_mask[row, k]
            ]
            yield ExplainedDocument(name=f"text {start + row}", text=text, offsets=offsets, classes=classes)

    def _inputs(self, encoded: list[Encoded], start: int) -> TextInputs:
        items = [Item(start + row, tokens, 0) for row, tokens in enumerate(encoded)]
        batch = collate(
            items, pad_token_id=self.encoder.pad_token_id, num_classes=1, multilabel=False, has_rationales=False
        )
        return batch.inputs.to(self.trained.network.embedding_matrix.device)

    def _targets(self, probs: Tensor, predicted: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the predicted classes, and on multi-label data also the `num_classes` most probable ones.

        Args:
            probs: [B, C].
            predicted: [B, C] bool.

        Returns:
            Classes [B, K], most probable first, and a mask [B, K] of the classes to explain.
        """
        at_least = min(self.num_classes, probs.shape[1]) if self.trained.network.multilabel else 1
        num_targets = predicted.sum(dim=1, keepdim=True).clamp(min=at_least)
        targets = probs.argsort(dim=1, descending=True)[:, : int(num_targets.max())]
        return targets, torch.arange(targets.shape[1], device=probs.device) < num_targets


def encoder_of(config_file: Path) -> Encoder:
    """Builds the encoder of a run's configuration, without the vocabulary that was learned from training texts.

    Example:
        >>> import tempfile
        >>> encoder = "{class_path: lightning_xai.data.vocabulary.VocabularyEncoder, init_args: {words: 15}}"
        >>> with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        ...     _ = Path(file.name).write_text("data: {init_args: {encoder: %s}}" % encoder)
        ...     encoder_of(Path(file.name)).vocab_size
        20
    """
    parser = CheckedParser(exit_on_error=False)
    OmegaConf.clear_resolvers()  # those of other packages may call code
    parser.add_subclass_arguments(Encoder, "encoder")
    spec: Any = OmegaConf.to_container(OmegaConf.load(config_file).data.init_args.encoder, resolve=True)
    return parser.instantiate(parser.parse_object({"encoder": current_spec(spec)})).encoder


def trained_encoder(config_file: Path, trained: TrainedNetwork) -> Encoder:
    """Builds the encoder of a run's configuration, with the vocabulary that the trained network uses.

    Example:
        >>> import tempfile
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> trained = TrainedNetwork(random_bert(), None, data_state={"encoder": {"words": ["fine", "plot"]}})
        >>> with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        ...     encoder = "{class_path: lightning_xai.data.vocabulary.VocabularyEncoder, init_args: {words: null}}"
        ...     _ = Path(file.name).write_text("data: {init_args: {encoder: %s}}" % encoder)
        ...     trained_encoder(Path(file.name), trained).vocab_size
        7
    """
    encoder = encoder_of(config_file)
    if trained.data_state:
        encoder.load_state_dict(trained.data_state["encoder"])
    return encoder
