"""Texts of random words in which a few signal words decide the class, so that the rationales are known exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.vocabulary import numbered_words


def planted_document(
    words: list[str],
    signals: dict[int, list[int]],
    background: np.ndarray,
    length: int,
    generator: np.random.Generator,
) -> tuple[str, list[dict[str, Any]]]:
    """Returns a text of background words with signal words at random positions, and the rationales of the classes.

    Args:
        words: the vocabulary. The other arguments identify a word by its index in this list.
        signals: class -> signal words to plant; their character spans are the class's rationale.
        background: words that support no class.
        length: number of words in the text.
        generator: random number generator.

    Example:
        >>> planted_document(["bad", "so"], {0: [0]}, np.array([1]), 3, np.random.default_rng(0))
        ('so so bad', [{'label': 0, 'spans': [[6, 9]]}])
    """
    chosen = generator.choice(background, size=length)
    planted = [(label, word) for label, numbers in signals.items() for word in numbers]
    places = generator.permutation(length)[: len(planted)]
    for place, (_, word) in zip(places, planted, strict=True):
        chosen[place] = word
    spelled = [words[i] for i in chosen]
    begins = np.cumsum([0, *(len(word) + 1 for word in spelled[:-1])])
    rationales = []
    for label in signals:
        evidence = sorted(int(place) for place, (owner, _) in zip(places, planted, strict=True) if owner == label)
        spans = [[int(begins[place]), int(begins[place]) + len(spelled[place])] for place in evidence]
        rationales.append({"label": label, "spans": spans})
    return " ".join(spelled), rationales


class Planted(TextSource):
    """Documents of random words. Each class has signal words, which are planted in its documents only.

    The vocabulary is "w0" to "w{num_words - 1}", as in VocabularyEncoder. With n = `signal_words_per_class`, the signal
    words of class c are "w{c * n}" to "w{c * n + n - 1}".

    Args:
        num_classes: number of classes. In single-label documents, all classes are equally probable.
        num_words: size of the vocabulary.
        signal_words_per_class: number of signal words of each class.
        signals_per_document: smallest and largest number of signal words planted for each class of the document.
        words_per_document: smallest and largest number of words in a document.
        label_noise: probability that a training label is replaced by another class (single-label), or that the label
            of a class is flipped (multi-label). Signal words and rationales still belong to the original class.
        multilabel: whether a document may have any number of classes.
        class_probability: probability of each class in a multi-label document.
        num_train, num_validation, num_test: numbers of documents in the three splits.
        seed: seed of all random choices. If only a `num_...` changes, the first documents of its split stay the same.

    Raises:
        ValueError: all words would be signal words, or the signal words might not fit into the shortest document.

    Example:
        >>> row = Planted(num_train=1).load()["train"][0]
        >>> begin, end = row["rationales"][0]["spans"][0]
        >>> row["labels"], row["text"][begin:end]  # class 1 has the signal words w2 and w3
        (1, 'w2')
    """

    name = "planted"

    def __init__(
        self,
        num_classes: int = 2,
        num_words: int = 95,
        signal_words_per_class: int = 2,
        signals_per_document: tuple[int, int] = (1, 2),
        words_per_document: tuple[int, int] = (8, 24),
        label_noise: float = 0.0,
        multilabel: bool = False,
        class_probability: float = 0.4,
        num_train: int = 256,
        num_validation: int = 64,
        num_test: int = 64,
        seed: int = 0,
    ) -> None:
        num_signals = num_classes * signal_words_per_class
        if num_signals >= num_words:
            raise ValueError(
                f"num_words={num_words} leaves no word besides the {num_signals} signal words: raise num_words"
            )
        most = signals_per_document[1] * (num_classes if multilabel else 1)
        if most > words_per_document[0]:
            raise ValueError(
                f"{most} signal words do not fit into a text of {words_per_document[0]} words: raise the smallest "
                "number in words_per_document"
            )
        self.class_names = [f"class{i}" for i in range(num_classes)]
        self.multilabel = multilabel
        self.words = numbered_words(num_words)
        self.signal_words_per_class = signal_words_per_class
        self.signals_per_document = signals_per_document
        self.words_per_document = words_per_document
        self.label_noise = label_noise
        self.class_probability = class_probability
        self.sizes = {"train": num_train, "validation": num_validation, "test": num_test}
        self.seed = seed

    def load(self) -> DatasetDict:
        rows = {
            split: [self._row(np.random.default_rng((self.seed, number, i)), f"{split}-{i}") for i in range(size)]
            for number, (split, size) in enumerate(self.sizes.items())
        }
        return rows_to_splits(rows, self.multilabel)

    def _row(self, generator: np.random.Generator, name: str) -> dict[str, Any]:
        num_classes, per_class = len(self.class_names), self.signal_words_per_class
        if self.multilabel:
            labels = np.flatnonzero(generator.random(num_classes) < self.class_probability).tolist()
        else:
            labels = [int(generator.integers(num_classes))]
        signals = {}
        for label in labels:
            count = generator.integers(*self.signals_per_document, endpoint=True)
            signals[label] = (label * per_class + generator.integers(per_class, size=count)).tolist()
        length = int(generator.integers(*self.words_per_document, endpoint=True))
        background = np.arange(num_classes * per_class, len(self.words))
        text, rationales = planted_document(self.words, signals, background, length, generator)
        if name.startswith("train"):
            labels = self._noisy(labels, generator)
        return {"text": text, "labels": labels if self.multilabel else labels[0], "rationales": rationales, "id": name}

    def _noisy(self, labels: list[int], generator: np.random.Generator) -> list[int]:
        num_classes = len(self.class_names)
        if self.multilabel:
            flipped = generator.random(num_classes) < self.label_noise
            return [label for label in range(num_classes) if (label in labels) != flipped[label]]
        if generator.random() >= self.label_noise:
            return labels
        return [int(labels[0] + generator.integers(1, num_classes)) % num_classes]
