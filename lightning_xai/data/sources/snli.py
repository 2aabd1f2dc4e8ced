"""Stanford Natural Language Inference (SNLI), from the hub or local files, and e-SNLI (SNLI with marked words)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rationales_of, rows_to_splits
from lightning_xai.data.sources.hub import Hub, check_label_names, is_saved_dataset
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.text.spans import spans_from_mask, word_offsets

Main = Literal["premise", "hypothesis"]
CLASSES = ["entailment", "neutral", "contradiction"]  # in the order of the hub's label numbers
WITHOUT_LABEL = ("-", -1)  # these values mean that a row has no gold label, because the annotators disagreed
SPLITS = {"train": "train", "validation": "dev", "test": "test"}  # split -> its name in file names
SIDES = {"premise": 1, "hypothesis": 2}  # sentence -> the sentence's number in column names
MOST_ANNOTATORS = 3


def marked_words(marked: str, text: str, location: str) -> list[bool]:
    """Returns a bool for each word of `text`, split at white space: True if the word is in asterisks in `marked`.

    Raises:
        ValueError: `marked` is not `text` with asterisks around some of its words.

    Example:
        >>> marked_words("A *gun*", "A gun", "row 1")
        [False, True]
    """
    words, marks = text.split(), marked.split()
    if len(words) != len(marks) or any(m not in (w, f"*{w}*") for w, m in zip(words, marks, strict=True)):
        raise ValueError(
            f"{location}: {marked[:60]!r} must be {text[:60]!r} with asterisks around some words; correct the row"
        )
    return [m == f"*{w}*" for w, m in zip(words, marks, strict=True)]


def read_sentence_files(folder: Path, part: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of s1.{part}, s2.{part} and labels.{part}. Line i of each file belongs to row i.

    Raises:
        ValueError: a file is missing, or the files differ in their number of lines.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, line in {"s1": "A dog runs", "s2": "It moves", "labels": "entailment"}.items():
        ...         _ = Path(folder, f"{name}.dev").write_text(line)
        ...     [(row["hypothesis"], row["id"]) for row in read_sentence_files(Path(folder), "dev")]
        [('It moves', 'dev-1')]
    """
    paths = [folder / f"{name}.{part}" for name in ("s1", "s2", "labels")]
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path} is missing; {folder} must have s1.{part}, s2.{part} and labels.{part}")
    columns = [path.read_text(encoding="utf-8").removesuffix("\n").split("\n") for path in paths]
    for path, column in zip(paths, columns, strict=True):
        if len(column) != len(columns[0]):
            raise ValueError(f"{path} has {len(column)} lines, but {paths[0]} has {len(columns[0])}; copy both again")
    for line, (premise, hypothesis, label) in enumerate(zip(*columns, strict=True), start=1):
        yield {
            "premise": premise.strip(), "hypothesis": hypothesis.strip(), "label": label.strip(),
            "id": f"{part}-{line}", "where": f"{paths[2]}, line {line}",
        }  # fmt: skip


