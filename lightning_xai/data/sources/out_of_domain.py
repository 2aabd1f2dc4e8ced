"""Adds splits of other sources as additional test splits, so that a run is also tested out of domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from datasets import Dataset, DatasetDict

from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.row_stream import RowStream, read_rows
from lightning_xai.data.tables.stored_rows import stored_rows
from lightning_xai.functional.classes.class_names import comparable_names, listed


def matched_classes(
    names: Sequence[str], data_names: Sequence[str], mapping: Mapping[str, str | None], owner: str
) -> list[int | None]:
    """Returns, for each of `names`, the index of the same class in `data_names`, or None if the class is left out.

    Args:
        names: class names of an added source.
        data_names: class names of the training source.
        mapping: class of the added source -> name of the same class in `data_names`, or None to leave out the class.
            All other classes are matched by name, ignoring case, hyphens, underscores and white space.
        owner: name of the added source, for error messages.

    Raises:
        ValueError: a class has no counterpart, `mapping` names an unknown class, or all classes are left out.

    Example:
        >>> matched_classes(["Positive", "Negative"], ["negative", "positive"], {}, "movies")
        [1, 0]
        >>> matched_classes(["neg", "none"], ["negative", "positive"], {"neg": "negative", "none": None}, "movies")
        [0, None]
        >>> matched_classes(["NEG", "POS"], ["negative", "positive"], {}, "movies")
        Traceback (most recent call last):
        ValueError: movies has the class 'NEG', which is not one of ['negative', 'positive']: set `classes: {movies:...
    """
    theirs, ours = comparable_names(names, data_names)
    for name, target in mapping.items():
        for one, known in ((name, names), (target, data_names)):
            if one is not None and one not in known:
                raise ValueError(
                    f"`classes` for {owner} has {one!r}, which is not one of {listed(known)}: correct the name"
                )
    positions: list[int | None] = []
    for name, comparable in zip(names, theirs, strict=True):
        if name in mapping:
            target = mapping[name]
            positions.append(None if target is None else list(data_names).index(target))
        elif comparable in ours:
            positions.append(ours.index(comparable))
        else:
            raise ValueError(
                f"{owner} has the class {name!r}, which is not one of {listed(data_names)}: set `classes: "
                f"{{{owner}: {{{name}: ...}}}}`, where ... is one of these names, or null to leave out this class"
            )
    if all(position is None for position in positions):
        raise ValueError(f"`classes` for {owner} leaves out all of {listed(names)}: keep at least one class")
    return positions


def with_classes(row: Mapping[str, Any], positions: Sequence[int | None]) -> dict[str, Any] | None:
    """Returns a row with new class numbers, or None if the row's class is left out.

    Args:
        row: a row with the columns of TextSource.
        positions: for each class, its new number, or None if it is left out. A multi-label row is always kept, but
            without the labels that are left out.

    Example:
        >>> with_classes({"text": "good", "labels": 0, "id": "a"}, [1, 0])
        {'text': 'good', 'labels': 1, 'id': 'a'}
    """
    labels = row["labels"]
    if isinstance(labels, list):
        moved: Any = sorted({new for label in labels if (new := positions[label]) is not None})
    else:
        moved = positions[labels]
    if moved is None:
        return None
    if "rationales" not in row:
        return {**row, "labels": moved}
    spans: dict[int, list] = {}  # if two classes get the same number, their spans are joined
    for part in row["rationales"] or []:
        if (new := positions[part["label"]]) is not None:
            spans.setdefault(new, []).extend(part["spans"])
    rationales = [{"label": label, "spans": sorted(map(list, label_spans))} for label, label_spans in spans.items()]
    return {**row, "labels": moved, "rationales": rationales}


