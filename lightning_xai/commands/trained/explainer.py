"""Explains texts in batches, with a trained network and its encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.given import give_texts
from lightning_xai.commands.parser.class_checks import CheckedParser
from lightning_xai.data.base import Encoded, Encoder
from lightning_xai.data.batches.collate import Item, collate
from lightning_xai.data.tokenizers.own_tokenizer import check_own_tokenizer
from lightning_xai.functional.classes.targets import predicted_classes
from lightning_xai.functional.erasure.evaluate import Versions, predict_of
from lightning_xai.functional.erasure.perturbation import version_outputs
from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork
from lightning_xai.models.scorer.scorer_tokenizer import RowText, row_text
from lightning_xai.report.heatmap import ExplainedClass, ExplainedDocument
from lightning_xai.report.strongest import strongest_words
from lightning_xai.runs.encoder_facts import EncoderFacts
from lightning_xai.runs.renamed_classes import current_spec
from lightning_xai.types import TextInputs

BATCH_SIZE = 16


@dataclass(frozen=True)
class Explainer:
    """Predicts and explains texts in batches.

    Args:
        trained: the network and the names of its classes.
        encoder: the encoder with which the network was trained.
        methods: name of a method in the results -> attribution method.
        num_classes: on multi-label data, smallest number of explained classes per text. If fewer classes are predicted,
            the most probable other classes are explained too.
        text_pair: the second text for all examples, or a list with a second text for each; None if the network reads
            single texts.

    Example:
        >>> from lightning_xai.attributions.input_x_gradient import InputXGradient
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> trained = TrainedNetwork(random_bert(), ["bad", "good"])
        >>> explainer = Explainer(trained, VocabularyEncoder(words=15), {"InputXGradient": InputXGradient()})
        >>> (document,) = explainer.documents(["w1 w2"])
        >>> document.offsets.tolist(), [explained.name for explained in document.classes]
        ([[0, 0], [0, 2], [3, 5], [0, 0]], ['bad'])
    """

    trained: TrainedNetwork
    encoder: Encoder
    methods: dict[str, AttributionMethod]
    num_classes: int = 3
    text_pair: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.trained.class_names is None:
            raise ValueError("the checkpoint has no class names: train the network with a data module that gives them")
        self.trained.network.check_vocabulary(self.encoder.vocab_size)
        if any(method.needs_attentions for method in self.methods.values()):
            self.trained.network.set_attention("eager")

    def documents(self, texts: list[str]) -> Iterator[ExplainedDocument]:
        """Yields the explained documents in the order of `texts`."""
        for start in range(0, len(texts), BATCH_SIZE):
            yield from self._batch(texts[start : start + BATCH_SIZE], start)

    def predictions(self, texts: list[str]) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """Yields, for each text, probabilities [C], predicted classes [C] bool, and whether the text was truncated."""
        for start in range(0, len(texts), BATCH_SIZE):
            encoded = self._encode(texts[start : start + BATCH_SIZE], start)
            probs, predicted = self._predict(self._inputs(encoded, start))
            yield from zip(probs.cpu(), predicted.cpu(), [row.truncated for row in encoded], strict=True)

    def _batch(self, texts: list[str], start: int) -> Iterator[ExplainedDocument]:
        network, class_names = self.trained.network, self.trained.class_names
        assert class_names is not None
        encoded = self._encode(texts, start)
        inputs = self._inputs(encoded, start)
        give_texts(self.methods.values(), partial(self._row_text, texts, encoded, start))
        probs, predicted = self._predict(inputs)
        targets, target_mask = self._targets(probs, predicted)
        scores = {
            name: method.attribute(network, inputs, targets, target_mask).scores.cpu().numpy()
            for name, method in self.methods.items()
        }
        magnitudes = frozenset(name for name, method in self.methods.items() if not method.has_sign)
        documents = []
        for row, text in enumerate(texts):
            offsets = encoded[row].text_offsets
            classes = [
                ExplainedClass(
                    name=class_names[target],
                    probability=float(probs[row, target]),
                    gold=None,
                    predicted=bool(predicted[row, target]),
                    scores={name: scores[name][row, k, : len(offsets)] for name in scores},
                    magnitudes=magnitudes,
                )
                for k, target in enumerate(targets[row].tolist())
                if target_mask[row, k]
            ]
            is_unknown = encoded[row].input_ids == self.encoder.unk_token_id  # all False if there is no unknown token
            unknown = int((is_unknown & (offsets[:, 1] > offsets[:, 0])).sum())
            documents.append(
                ExplainedDocument(f"text {start + row}", text, offsets, classes, unknown, encoded[row].truncated)
            )
        self._add_probabilities_without(documents, inputs)
        yield from documents

    def _row_text(self, texts: list[str], encoded: list[Encoded], start: int, split: str | None, index: int) -> RowText:
        return row_text({"text": texts[index - start], "text_pair": self.text_pair}, encoded[index - start])

    def _add_probabilities_without(self, documents: list[ExplainedDocument], inputs: TextInputs) -> None:
        """Sets `probability_without` of each explained class.

        For each method, this is the probability of the class after deleting the words to which the method gives the
        largest absolute scores (at most 5 words, see `strongest_words`).
        """
        assert self.trained.class_names is not None
        entries, rows, keeps = [], [], []
        for row, document in enumerate(documents):
            for explained in document.classes:
                for name, scores in explained.scores.items():
                    deleted = [t for word in strongest_words(document, scores) for t in word.tokens]
                    keep = torch.ones(inputs.input_ids.shape[1], dtype=torch.bool)
                    keep[deleted] = False
                    entries.append((explained, name))
                    rows.append(row)
                    keeps.append(keep)
        if not rows:
            return
        network = self.trained.network
        versions = Versions(torch.tensor(rows), torch.stack(keeps))
        classes = torch.tensor([[self.trained.class_names.index(explained.name)] for explained, _ in entries])
        predict = predict_of(network)
        probs = version_outputs(predict, inputs, versions, classes, erasure="delete", pad_id=network.pad_id)
        for (explained, name), prob in zip(entries, probs[:, 0].tolist(), strict=True):
            explained.probability_without[name] = prob

    def _encode(self, texts: list[str], start: int) -> list[Encoded]:
        pair = self.text_pair
        pairs = [pair] * len(texts) if pair is None or isinstance(pair, str) else pair[start : start + len(texts)]
        return self.encoder.encode_batch(
            [{"text": text, "text_pair": second} for text, second in zip(texts, pairs, strict=True)]
        )

    def _predict(self, inputs: TextInputs) -> tuple[Tensor, Tensor]:
        """Returns the probabilities [B, C] of the classes, and [B, C] bool, True for predicted classes."""
        network = self.trained.network
        probs = network.predict(inputs)
        return probs, predicted_classes(
            probs, multilabel=network.multilabel, decision_threshold=self.trained.decision_threshold
        )

    def _inputs(self, encoded: list[Encoded], start: int) -> TextInputs:
        items = [Item(start + row, tokens, 0) for row, tokens in enumerate(encoded)]
        batch = collate(
            items, pad_token_id=self.encoder.pad_token_id, num_classes=1, multilabel=False, has_rationales=False
        )
        return batch.inputs.to(self.trained.network.embedding_matrix.device)

    def _targets(self, probs: Tensor, predicted: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the classes to explain: predicted classes and, on multi-label data, the most probable other classes.

        Args:
            probs: [B, C] probabilities.
            predicted: [B, C] bool, whether each class is predicted.

        Returns:
            Indices of classes [B, K], the most probable first, and [B, K] bool, True for classes to explain.
        """
        at_least = min(self.num_classes, probs.shape[1]) if self.trained.network.multilabel else 1
        num_targets = predicted.sum(dim=1, keepdim=True).clamp(min=at_least)
        targets = probs.argsort(dim=1, descending=True)[:, : int(num_targets.max())]
        return targets, torch.arange(targets.shape[1], device=probs.device) < num_targets


