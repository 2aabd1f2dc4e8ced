"""Stanford Sentiment Treebank: sentences with a sentiment for every phrase, from which rationales are derived."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rationales_of, rows_to_splits
from lightning_xai.data.sources.hub import Hub, is_saved_dataset
from lightning_xai.functional.text.spans import spans_from_mask, word_offsets

SPLITS = {"train": "train", "validation": "dev", "test": "test"}  # split -> its name in file names
COLUMN = "ptb_tree"  # the hub's column of bracketed trees


class Tree(NamedTuple):
    """A phrase with its sentiment from 0 (very negative) to 4 (very positive). A leaf has a word and no children.

    Example:
        >>> Tree(4, (Tree(2, word="very"), Tree(3, word="good"))).children[1].word
        'good'
    """

    label: int
    children: tuple[Tree, ...] = ()
    word: str = ""


def parse_tree(line: str) -> Tree:
    """Returns the tree that a line describes in the bracket notation of the Penn Treebank.

    Raises:
        ValueError: a bracket does not close.

    Example:
        >>> parse_tree("(4 (2 very) (3 good))").label
        4
    """
    stack: list[tuple[int, list[Tree]]] = []
    # only ASCII spaces separate words, because some words contain a no-break space
    for opening, word, closing in re.findall(r"\((\d) ?|([^ ()\n]+)|(\))", line):
        if opening:
            stack.append((int(opening), []))
        elif word:
            label, _ = stack.pop()
            stack.append((label, [Tree(-1, word=word)]))
        elif closing:
            label, children = stack.pop()
            is_leaf = len(children) == 1 and children[0].label == -1
            tree = Tree(label, word=children[0].word) if is_leaf else Tree(label, tuple(children))
            if not stack:
                return tree
            stack[-1][1].append(tree)
    raise ValueError(f"some brackets do not close in the tree {line[:60]!r}")


def leaves(tree: Tree) -> list[str]:
    """Returns the words of the phrase.

    Example:
        >>> leaves(parse_tree("(4 (2 very) (3 good))"))
        ['very', 'good']
    """
    return [word for child in tree.children for word in leaves(child)] if tree.children else [tree.word]


def phrase_scores(tree: Tree) -> list[float]:
    """Returns a score of 0, 0.5 or 1 per word: the strength of the largest decisive phrase that contains the word.

    The strength of a phrase is half the distance of its sentiment from neutral. A phrase is decisive if it is stronger
    than every smaller phrase and word inside it. A word without a decisive phrase gets its own strength.

    Example:
        >>> phrase_scores(parse_tree("(4 (2 very) (3 good))")), phrase_scores(parse_tree("(3 (2 a) (3 hit))"))
        ([1.0, 1.0], [0.0, 0.5])

    Reference: Carton, Rathore, Tan (2020), "Evaluating and Characterizing Human Rationales", arXiv 2010.04736, Sec. 3.
    """
    return _scored(tree)[0]


def _scored(tree: Tree) -> tuple[list[float], int, int]:
    """Returns the score of each word (see `phrase_scores`), and the lowest and highest sentiment in the tree."""
    strength = abs(tree.label - 2) / 2
    if not tree.children:
        return [strength], tree.label, tree.label
    parts = [_scored(child) for child in tree.children]
    scores = [score for part, _, _ in parts for score in part]
    low, high = min(low for _, low, _ in parts), max(high for _, _, high in parts)
    if strength > abs(low - 2) / 2 and strength > abs(high - 2) / 2:
        scores = [strength] * len(scores)
    return scores, min(low, tree.label), max(high, tree.label)


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a file of the treebank.

    Raises:
        ValueError: the file is missing.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "dev.txt").write_text("(3 good)")
        ...     read_lines(Path(folder, "dev.txt"))
        ['(3 good)']
    """
    if not path.is_file():
        raise ValueError(f"{path} is missing; the folder must hold the treebank's train.txt, dev.txt and test.txt")
    with path.open(encoding="utf-8", newline="\n") as lines:
        return list(lines)


