"""IMDB: the folder of the archive, a copy from the hub, and the limits on the length of a review."""

import pytest
from datasets import Dataset, DatasetDict

from lightning_xai.data.sources.imdb import IMDB
from lightning_xai.data.sources.laws import check_source


@pytest.fixture
def folder(tmp_path):
    for split in ("train", "test"):
        for name, word in (("neg", "bad"), ("pos", "good")):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(12):
                text = "so " * i + f"{word}<br /><br />film {split}"
                (tmp_path / split / name / f"{i}_7.txt").write_text(text, encoding="utf-8")
    return tmp_path


def test_folders_are_the_classes(folder):
    rows = IMDB(str(folder)).load()["test"]
    assert all(("good" in text) == bool(label) for text, label in zip(rows["text"], rows["labels"], strict=True))


def test_reviews_are_in_the_order_of_their_numbers(folder):
    rows = IMDB(str(folder)).load()["test"]
    assert rows["id"][:12] == [f"test/neg/{i}_7" for i in range(12)]


def test_line_breaks_become_spaces(folder):
    assert IMDB(str(folder)).load()["test"]["text"][0] == "bad  film test"


def test_fraction_of_train_validates_and_no_review_is_in_two_splits(folder):
    rows = IMDB(str(folder), validation_fraction=0.25).load()
    names = {split: set(part["id"]) for split, part in rows.items()}
    assert {split: len(part) for split, part in names.items()} == {"train": 18, "validation": 6, "test": 24}
    assert not names["train"] & names["validation"]


def test_seed_decides_which_reviews_validate(folder):
    def validating(seed):
        return IMDB(str(folder), seed=seed).load()["validation"]["id"][:]

    assert validating(0) == validating(0) != validating(1)


def test_short_and_long_reviews_are_left_out_of_every_split(folder):
    rows = IMDB(str(folder), min_words=5, max_words=8).load()
    lengths = [len(text.split()) for part in rows.values() for text in part["text"]]
    assert (min(lengths), max(lengths), len(lengths)) == (5, 8, 16)


def test_copy_from_the_hub(tmp_path):
    part = Dataset.from_dict({"text": ["a<br />b", "c", "d", "e"], "label": [1, 0, 1, 0]})
    DatasetDict({"train": part, "test": part, "unsupervised": part}).save_to_disk(tmp_path / "copy")
    rows = IMDB(str(tmp_path / "copy"), validation_fraction=0.5).load()
    assert (rows["test"]["text"][:], rows["test"]["labels"][:]) == (["a b", "c", "d", "e"], [1, 0, 1, 0])
    assert {split: len(part) for split, part in rows.items()} == {"train": 2, "validation": 2, "test": 4}


def test_missing_folder_is_named(folder):
    for path in (folder / "train" / "pos").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="train/pos has no reviews"):
        IMDB(str(folder)).load()


def test_foreign_file_is_named(folder):
    (folder / "train" / "pos" / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match="pos/notes.txt is not named number_rating.txt"):
        IMDB(str(folder)).load()


def test_impossible_range_is_refused():
    with pytest.raises(ValueError, match="min_words=7 and max_words=6"):
        IMDB(min_words=7, max_words=6)


def test_laws(folder):
    check_source(IMDB(str(folder)))
