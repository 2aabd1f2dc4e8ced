"""Corpora in the ERASER format: documents, and annotations whose evidence is given as ranges of tokens."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rationales_of, rows_to_splits
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.functional.text.spans import merge_spans, word_offsets

SPLIT_FILES = {"train": "train.jsonl", "validation": "val.jsonl", "test": "test.jsonl"}


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a file with one JSON object per line.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "rows.jsonl")
        ...     _ = path.write_text('{"a": 1}\\n{"a": 2}\\n')
        ...     read_jsonl(path)
        [{'a': 1}, {'a': 2}]
    """
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def document_ids(annotation: dict[str, Any]) -> list[str]:
    """Returns the ids of an annotation's documents.

    These are the documents listed under "docids" or, if there are none, the documents of the evidence. An annotation
    with neither has one document, whose id is the annotation's id.

    Example:
        >>> document_ids({"annotation_id": "a1", "evidences": [[{"docid": "d7"}]]})
        ['d7']
        >>> document_ids({"annotation_id": "a1", "evidences": []})
        ['a1']
    """
    listed = annotation.get("docids") or [e["docid"] for group in annotation["evidences"] for e in group]
    return list(dict.fromkeys(listed)) or [annotation["annotation_id"]]


def evidence_spans(evidences: list[list[dict[str, Any]]], documents: dict[str, str], name: str) -> list[list[int]]:
    """Returns the merged character spans of an annotation's evidence, as offsets into the text of the annotation.

    The text consists of the annotation's documents, joined by line breaks.

    Args:
        evidences: groups of evidence. A group is a list of objects with the keys "docid", "start_token" and
            "end_token". Tokens are whitespace words, and the end is exclusive.
        documents: id -> text, for the documents of the annotation, in the order in which they are joined.
        name: id of the annotation, for error messages.

    Raises:
        ValueError: a range of evidence tokens is not inside its document.

    Example:
        >>> evidence_spans([[{"docid": "d", "start_token": 1, "end_token": 3}]], {"d": "a very good film"}, "a1")
        [[2, 11]]
    """
    spans, begin = [], 0
    for document_id, text in documents.items():
        words = word_offsets(text)
        for evidence in (e for group in evidences for e in group if e["docid"] == document_id):
            first, end = evidence["start_token"], evidence["end_token"]
            if not 0 <= first <= end <= len(words):
                raise ValueError(
                    f"{name}: evidence tokens {first}-{end} are outside document {document_id}, which has "
                    f"{quantity(len(words), 'token')}"
                )
            if first < end:  # skips empty ranges, which occur in ERASER Movies
                spans.append([begin + int(words[first, 0]), begin + int(words[end - 1, 1])])
        begin += len(text) + 1
    return merge_spans(spans)


class Eraser(TextSource):
    """A corpus of annotations (train.jsonl, val.jsonl and test.jsonl) and documents (in docs/ or docs.jsonl).

    Each annotation is a row. Its text is the annotation's documents, joined by line breaks. The rationale of the
    annotation's class consists of all evidence of the annotation.

    Args:
        data_dir: the corpus folder.
        class_names: names of the classes 0, 1, ...; by default, all values of the key "classification", sorted.
        query_as_pair: whether the query becomes `text_pair`. This is useful if the queries differ between rows.

    Raises:
        ValueError: `load` raises the error if a file or a document is missing, a classification is not a class name, or
            evidence is outside its document.

    Example:
        >>> import tempfile
        >>> annotation = {"annotation_id": "d", "classification": "POS", "query": "", "evidences": []}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for file in SPLIT_FILES.values():
        ...         _ = Path(folder, file).write_text(json.dumps(annotation))
        ...     _ = Path(folder, "docs.jsonl").write_text(json.dumps({"docid": "d", "document": "a good film"}))
        ...     Eraser(folder).load()["train"]["text"][:]
        ['a good film']

    Reference: DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", arXiv 1911.03429.
    """

    name = "eraser"

    def __init__(self, data_dir: str, class_names: list[str] | None = None, query_as_pair: bool = False) -> None:
        self.data_dir = Path(data_dir)
        self.query_as_pair = query_as_pair
        if class_names is not None:
            self.class_names = class_names

    @cached_property
    def class_names(self) -> list[str]:
        annotations = self._annotations().values()
        return sorted({annotation["classification"] for rows in annotations for annotation in rows})

    def _annotations(self) -> dict[str, list[dict[str, Any]]]:
        for file in SPLIT_FILES.values():
            if not (self.data_dir / file).is_file():
                raise ValueError(
                    f"{self.data_dir / file} is missing; data_dir must hold {', '.join(SPLIT_FILES.values())}"
                )
        return {split: read_jsonl(self.data_dir / file) for split, file in SPLIT_FILES.items()}

    def load(self) -> DatasetDict:
        collected = self.data_dir / "docs.jsonl"
        documents = {row["docid"]: row["document"] for row in read_jsonl(collected)} if collected.is_file() else {}
        annotations = self._annotations()
        return rows_to_splits({split: [self._row(a, documents) for a in annotations[split]] for split in annotations})

    def _document(self, document_id: str, collected: dict[str, str]) -> str:
        if document_id in collected:
            return collected[document_id]
        path = self.data_dir / "docs" / document_id
        if not path.is_file():
            raise ValueError(f"document {document_id!r} is neither in docs.jsonl nor in docs/ of {self.data_dir}")
        return path.read_text(encoding="utf-8")

    def _row(self, annotation: dict[str, Any], collected: dict[str, str]) -> dict[str, Any]:
        name, value = annotation["annotation_id"], annotation["classification"]
        if value not in self.class_names:
            raise ValueError(f"{name}: classification {value!r} is not in class_names {self.class_names}")
        documents = {i: self._document(i, collected) for i in document_ids(annotation)}
        spans = evidence_spans(annotation["evidences"], documents, name)
        label = self.class_names.index(value)
        text, rationales = "\n".join(documents.values()), rationales_of(label, spans)
        row = {"text": text, "labels": label, "rationales": rationales, "id": name}
        return row | ({"text_pair": annotation["query"]} if self.query_as_pair else {})
