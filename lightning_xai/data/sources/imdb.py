"""IMDB movie reviews, from the hub or from the folder of the published archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, require_fractions, rows_to_splits, split_rows
from lightning_xai.data.sources.hub import Hub, check_label_names, is_saved_dataset

CLASS_FOLDERS = ("neg", "pos")


def read_reviews(folder: Path) -> list[dict[str, Any]]:
    """Returns the reviews in folder/neg and then those in folder/pos, both sorted by the number in the file name.

    Raises:
        ValueError: a folder has no reviews, or a file is not named "number_rating.txt".

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in CLASS_FOLDERS:
        ...         Path(folder, name).mkdir()
        ...         _ = Path(folder, name, "0_9.txt").write_text(f"so {name}")
        ...     [row["text"] for row in read_reviews(Path(folder))]
        ['so neg', 'so pos']
    """
    rows = []
    for label, name in enumerate(CLASS_FOLDERS):
        paths = list((folder / name).glob("*.txt"))
        if not paths:
            raise ValueError(
                f"{folder / name} has no reviews: `path` must be a folder with train/neg, train/pos, test/neg and "
                "test/pos, like aclImdb in the published archive"
            )
        for path in paths:
            if not path.stem.partition("_")[0].isdecimal():
                raise ValueError(f"{path} is not named number_rating.txt: move it out of the folder")
        for path in sorted(paths, key=lambda path: int(path.stem.partition("_")[0])):
            text = path.read_text(encoding="utf-8")
            rows.append({"text": text, "labels": label, "id": f"{folder.name}/{name}/{path.stem}"})
    return rows


class IMDB(TextSource):
    """Movie reviews with the classes negative and positive. Line breaks, written as "<br />", become spaces.

    Args:
        path: a Hugging Face hub id, a folder with train/neg, train/pos, test/neg and test/pos, or a folder that
            `save_to_disk` wrote.
        min_words: reviews with fewer whitespace words are left out of every split.
        max_words: reviews with more whitespace words are left out of every split. None for no limit.
        validation_fraction: fraction of the remaining training reviews that become the validation split.
        seed: seed of the random choice of validation reviews.

    Raises:
        ValueError: a number is out of range. `load` raises the error if a folder or split is missing.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("train/neg", "train/pos", "test/neg", "test/pos"):
        ...         Path(folder, name).mkdir(parents=True)
        ...         _ = Path(folder, name, "0_9.txt").write_text("a film<br />of 1990")
        ...     IMDB(folder, validation_fraction=0.5).load()["test"]["text"][:]
        ['a film of 1990', 'a film of 1990']

    Reference: Maas et al. (2011), "Learning Word Vectors for Sentiment Analysis", ACL.
    Differs: Jain, Wallace (2019), arXiv 1902.10186, and Madsen et al. (2022), arXiv 2110.08412, keep reviews of 7 to
        399 words, validate on a fifth of the training reviews, and test on a fifth of the test reviews. In their
        word counts, "br" is a word and a punctuation mark is not, so their limits keep slightly different reviews.
    """

    name = "imdb"
    class_names = ["negative", "positive"]

    def __init__(
        self,
        path: str = "stanfordnlp/imdb",
        min_words: int = 1,
        max_words: int | None = None,
        validation_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        require_fractions(validation_fraction=validation_fraction)
        if min_words < 1 or (max_words is not None and max_words < min_words):
            raise ValueError(
                f"min_words={min_words} and max_words={max_words}: min_words must be at least 1 and at most max_words"
            )
        self.path = path
        self.min_words = min_words
        self.max_words = max_words
        self.validation_fraction = validation_fraction
        self.seed = seed

    def prepare(self) -> None:
        if not self._is_archive():
            self._hub().prepare()

    def _is_archive(self) -> bool:
        return Path(self.path).is_dir() and not is_saved_dataset(self.path)

    def remote_revision(self) -> str:
        return "" if self._is_archive() else self._hub().remote_revision()

    def _hub(self) -> Hub:
        return Hub(self.path, splits={"train": "train", "test": "test"})

    def _reviews(self) -> dict[str, list[dict[str, Any]]]:
        if self._is_archive():
            return {split: read_reviews(Path(self.path, split)) for split in ("train", "test")}
        table = self._hub().load_table()
        check_label_names(table["train"], "label", self.class_names, self.path)
        return {
            split: [{"text": row["text"], "labels": row["label"], "id": f"{split}-{i}"} for i, row in enumerate(rows)]
            for split, rows in table.items()
        }

    def load(self) -> DatasetDict:
        kept = {
            split: [row for row in map(_clean, rows) if self._keeps(row)] for split, rows in self._reviews().items()
        }
        parts = split_rows(len(kept["train"]), self.validation_fraction, 0.0, self.seed)
        splits = {split: [kept["train"][i] for i in parts[split]] for split in ("train", "validation")}
        return rows_to_splits(splits | {"test": kept["test"]})

    def _keeps(self, row: dict[str, Any]) -> bool:
        num_words = len(row["text"].split())
        return self.min_words <= num_words and (self.max_words is None or num_words <= self.max_words)


def _clean(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"text": row["text"].replace("<br />", " ")}