class SST(TextSource):
    """Sentences of movie reviews. Their rationales are weak, since they are derived from the labels of phrases.

    On the hub, the bracketed trees are in the configuration "ptb". A script defines the data set there, and `datasets`
    no longer runs scripts, so the hub's Parquet copy is read.

    Args:
        path: a Hugging Face hub id; a folder with train.txt, dev.txt and test.txt, one bracketed tree per line; a
            folder that `save_to_disk` wrote; or a copy of the hub's Parquet files that contains the folder `hub_dir`.
        binary: True for the classes negative and positive, without neutral sentences; False for five classes.
        rationale_threshold: a word is evidence if its phrase score (0, 0.5 or 1) is at least this number.
        min_words: sentences with fewer words are left out of every split. Punctuation marks count as words. Madsen et
            al. (2022), arXiv 2110.08412, use 6.
        revision: commit, tag or branch on the hub; None for the newest version. The newest version of stanfordnlp/sst
            is a script, which `datasets` cannot load.
        hub_dir: the folder, in the hub's data set, that has the trees (column "ptb_tree"); None to read all folders.

    Raises:
        ValueError: a number is out of range. `load` raises the error if a file, the data set, a split or the column is
            missing, or if brackets do not close in a tree.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in SPLITS.values():
        ...         _ = Path(folder, f"{name}.txt").write_text("(4 (2 very) (3 good))")
        ...     SST(folder).load()["test"][0]["rationales"]
        [{'label': 1, 'spans': [[0, 9]]}]

    Reference: Socher et al. (2013), "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank",
        EMNLP; rationales: see phrase_scores.
    """

    name = "sst"
    rationales_are_weak = True

    def __init__(
        self,
        path: str = "stanfordnlp/sst",
        binary: bool = True,
        rationale_threshold: float = 0.5,
        min_words: int = 1,
        revision: str | None = "refs/convert/parquet",
        hub_dir: str | None = "ptb",
    ) -> None:
        if not 0 < rationale_threshold <= 1:
            raise ValueError(f"rationale_threshold={rationale_threshold} must be above 0 and at most 1")
        if min_words < 1:
            raise ValueError(f"min_words is {min_words}: give at least 1")
        five = ["very negative", "negative", "neutral", "positive", "very positive"]
        self.class_names = ["negative", "positive"] if binary else five
        self.path = path
        self.binary = binary
        self.rationale_threshold = rationale_threshold
        self.min_words = min_words
        self.revision = revision
        self.hub_dir = hub_dir

    def prepare(self) -> None:
        if not self._is_treebank():
            self._hub().prepare()

    def _is_treebank(self) -> bool:
        folder = Path(self.path)
        downloaded = self.hub_dir is not None and (folder / self.hub_dir).is_dir()
        return folder.is_dir() and not is_saved_dataset(folder) and not downloaded

    def remote_revision(self) -> str:
        return "" if self._is_treebank() else self._hub().remote_revision()

    def _hub(self) -> Hub:
        splits = {split: split for split in SPLITS}
        return Hub(self.path, splits=splits, revision=self.revision, data_dir=self.hub_dir)

    def _lines(self) -> dict[str, Iterable[str]]:
        """Returns the bracketed trees of every split."""
        if self._is_treebank():
            return {split: read_lines(Path(self.path, f"{stem}.txt")) for split, stem in SPLITS.items()}
        table = self._hub().load_table()
        for split, rows in table.items():
            if COLUMN not in rows.column_names:
                raise ValueError(
                    f"{self.path}, split {split!r} has no column {COLUMN!r} with bracketed trees, only "
                    f"{', '.join(rows.column_names)}; on the hub, the trees are in the configuration 'ptb': set "
                    "hub_dir to the folder of this configuration, or path to a folder into which save_to_disk wrote it"
                )
        return {split: rows[COLUMN] for split, rows in table.items()}

    def load(self) -> DatasetDict:
        splits = {}
        for split, lines in self._lines().items():
            trees = {i: parse_tree(line) for i, line in enumerate(lines) if line.strip()}
            rows = [self._row(tree, f"{SPLITS[split]}-{i}") for i, tree in trees.items() if self._keeps(tree)]
            splits[split] = rows
        return rows_to_splits(splits)

    def _keeps(self, tree: Tree) -> bool:
        return (not self.binary or tree.label != 2) and len(leaves(tree)) >= self.min_words

    def _row(self, tree: Tree, name: str) -> dict[str, Any]:
        text = " ".join(leaves(tree))
        label = int(tree.label > 2) if self.binary else tree.label
        mask = np.array(phrase_scores(tree)) >= self.rationale_threshold
        spans = spans_from_mask(mask, word_offsets(text, ascii_space_only=True), text)
        return {
            "text": text,
            "labels": label,
            "rationales": rationales_of(label, spans),
            "id": name,
        }