class OutOfDomain(TextSource):
    """A training source, with additional test splits from other sources. The keys of `others` name these splits.

    Training and validation use `source` alone. The classes of the other sources are matched by name.

    Args:
        source: the training source.
        others: name of the new split -> the source of its rows.
        splits: name of the new split -> name of the split to read from its source; "test" by default.
        max_lengths: name of the new split -> largest number of tokens of an example, special tokens included; by
            default, the encoder's limit. If truncation removes evidence, only the remaining evidence counts.
        classes: name of the new split -> mapping from the classes of its source to classes of `source`. The mapping
            needs an entry only for a class that `source` lacks or names differently. The entry class -> null leaves out
            the class: single-label rows of this class are dropped, and multi-label rows only lose this label.

    Raises:
        ValueError: `others` is empty, or one of its names is a split of `source`; `splits`, `max_lengths` or
            `classes` has a name that is not in `others`; or single-label and multi-label sources are mixed. `load`
            raises the error if a source lacks the split that is read, or has a class without a counterpart.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> source = OutOfDomain(Planted(num_train=8), {"other": Planted(num_test=3, seed=1)})
        >>> {split: len(rows) for split, rows in source.load().items()}
        {'train': 8, 'validation': 64, 'test': 64, 'other': 3}
    """

    def __init__(
        self,
        source: TextSource,
        others: dict[str, TextSource],
        splits: dict[str, str] | None = None,
        max_lengths: dict[str, int] | None = None,
        classes: dict[str, dict[str, str | None]] | None = None,
    ) -> None:
        if not others:
            raise ValueError("`others` is empty: give at least one other source, or use the training source alone")
        for option, given in {"splits": splits, "max_lengths": max_lengths, "classes": classes}.items():
            for name in given or {}:
                if name not in others:
                    raise ValueError(
                        f"`{option}` has {name!r}, which is not one of the names in `others`: {', '.join(others)}"
                    )
        for name, other in others.items():
            if name in ("train", "validation", "test"):
                raise ValueError(f"`others` has {name!r}, which is a split of the training source: choose another name")
            if other.multilabel != source.multilabel:
                kinds = ["single-label", "multi-label"]
                raise ValueError(
                    f"{name} is {kinds[other.multilabel]}, but the training source is {kinds[source.multilabel]}: "
                    "remove the added source from `others`"
                )
        self.name, self.multilabel = source.name, source.multilabel
        self.source, self.others = source, others
        self.splits, self.classes = splits or {}, classes or {}
        self.max_lengths = max_lengths or {}

    @cached_property
    def class_names(self) -> list[str]:
        return list(self.source.class_names)

    @property
    def sources(self) -> list[TextSource]:
        """The training source and the other sources, all with the `work_folder` of this source."""
        sources = [self.source, *self.others.values()]
        for source in sources:
            source.work_folder = self.work_folder
        return sources

    def prepare(self) -> None:
        for source in self.sources:
            source.prepare()

    def release(self) -> None:
        for source in self.sources:
            source.release()

    def report(self) -> list[str]:
        return [line for source in self.sources for line in source.report()]

    def remote_revision(self) -> str:
        revisions = [source.remote_revision() for source in self.sources]
        return " ".join(revisions) if any(revisions) else ""

    def load_filler(self) -> dict[str, list[str]]:
        return self.source.load_filler()

    def load(self) -> DatasetDict:
        splits = self.sources[0].load()
        return DatasetDict({**splits, **self._added(splits)})

    def row_streams(self) -> Mapping[str, RowStream]:
        streams = self.sources[0].row_streams()
        if not streams:
            return {}
        added = self._added(streams)
        return {**streams, **{name: RowStream(partial(read_rows, d), d.column_names) for name, d in added.items()}}

    def _added(self, splits: Mapping[str, Any]) -> dict[str, Dataset]:
        for name in self.others:
            if name in splits:
                raise ValueError(f"`others` has {name!r}, which is a split of the training source: choose another name")
        return {name: self._stored(name) for name in self.others}

    def has_weak_rationales(self, split: str) -> bool:
        if split in self.others:
            return self.others[split].has_weak_rationales(self.splits.get(split, "test"))
        return self.source.has_weak_rationales(split)

    def _stored(self, name: str) -> Dataset:
        """Returns the rows of an added split; a large split is kept on disk instead of in memory."""
        other, split = self.others[name], self.splits.get(name, "test")
        rows = other.row_streams() or other.load()
        if split not in rows:
            raise ValueError(
                f"the source of {name!r} has no split {split!r}, only {', '.join(rows)}: name one of these in `splits`"
            )
        positions = matched_classes(other.class_names, self.class_names, self.classes.get(name, {}), name)
        columns = rows[split].column_names
        moved = (with_classes(row, positions) for row in read_rows(rows[split]))
        kept = ({column: row.get(column) for column in columns} for row in moved if row is not None)
        return stored_rows(kept, columns, multilabel=self.multilabel, folder=self.work_folder)
