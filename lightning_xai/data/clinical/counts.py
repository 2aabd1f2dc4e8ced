"""Counts the admissions, notes, codes and spans of a medical corpus, and reports them beside published numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from lightning_xai.data.clinical.annotations import AnnotatedNote
from lightning_xai.data.clinical.documents import Document
from lightning_xai.data.clinical.published import Published


@dataclass(frozen=True)
class AnnotationCounts:
    """The numbers of annotated notes, of distinct (note, code) pairs, and of distinct (note, code, begin, end) spans.

    Example:
        >>> AnnotationCounts.of([], ["ICD-9-CM"])
        AnnotationCounts(notes=0, pairs=0, spans=0)
    """

    notes: int
    pairs: int
    spans: int

    @classmethod
    def of(cls, notes: Iterable[AnnotatedNote], systems: Collection[str]) -> AnnotationCounts:
        """Returns the counts of the notes' annotations in the given systems, before codes are mapped to classes."""
        used = [[one for one in note.annotations if one.system in systems] for note in notes]
        used = [annotations for annotations in used if annotations]
        pairs = sum(len({(one.system, one.code) for one in annotations}) for annotations in used)
        return cls(len(used), pairs, sum(map(len, used)))


@dataclass
class CountReport:
    """Counts of the admissions, documents, codes and spans that were read, and of what was left out.

    Attributes:
        published: the published numbers of the corpus.
        listed: split -> number of admissions in the list of the split.
        admissions: split -> number of admissions that have a document.
        charts: split -> number of listed admissions with a chart, if not all of them need one.
        documents: split -> number of documents.
        pairs, spans: split -> number of (document, code) pairs and of spans, after codes were mapped to classes.
        annotated: split -> counts of the annotations, before codes are mapped to classes.
        table: kind of note -> number of rows in NOTEEVENTS.
        shared_patients: number of patients with admissions in several splits.
        dropped: kind of item that was left out or merged -> number of such items.

    Example:
        >>> report = CountReport(Published({"test": 3_131}), {"test": 7})
        >>> report.add("test", [Document("7", 101, (0,), ("274.9",), {})])
        >>> print(*report.lines(), sep="\\n")
        test: 1 of 7 listed admissions (published: 3,131), 1 documents, 1 pairs of document and code
    """

    published: Published
    listed: dict[str, int]
    admissions: dict[str, int] = field(default_factory=dict)
    charts: dict[str, int] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)
    pairs: dict[str, int] = field(default_factory=dict)
    spans: dict[str, int] = field(default_factory=dict)
    annotated: dict[str, AnnotationCounts] = field(default_factory=dict)
    table: Mapping[str, int] = field(default_factory=dict)
    shared_patients: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, split: str, documents: Collection[Document]) -> None:
        """Counts the documents of a split."""
        self.admissions[split] = len({document.admission for document in documents})
        self.documents[split] = len(documents)
        self.pairs[split] = sum(len(document.codes) for document in documents)
        self.spans[split] = sum(len(spans) for document in documents for spans in document.spans.values())

    def lines(self) -> list[str]:
        """Returns a line for each split, then lines about NOTEEVENTS, shared patients, and what was left out."""
        lines = []
        for split, listed in self.listed.items():
            line = f"{split}: {self.admissions[split]:,} of {listed:,} listed admissions"
            line += _beside(self.published.admissions.get(split))
            if split in self.charts:
                line += f", {self.charts[split]:,} charts{_beside(self.published.charts.get(split))}"
            line += f", {self.documents[split]:,} documents, {self.pairs[split]:,} pairs of document and code"
            if split == "test" and self.published.results:
                line += f" (published results: {self.published.results})"
            if (before := self.annotated.get(split)) is not None:
                published = self.published.annotated.get(split, {})
                counts = [f"{number:,} {name}{_beside(published.get(name))}" for name, number in vars(before).items()]
                line += f", {self.spans[split]:,} spans; before codes were mapped to classes: {', '.join(counts)}"
            lines.append(line)
        if self.table:
            lines.append(
                "NOTEEVENTS: " + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in self.table.items())
            )
        if self.shared_patients:
            lines.append(f"patients in several splits: {self.shared_patients:,}")
        counted = [f"{number:,} {name}" for name, number in sorted(self.dropped.items()) if number]
        return [*lines, *([f"left out or merged: {', '.join(counted)}"] if counted else [])]


def _beside(published: int | None) -> str:
    return "" if published is None else f" (published: {published:,})"
