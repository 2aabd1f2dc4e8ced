"""Planted signals: the rationale is exactly where the class's words stand."""

from typing import Any

import pytest

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.planted import Planted

SIZES: dict[str, Any] = {"num_train": 200, "num_validation": 5, "num_test": 5}


def spanned(row):
    return {
        r["label"]: [row["text"][begin:end] for begin, end in r["spans"]] for r in row["rationales"]
    }  # fmt: skip


def signal_class(word, num_signals=6, per_class=2):
    number = int(word[1:])
    return number // per_class if number < num_signals else None


@pytest.mark.parametrize("multilabel", [False, True])
def test_rationale_holds_all_and_only_the_words_of_its_class(multilabel):
    source = Planted(num_classes=3, signals_per_document=(1, 2), multilabel=multilabel, **SIZES)
    for row in source.load()["train"]:
        labels = row["labels"] if multilabel else [row["labels"]]
        words_of_class = spanned(row)
        assert sorted(words_of_class) == sorted(labels)
        for label, words in words_of_class.items():
            assert words == [word for word in row["text"].split() if signal_class(word) == label]
            assert 1 <= len(words) <= 2
        assert {signal_class(word) for word in row["text"].split()} - {None} == set(labels)


def test_lengths_are_in_range():
    lengths = {len(text.split()) for text in Planted(words_per_document=(4, 6), **SIZES).load()["train"]["text"]}
    assert lengths == {4, 5, 6}


def test_same_seed_gives_the_same_documents_however_many():
    few, many = Planted(num_train=3).load()["train"], Planted(num_train=9).load()["train"]
    assert few["text"] == many["text"][:3]
    assert few["text"] != Planted(num_train=3, seed=1).load()["train"]["text"]


def test_label_noise_changes_training_labels_only():
    source = Planted(label_noise=1.0, **SIZES).load()
    assert all(row["labels"] not in spanned(row) for row in source["train"])
    assert all(row["labels"] in spanned(row) for row in source["test"])


@pytest.mark.slow
def test_label_noise_has_the_asked_for_rate():
    rows = Planted(label_noise=0.25, num_train=2000).load()["train"]
    assert sum(row["labels"] not in spanned(row) for row in rows) / 2000 == pytest.approx(0.25, abs=0.04)


def test_signal_words_must_leave_other_words():
    with pytest.raises(ValueError, match="num_words=4 leaves no word"):
        Planted(num_words=4)


def test_planted_words_must_fit():
    with pytest.raises(ValueError, match="do not fit"):
        Planted(words_per_document=(1, 9))


def test_laws():
    check_source(Planted(**SIZES))
