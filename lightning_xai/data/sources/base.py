"""The interface of every data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from datasets import DatasetDict


class TextSource(ABC):
    """Rows of text with labels and, where the data has them, rationales.

    Columns of every split that `load` returns:
        text (str), text_pair (str, optional),
        labels (int; a list of int if `multilabel`),
        rationales (optional): a list of {"label": int, "spans": list of [begin, end]} with character offsets into
            `text`, end exclusive; `label` is the class that the evidence speaks for,
        id (str): the row's name in its source.
    Splits: "train", "validation", "test", and any further test splits under names of their own.
    """

    class_names: list[str]
    multilabel: bool = False
    rationales_are_weak: bool = False  # True where spans come from a heuristic or lexicon, not from annotators

    @abstractmethod
    def load(self) -> DatasetDict:
        """Returns the splits. Called after construction, on every process; downloads belong in `prepare`."""

    def prepare(self) -> None:
        """Fetches what `load` needs; called once a node, before any process loads."""

    def summary(self) -> dict[str, Any]:
        """Returns facts about the data worth logging."""
        return {"source": type(self).__name__, "num_classes": len(self.class_names), "multilabel": self.multilabel}
