"""Long multi-label documents that are composed of labeled texts from other sources."""

from __future__ import annotations

from typing import Any

import numpy as np
from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rows_to_splits


def join_snippets(snippets: list[tuple[int | None, str]], separator: str) -> tuple[str, list[dict[str, Any]]]:
    """Returns the joined text and its rationales. The rationale of a class is its snippets' character spans.

    Args:
        snippets: pairs of a class (None for filler) and a text.
        separator: text between snippets.

    Example:
        >>> join_snippets([(1, "good"), (None, "so so")], " | ")
        ('good | so so', [{'label': 1, 'spans': [[0, 4]]}])
    """
    spans: dict[int, list[list[int]]] = {}
    begin = 0
    for label, text in snippets:
        if label is not None:
            spans.setdefault(label, []).append([begin, begin + len(text)])
        begin += len(text) + len(separator)
    text = separator.join(text for _, text in snippets)
    return text, [{"label": label, "spans": spans[label]} for label in sorted(spans)]


class Bundle(TextSource):
    """Documents in which labeled snippets are mixed with filler, which supports no class.

    The labels of a document are the classes of its snippets. The rationale of a class consists of the spans of its
    snippets. With several sources, classes are named "source/class", for instance "movie/positive". No snippet is in
    two splits or twice in a document. Additional test splits of the sources are ignored.

    Args:
        sources: single-label sources, whose rows are the labeled snippets.
        evidence_per_document: smallest and largest number of labeled snippets in a document. The class of each snippet
            is drawn uniformly.
        filler_per_document: smallest and largest number of filler snippets in a document; `words_per_document` may
            require more.
        words_per_document: smallest and largest target length of a document, in whitespace words. The target of each
            document is drawn from this range, and filler is added until the target is reached. None for no target.
        train_words_per_document: the same range for the training split; by default, `words_per_document`. A network
            learns faster from short documents.
        separator: text between snippets.
        num_train, num_validation, num_test: numbers of documents in the three splits.
        seed: seed of all random choices. If only a `num_...` changes, the first documents of its split stay the same.
        filler_sources: sources whose `load_filler` gives the filler; by default, `sources`. Labeled snippets come only
            from `sources`.

    Raises:
        ValueError: there is no source, a source is multi-label, or two sources have the same name. `load` raises the
            error if a split has too few snippets.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> source = Bundle([Planted()], filler_per_document=(0, 0), num_train=1, num_validation=1, num_test=1)
        >>> row = source.load()["train"][0]
        >>> row["labels"] == [rationale["label"] for rationale in row["rationales"]]
        True
    """

    name = "bundle"
    multilabel = True

    def __init__(
        self,
        sources: list[TextSource],
        evidence_per_document: tuple[int, int] = (2, 4),
        filler_per_document: tuple[int, int] = (1, 2),
        words_per_document: tuple[int, int] | None = None,
        separator: str = " ",
        num_train: int = 600,
        num_validation: int = 60,
        num_test: int = 60,
        seed: int = 0,
        filler_sources: list[TextSource] | None = None,
        train_words_per_document: tuple[int, int] | None = None,
    ) -> None:
        names = [source.name for source in sources]
        if not sources or len(set(names)) < len(names):
            raise ValueError(f"sources are named {names}; give one or more sources with different names")
        for source in sources:
            if source.multilabel:
                raise ValueError(
                    f"source {source.name!r} is multi-label, so its texts have no single class; leave this source out"
                )
        self.sources = sources
        self.filler_sources = sources if filler_sources is None else filler_sources
        prefixes = [f"{name}/" for name in names] if len(sources) > 1 else [""]
        self.class_names = [p + c for p, source in zip(prefixes, sources, strict=True) for c in source.class_names]
        self.evidence_per_document = evidence_per_document
        self.filler_per_document = filler_per_document
        self.words_per_document = words_per_document
        self.train_words_per_document = train_words_per_document
        self.separator = separator
        self.sizes = {"train": num_train, "validation": num_validation, "test": num_test}
        self.seed = seed

    def prepare(self) -> None:
        for source in {id(source): source for source in [*self.sources, *self.filler_sources]}.values():
            source.prepare()

    def load(self) -> DatasetDict:
        snippets: dict[str, list[list[str]]] = {split: [] for split in self.sizes}  # split -> texts of each class
        filler: dict[str, list[str]] = {split: [] for split in self.sizes}
        for source in self.sources:
            splits = source.load()
            for split in self.sizes:
                texts, labels = splits[split]["text"], splits[split]["labels"]
                for label in range(len(source.class_names)):
                    snippets[split].append([text for text, gold in zip(texts, labels, strict=True) if gold == label])
        for source in self.filler_sources:
            filler_of_source = source.load_filler()
            for split in self.sizes:
                filler[split] += filler_of_source.get(split, [])
        rows = {}
        for number, (split, size) in enumerate(self.sizes.items()):
            generators = [np.random.default_rng((self.seed, number, i)) for i in range(size)]
            words = (split == "train" and self.train_words_per_document) or self.words_per_document
            rows[split] = [
                self._row(f"{split}-{i}", snippets[split], filler[split], words, generator)
                for i, generator in enumerate(generators)
            ]
        return rows_to_splits(rows, multilabel=True)

    def _row(
        self,
        name: str,
        snippets: list[list[str]],
        filler: list[str],
        words: tuple[int, int] | None,
        generator: np.random.Generator,
    ) -> dict[str, Any]:
        chosen = self._choose_evidence(name, snippets, generator)
        num_words = sum(len(text.split()) for _, text in chosen)
        chosen += self._choose_filler(name, filler, num_words, words, generator)
        chosen = [chosen[i] for i in generator.permutation(len(chosen))]
        text, rationales = join_snippets(chosen, self.separator)
        labels = [rationale["label"] for rationale in rationales]
        return {"text": text, "labels": labels, "rationales": rationales, "id": name}

    def _choose_evidence(
        self, name: str, snippets: list[list[str]], generator: np.random.Generator
    ) -> list[tuple[int | None, str]]:
        size = int(generator.integers(*self.evidence_per_document, endpoint=True))
        labels, counts = np.unique(generator.integers(len(snippets), size=size), return_counts=True)
        chosen: list[tuple[int | None, str]] = []
        for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
            texts = snippets[label]
            if count > len(texts):
                raise ValueError(
                    f"document {name} needs {count} snippets of class {self.class_names[label]!r}, but its split has "
                    "fewer; add data, or lower evidence_per_document"
                )
            chosen += [(label, texts[i]) for i in generator.choice(len(texts), count, replace=False)]
        return chosen

    def _choose_filler(
        self,
        name: str,
        filler: list[str],
        num_evidence_words: int,
        words: tuple[int, int] | None,
        generator: np.random.Generator,
    ) -> list[tuple[int | None, str]]:
        num_filler = int(generator.integers(*self.filler_per_document, endpoint=True))
        goal = int(generator.integers(*words, endpoint=True)) if words else 0
        order = iter(generator.permutation(len(filler)).tolist())
        chosen: list[tuple[int | None, str]] = []
        num_words = num_evidence_words
        while len(chosen) < num_filler or num_words < goal:
            text = next((filler[i] for i in order), None)
            if text is None:
                raise ValueError(
                    f"document {name} needs at least {num_filler} filler snippets and {goal} words in all, but its "
                    f"split has only {len(filler)} filler snippets; lower filler_per_document or words_per_document"
                )
            chosen.append((None, text))
            num_words += len(text.split())
        return chosen
