"""The random choice of rows, with and without regard to their classes."""

import numpy as np
import pytest

from lightning_xai.data.corpora.choice import choose_rows, choose_stratified_rows
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.vocabulary import VocabularyEncoder

LABELS = np.array([0] * 55 + [1] * 30 + [2] * 15)[np.random.default_rng(0).permutation(100)]


def test_chosen_rows_are_distinct_ascending_and_seeded():
    first, second = choose_rows(100, 10, seed=0), choose_rows(100, 10, seed=1)
    assert len(first) == 10 and (np.diff(first) > 0).all()
    assert (first == choose_rows(100, 10, seed=0)).all() and (first != second).any()


@pytest.mark.parametrize("max_rows", [None, 5, 6])
def test_all_rows_are_chosen_where_the_limit_allows_it(max_rows):
    assert choose_rows(5, max_rows, seed=0).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("max_rows", [1, 7, 20, 33, 99])
def test_every_class_keeps_its_share_to_less_than_one_row(max_rows):
    chosen = choose_stratified_rows(LABELS, max_rows, seed=0)
    counts = np.bincount(LABELS[chosen], minlength=3)
    assert len(set(chosen.tolist())) == counts.sum() == max_rows and (np.diff(chosen) > 0).all()
    assert (abs(counts - max_rows * np.bincount(LABELS) / 100) < 1).all()


def test_stratified_choice_is_seeded_and_uniform_within_a_class():
    choices = [choose_stratified_rows(LABELS, 20, seed).tolist() for seed in range(2000)]
    assert choices[3] == choose_stratified_rows(LABELS, 20, seed=3).tolist() != choices[4]
    share = np.bincount(np.concatenate(choices), minlength=100) / 2000  # every row has probability 1/5
    assert abs(share - 0.2).max() < 0.05  # 5.6 standard deviations


@pytest.mark.parametrize("max_rows", [None, 100, 101])
def test_stratified_choice_takes_all_rows_where_the_limit_allows_it(max_rows):
    assert choose_stratified_rows(LABELS, max_rows, seed=0).tolist() == list(range(100))


class Seldom(TextSource):
    """100 rows of which ten have class 1. Counts how often its rows are read."""

    class_names = ["often", "seldom"]
    loads = 0

    def __init__(self, multilabel=False):
        self.multilabel = multilabel

    def load(self):
        Seldom.loads += 1
        labels = [int(row % 10 == 3) for row in range(100)]
        rows = [
            {"text": f"w{i % 90}", "labels": [y] if self.multilabel else y, "id": str(i)} for i, y in enumerate(labels)
        ]
        return rows_to_splits({"train": rows, "test": rows}, self.multilabel)


def seldom(cache_dir, **options) -> TextDataModule:
    source = Seldom(options.pop("multilabel", False))
    return TextDataModule(source, VocabularyEncoder(words=95), cache_dir=str(cache_dir), **options)


def test_data_module_keeps_the_share_of_a_class(tmp_path):
    splits = [seldom(tmp_path, max_examples=20, stratify=True, seed=seed).split("train") for seed in (0, 1)]
    assert [split.class_counts() for split in splits] == [{0: 18, 1: 2}] * 2
    assert splits[0].index.tolist() != splits[1].index.tolist()
    test = [seldom(tmp_path, max_examples=20, stratify=True, seed=seed).split("test").index.tolist() for seed in (0, 1)]
    assert test[0] == test[1]  # `seed` chooses training rows only


def test_stored_choice_is_read_without_the_rows(tmp_path):
    first = seldom(tmp_path, max_examples=20, stratify=True).split("train").index
    loads = Seldom.loads
    again = seldom(tmp_path, max_examples=20, stratify=True).split("train").index
    assert again.tolist() == first.tolist() and again.dtype == first.dtype and Seldom.loads == loads


def test_stratified_choice_is_refused_if_rows_may_have_several_labels(tmp_path):
    with pytest.raises(ValueError, match="stratify is true, but rows of Seldom may have several labels"):
        seldom(tmp_path, multilabel=True, max_examples=20, stratify=True).setup("fit")
    assert len(seldom(tmp_path, multilabel=True, stratify=True).split("train")) == 100
