"""Long multi-label documents put together from the labelled texts of other sources."""

from __future__ import annotations

from typing import Any

import numpy as np
from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rows_to_dataset


def join_snippets(snippets: list[tuple[int | None, str]], separator: str) -> tuple[str, list[dict[str, Any]]]:
    """Returns the joined text, and for each class the character spans of its snippets.

    Args:
        snippets: (class or None for filler, text).
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
    """Documents that mix labelled snippets with filler: a class is gold if one of its snippets is in the document.

    Class and evidence follow from the composition: the classes are the kinds of snippet, and the rationale of a class
    is where its snippets stand. With several sources a kind is "name/class", for instance "movie/positive". Snippets
    never cross splits, none is in a document twice, and further test splits of the sources are ignored.

    Args:
        sources: single-label sources; their rows are the evidence, their filler the rest.
        evidence_per_document: fewest and most evidence snippets; each is of a kind drawn uniformly.
        filler_per_document: fewest and most filler snippets.
        words_per_document: fewest and most whitespace words to aim at: further filler is added until a number drawn
            between them is reached, so the last snippet may go over it. None for no such aim.
        separator: what stands between snippets.
        num_train, num_validation, num_test: documents.
        seed: of everything; a document does not depend on how many there are.

    Raises:
        ValueError: a source is multi-label, names repeat, or (on loading) a split has too few snippets.
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
    ) -> None:
        names = [source.name for source in sources]
        if not sources or len(set(names)) < len(names):
            raise ValueError(f"sources are named {names}; give one or more, with names of their own")
        for source in sources:
            if source.multilabel:
                raise ValueError(f"source {source.name!r} is multi-label, so a snippet has no one kind; leave it out")
        self.sources = sources
        prefixes = [f"{name}/" for name in names] if len(sources) > 1 else [""]
        self.class_names = [p + c for p, source in zip(prefixes, sources, strict=True) for c in source.class_names]
        self.evidence_per_document = evidence_per_document
        self.filler_per_document = filler_per_document
        self.words_per_document = words_per_document
        self.separator = separator
        self.sizes = {"train": num_train, "validation": num_validation, "test": num_test}
        self.seed = seed

    def prepare(self) -> None:
        for source in self.sources:
            source.prepare()

    def load(self) -> DatasetDict:
        pools: dict[str, list[list[str]]] = {split: [] for split in self.sizes}  # split -> kind -> texts
        filler: dict[str, list[str]] = {split: [] for split in self.sizes}
        for source in self.sources:
            rows, unlabelled = source.load(), source.load_filler()
            for split in self.sizes:
                texts, labels = rows[split]["text"], rows[split]["labels"]
                for kind in range(len(source.class_names)):
                    pools[split].append([text for text, label in zip(texts, labels, strict=True) if label == kind])
                filler[split] += unlabelled.get(split, [])
        return DatasetDict(
            {
                split: rows_to_dataset(
                    [
                        self._row(
                            f"{split}-{i}", pools[split], filler[split], np.random.default_rng((self.seed, number, i))
                        )
                        for i in range(size)
                    ],
                    multilabel=True,
                )
                for number, (split, size) in enumerate(self.sizes.items())
            }
        )

    def _row(
        self, name: str, pools: list[list[str]], filler: list[str], generator: np.random.Generator
    ) -> dict[str, Any]:
        count = int(generator.integers(*self.evidence_per_document, endpoint=True))
        kinds, counts = np.unique(generator.integers(len(pools), size=count), return_counts=True)
        snippets: list[tuple[int | None, str]] = []
        for kind, wanted in zip(kinds.tolist(), counts.tolist(), strict=True):
            if wanted > len(pools[kind]):
                raise ValueError(f"{name}: {wanted} snippets of {self.class_names[kind]!r}, but the split has fewer")
            snippets += [(kind, pools[kind][i]) for i in generator.choice(len(pools[kind]), wanted, replace=False)]
        num_filler = int(generator.integers(*self.filler_per_document, endpoint=True))
        num_words = int(generator.integers(*self.words_per_document, endpoint=True)) if self.words_per_document else 0
        words = sum(len(text.split()) for _, text in snippets)
        order = iter(generator.permutation(len(filler)).tolist())
        used = 0
        while used < num_filler or words < num_words:
            text = next((filler[i] for i in order), None)
            if text is None:
                raise ValueError(
                    f"{name}: {len(filler)} filler snippets are too few for {num_filler} snippets and {num_words} words"
                    "; lower filler_per_document or words_per_document"
                )
            snippets.append((None, text))
            used, words = used + 1, words + len(text.split())
        snippets = [snippets[i] for i in generator.permutation(len(snippets))]
        text, rationales = join_snippets(snippets, self.separator)
        labels = [rationale["label"] for rationale in rationales]
        return {"text": text, "labels": labels, "rationales": rationales, "id": name}