def encoder_of(config_file: Path) -> dict[str, Any]:
    """Returns the `class_path` and `init_args` of the encoder in a run's configuration.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        ...     _ = Path(file.name).write_text("data: {init_args: {encoder: {class_path: m.Words}}}")
        ...     encoder_of(Path(file.name))
        {'class_path': 'm.Words'}
    """
    OmegaConf.clear_resolvers()  # resolvers that other packages registered could run code
    spec: Any = OmegaConf.to_container(OmegaConf.load(config_file).data.init_args.encoder, resolve=True)
    return spec


def facts_or_configuration(facts: EncoderFacts, path: str, config_file: Path) -> dict[str, Any]:
    """Returns the `class_path` and `init_args` of an encoder, from the facts in a checkpoint or from a configuration.

    The configuration is read only if `facts` do not name the class, as in checkpoints of older versions.

    Raises:
        ValueError: neither `facts` nor the configuration name an encoder.

    Example:
        >>> facts_or_configuration({}, "my.ckpt", Path("no/config.yaml"))
        Traceback (most recent call last):
        ValueError: my.ckpt does not name its encoder, and there is no no/config.yaml: give the run's folder
    """
    if "class_path" in facts:
        return dict(facts)
    if not config_file.is_file():
        raise ValueError(f"{path} does not name its encoder, and there is no {config_file}: give the run's folder")
    return encoder_of(config_file)


def trained_encoder(
    facts: EncoderFacts | None, path: str, config_file: Path, *, trust_remote_code: bool = False
) -> Encoder:
    """Builds the encoder with which a network was trained, and restores the encoder's learned vocabulary if it has one.

    Args:
        facts: facts about the encoder, from `read_encoder`. If they do not name its class, as in checkpoints of older
            versions, the class is read from the configuration.
        path: path of the network, for messages.
        config_file: configuration of the network's run.
        trust_remote_code: whether Python code in the tokenizer's folder may run, if such code ran in training.

    Raises:
        ValueError: neither `facts` nor the configuration name an encoder, or the tokenizer has changed since training.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoder = VocabularyEncoder(words=None)
        >>> encoder.fit([{"text": "fine plot"}])
        >>> facts = {**encoder.facts(), "learned": encoder.state_dict()}
        >>> trained_encoder(facts, "runs/tm/seed0", Path("no/config.yaml")).vocab_size
        7
    """
    facts = facts or {}
    spec = current_spec(facts_or_configuration(facts, path, config_file))
    parser = CheckedParser(exit_on_error=False)
    parser.add_subclass_arguments(Encoder, "encoder")
    # a stored `trust_remote_code` is dropped unless the caller allows Python code in a model's folder to run
    arguments = {k: v for k, v in spec["init_args"].items() if k != "trust_remote_code" or trust_remote_code}
    named = {"class_path": spec["class_path"], "init_args": arguments}
    encoder: Encoder = parser.instantiate(parser.parse_object({"encoder": named})).encoder
    if facts.get("learned"):
        encoder.load_state_dict(facts["learned"])
    check_own_tokenizer(facts, encoder.facts(), path)
    return encoder