def read_json_lines(folder: Path, part: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of snli_1.0_{part}.jsonl, a file of the published archive.

    Example:
        >>> import tempfile
        >>> row = {"sentence1": "A dog runs", "sentence2": "It moves", "gold_label": "entailment", "pairID": "7"}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "snli_1.0_dev.jsonl").write_text(json.dumps(row))
        ...     [row["premise"] for row in read_json_lines(Path(folder), "dev")]
        ['A dog runs']
    """
    path = folder / f"snli_1.0_{part}.jsonl"
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            row = json.loads(line)
            yield {
                "premise": row["sentence1"], "hypothesis": row["sentence2"], "label": row["gold_label"],
                "id": row["pairID"], "where": f"{path}, line {number}",
            }  # fmt: skip


def read_highlights(folder: Path, part: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of esnli_{part}.csv. The part "train" has two files, esnli_train_1.csv and esnli_train_2.csv.

    The values of "premise_masks" and "hypothesis_masks" are lists with one mask per annotator. A mask has a bool for
    each word: True if the annotator marked the word.

    Raises:
        ValueError: a column is missing, or a marked sentence differs from its sentence in more than asterisks.

    Example:
        >>> import tempfile
        >>> header = "pairID,gold_label,Sentence1,Sentence2,Sentence1_marked_1,Sentence2_marked_1"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "esnli_dev.csv")
        ...     _ = path.write_text(header + "\\n7,entailment,A dog runs,It moves,A *dog* runs,It *moves*\\n")
        ...     [row["premise_masks"] for row in read_highlights(Path(folder), "dev")]
        [[[False, True, False]]]
    """
    for path in sorted(folder.glob(f"esnli_{part}*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            needed = {"pairID", "gold_label", "Sentence1", "Sentence2", "Sentence1_marked_1", "Sentence2_marked_1"}
            missing = sorted(needed - set(rows.fieldnames or []))
            if missing:
                raise ValueError(f"{path} has no column {', '.join(missing)}; it is not a file of e-SNLI")
            for row in rows:
                where = f"{path}, line {rows.line_num}"
                example: dict[str, Any] = {"label": row["gold_label"], "id": row["pairID"], "where": where}
                for side, number in SIDES.items():
                    text = row[f"Sentence{number}"]
                    marked = [row.get(f"Sentence{number}_marked_{i + 1}") for i in range(MOST_ANNOTATORS)]
                    masks = [marked_words(marks, text, where) for marks in marked if marks and marks != "NA"]
                    example |= {side: text, f"{side}_masks": masks}
                yield example


# pattern of file names -> function that reads a split from such files; the first pattern that matches a file is used
READERS: dict[str, Callable[[Path, str], Iterator[dict[str, Any]]]] = {
    "esnli_{part}*.csv": read_highlights,
    "snli_1.0_{part}.jsonl": read_json_lines,
    "s1.{part}": read_sentence_files,
}


class SNLI(TextSource):
    """Pairs of a premise and a hypothesis, with the classes entailment, neutral and contradiction.

    Rows without a gold label are left out. One sentence of a pair is `text`, the other `text_pair`. To explain and
    erase `text` only, set the encoder's `explain_pair` to false. In e-SNLI, the rationale of the gold class consists of
    the words of `text` that at least half of the annotators marked. In neutral rows, no words of premises are marked.

    Args:
        path: a Hugging Face hub id, or a folder with the files of each split (train, dev or test): esnli_{split}.csv
            (two files for train); or snli_1.0_{split}.jsonl; or s1.{split}, s2.{split} and labels.{split}. The first of
            these formats that exists is read. A split without files is left out. A folder that
            `DatasetDict.save_to_disk` wrote, with the hub's columns, is read too.
        main: the sentence that becomes `text`: "premise" or "hypothesis". Only hypotheses have marked words in all
            classes.
        revision: commit, tag or branch on the hub; None for the newest version.

    Raises:
        ValueError: `main` is unknown. `load` raises the error if a folder has no such files, or if a row has a wrong
            label or wrong marks. The message about a row says where the row is.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name, line in {"s1": "A dog runs", "s2": "It moves", "labels": "entailment"}.items():
        ...         _ = Path(folder, f"{name}.dev").write_text(line)
        ...     SNLI(folder).load()["validation"][0]
        {'text': 'A dog runs', 'text_pair': 'It moves', 'labels': 0, 'id': 'dev-1'}

    Reference: Bowman et al. (2015), "A large annotated corpus for learning natural language inference", arXiv
        1508.05326; highlights: Camburu et al. (2018), "e-SNLI", arXiv 1812.01193.
    """

    name = "snli"

    def __init__(self, path: str = "stanfordnlp/snli", main: Main = "premise", revision: str | None = None) -> None:
        require_choices({"main": Main}, {"main": main})
        self.class_names = list(CLASSES)
        self.path = path
        self.main = main
        self.revision = revision

    def prepare(self) -> None:
        if not self._readers():
            self._hub().prepare()

    def remote_revision(self) -> str:
        return "" if Path(self.path).is_dir() else self._hub().remote_revision()

    def _hub(self) -> Hub:
        return Hub(self.path, revision=self.revision)

    def _readers(self) -> dict[str, Callable[[Path, str], Iterator[dict[str, Any]]]]:
        """Returns split -> the function that reads its files, for the splits that the folder has."""
        chosen = {}
        for split, part in SPLITS.items():
            readers = [r for pattern, r in READERS.items() if any(Path(self.path).glob(pattern.format(part=part)))]
            if readers:
                chosen[split] = readers[0]
        return chosen

    def _splits(self) -> dict[str, Iterator[dict[str, Any]]]:
        if readers := self._readers():
            return {split: read(Path(self.path), SPLITS[split]) for split, read in readers.items()}
        if Path(self.path).is_dir() and not is_saved_dataset(self.path):
            raise ValueError(
                f"{self.path} holds no files of SNLI: it must have one of {', '.join(READERS)} for at least one "
                "{part} (train, dev or test)"
            )
        table = self._hub().load_table()
        for rows in table.values():
            check_label_names(rows, "label", CLASSES, self.path)
        return {split: hub_rows(rows, split) for split, rows in table.items()}

    def load(self) -> DatasetDict:
        splits = self._splits().items()
        return rows_to_splits(
            {split: [self._row(row) for row in rows if row["label"] not in WITHOUT_LABEL] for split, rows in splits}
        )

    def _row(self, raw: dict[str, Any]) -> dict[str, Any]:
        if raw["label"] not in CLASSES:
            raise ValueError(
                f"{raw['where']}: label {raw['label']!r} is neither {', '.join(CLASSES)} nor '-'; correct it"
            )
        label = CLASSES.index(raw["label"])
        pair = next(side for side in SIDES if side != self.main)
        row = {"text": raw[self.main], "text_pair": raw[pair], "labels": label, "id": raw["id"]}
        masks = raw.get(f"{self.main}_masks")
        if masks is None:
            return row
        words = word_offsets(row["text"])
        spans = spans_from_mask(np.mean(masks, axis=0) >= 0.5, words, row["text"]) if masks and len(words) else []
        return row | {"rationales": rationales_of(label, spans)}


def hub_rows(rows: Any, split: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a split from the hub, with class names in place of the hub's label numbers.

    Example:
        >>> row = {"premise": "A dog runs", "hypothesis": "It moves", "label": 0}
        >>> next(hub_rows([row], "test"))["label"]
        'entailment'
    """
    for i, row in enumerate(rows):
        label = row["label"]
        named = CLASSES[label] if 0 <= label < len(CLASSES) else label
        yield {
            "premise": row["premise"], "hypothesis": row["hypothesis"], "label": named, "id": f"{split}-{i}",
            "where": f"{split} row {i}",
        }  # fmt: skip
