"""Facts about a source that are stored when its rows are loaded, so that later processes need not load the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.row_stream import Rows, RowStream, read_rows
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.files.whole_folders import make_private


@dataclass(frozen=True)
class SourceTable:
    """The classes and the splits of a source.

    Attributes:
        class_names: names of the classes 0, 1, ...
        num_rows: split -> number of rows.
        columns: split -> names of the columns.
        shared_texts: the results of `shared_text_fractions`: one tuple for each pair of splits with common texts.
        report: lines about the rows that were read or left out.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> source = Planted(num_train=8, num_validation=4, num_test=2)
        >>> SourceTable.of(source, source.load()).num_rows
        {'train': 8, 'validation': 4, 'test': 2}
    """

    class_names: list[str]
    num_rows: dict[str, int]
    columns: dict[str, list[str]]
    shared_texts: list[tuple[str, str, float]]
    report: list[str]

    @classmethod
    def of(cls, source: TextSource, rows: Mapping[str, Rows]) -> SourceTable:
        """Returns the table of a source whose rows are loaded."""
        return cls(
            list(source.class_names),
            {split: len(part) for split, part in rows.items()},
            {split: list(part.column_names) for split, part in rows.items()},
            list(shared_text_fractions(rows)),
            source.report(),
        )

    @classmethod
    def read(cls, file: Path) -> SourceTable | None:
        """Returns the table in a file, or None if there is no file or the file is damaged."""
        try:
            facts = read_json(file)
            return cls(**{**facts, "shared_texts": [tuple(shared) for shared in facts["shared_texts"]]})
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, file: Path) -> None:
        """Writes the table to a file."""
        make_private(file.parent)
        write_json(file, asdict(self))

    @property
    def has_rationales(self) -> bool:
        """Whether any split has the column `rationales`."""
        return any("rationales" in names for names in self.columns.values())

    def warnings(self) -> list[str]:
        """Returns a line for each pair of splits that share texts."""
        return [
            f"results on split {other!r} may be too good, since {fraction:.1%} of its texts are also in split {one!r}: "
            "check data_files or remove the duplicates"
            for one, other, fraction in self.shared_texts
        ]


def shared_text_fractions(rows: Mapping[str, Rows]) -> Iterator[tuple[str, str, float]]:
    """Yields (first split, second split, fraction) for each pair of splits with common texts.

    The fraction is the number of rows in the second split whose text is also in the first split, divided by the number
    of all rows in the second split. If rows have two texts, the pairs of texts are compared.

    Example:
        >>> from lightning_xai.data.sources.base import rows_to_dataset
        >>> train = rows_to_dataset([{"text": "a"}, {"text": "b"}])
        >>> list(shared_text_fractions({"train": train, "test": rows_to_dataset([{"text": "b"}, {"text": "c"}])}))
        [('train', 'test', 0.5)]
    """
    hashes = {split: _text_hashes(part) for split, part in rows.items()}
    for one, other in combinations(hashes, 2):
        shared = float(np.isin(hashes[other], hashes[one]).mean()) if len(hashes[other]) else 0.0
        if shared:
            yield one, other, shared


def _text_hashes(rows: Rows) -> np.ndarray:
    if not isinstance(rows, RowStream):
        rows = rows.select_columns([name for name in ("text", "text_pair") if name in rows.column_names])
    return np.fromiter((hash((row["text"], row.get("text_pair"))) for row in read_rows(rows)), np.int64, len(rows))
