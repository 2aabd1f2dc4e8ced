"""Any corpus in the ERASER format: documents, and annotations that name evidence by token numbers."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rows_to_dataset
from lightning_xai.functional.spans import merge_spans, word_offsets

SPLIT_FILES = {"train": "train.jsonl", "validation": "val.jsonl", "test": "test.jsonl"}


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a file with one JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def document_ids(annotation: dict[str, Any]) -> list[str]:
    """Returns the documents that an annotation is about: as listed, or those of its evidence, or its namesake."""
    listed = annotation.get("docids") or [e["docid"] for group in annotation["evidences"] for e in group]
    return list(dict.fromkeys(listed)) or [annotation["annotation_id"]]


def evidence_spans(evidences: list[list[dict[str, Any]]], documents: dict[str, str], name: str) -> list[list[int]]:
    """Returns merged character spans in the documents joined by line breaks, in their order.

    Args:
        evidences: groups of {"docid", "start_token", "end_token"}; tokens are between white space, the end exclusive.
        documents: the documents of this annotation.
        name: the annotation, for errors.
    """
    spans, begin = [], 0
    for document_id, text in documents.items():
        words = word_offsets(text)
        for evidence in (e for group in evidences for e in group if e["docid"] == document_id):
            first, end = evidence["start_token"], evidence["end_token"]
            if not 0 <= first <= end <= len(words):
                raise ValueError(
                    f"{name}: evidence tokens {first}-{end} are outside {document_id}: {len(words)} tokens"
                )
            if first < end:  # ERASER Movies has evidence without a token
                spans.append([begin + int(words[first, 0]), begin + int(words[end - 1, 1])])
        begin += len(text) + 1
    return merge_spans(spans)


class Eraser(TextSource):
    """Rows of train.jsonl, val.jsonl and test.jsonl, whose documents lie in docs/ or in docs.jsonl.

    The rationale of a row's class is all its evidence. A row about several documents has them joined by line breaks.

    Args:
        data_dir: the corpus folder.
        class_names: the values of "classification", in the order of the classes; None for those found, sorted.
        query_as_pair: whether the query becomes `text_pair`; of use only where it varies.

    Raises:
        ValueError: on loading, if a file, a document or a class is missing, or evidence is outside its document.

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
        splits = {}
        for split, rows in self._annotations().items():
            splits[split] = rows_to_dataset([self._row(row, documents) for row in rows])
        return DatasetDict(splits)

    def _document(self, document_id: str, collected: dict[str, str]) -> str:
        path = self.data_dir / "docs" / document_id
        if document_id not in collected and not path.is_file():
            raise ValueError(f"document {document_id!r} is neither in docs.jsonl nor in docs/ of {self.data_dir}")
        return collected.get(document_id) or path.read_text(encoding="utf-8")

    def _row(self, annotation: dict[str, Any], collected: dict[str, str]) -> dict[str, Any]:
        name, value = annotation["annotation_id"], annotation["classification"]
        if value not in self.class_names:
            raise ValueError(f"{name}: classification {value!r} is not in class_names {self.class_names}")
        documents = {i: self._document(i, collected) for i in document_ids(annotation)}
        spans = evidence_spans(annotation["evidences"], documents, name)
        label = self.class_names.index(value)
        row = {"text": "\n".join(documents.values()), "labels": label, "id": name}
        row["rationales"] = [{"label": label, "spans": spans}] if spans else []
        return row | ({"text_pair": annotation["query"]} if self.query_as_pair else {})
