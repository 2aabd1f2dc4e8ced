"""The functions that all sources share: columns, splits, fractions and the checks of a row."""

import numpy as np
import pytest
from datasets import DatasetDict

from lightning_xai.data.sources.base import (
    TextSource,
    checked_examples,
    rationales_of,
    require_fractions,
    rows_to_dataset,
    rows_to_splits,
    split_rows,
)

ROW = {"text": "a good film", "labels": 1, "id": "a"}


class Reviews(TextSource):
    class_names = ["bad", "good"]

    def load(self) -> DatasetDict:
        return rows_to_splits({"train": [ROW]})


def test_column_that_no_row_has_is_left_out():
    assert rows_to_dataset([ROW]).column_names == ["text", "labels", "id"]


def test_column_that_some_rows_have_is_none_in_the_others():
    assert rows_to_dataset([ROW, ROW | {"text_pair": "b"}])["text_pair"][:] == [None, "b"]


def test_labels_of_multilabel_rows_are_lists():
    assert rows_to_splits({"train": [ROW | {"labels": [0, 1]}]}, multilabel=True)["train"]["labels"][:] == [[0, 1]]


def test_no_spans_make_no_rationale():
    assert rationales_of(1, []) == []


def test_rows_are_partitioned_in_ascending_order():
    parts = split_rows(50, 0.2, 0.1, seed=0)
    assert [len(parts[split]) for split in ("train", "validation", "test")] == [35, 10, 5]
    assert all((np.diff(rows) > 0).all() for rows in parts.values())
    assert sorted(np.concatenate(list(parts.values()))) == list(range(50))


@pytest.mark.parametrize("fractions", [(0.0, 0.1), (-0.1, 0.5), (0.5, 0.5), (0.9, 0.2)])
def test_fractions_that_leave_a_split_empty_are_refused_with_their_values(fractions):
    with pytest.raises(ValueError, match=f"first={fractions[0]} and second={fractions[1]}: give fractions above 0"):
        require_fractions(first=fractions[0], second=fractions[1])


def test_source_without_class_names_is_named():
    class Nameless(TextSource):
        def load(self) -> DatasetDict:
            return rows_to_splits({})

    with pytest.raises(ValueError, match="Nameless does not define class_names"):
        Nameless().summary()


def test_checked_examples_are_the_rows():
    source = Reviews()
    assert checked_examples(source.load()["train"], "train", source) == [ROW]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"labels": 1.7}, "label 1.7 is not a class number"),
        ({"labels": "1"}, "label '1' is not a class number"),
        ({"rationales": [{"label": 1.9, "spans": []}]}, "label 1.9"),
        ({"rationales": [{"label": 1, "spans": [[0.9, 4.7]]}]}, r"span \[0.9, 4.7\] is not"),
        ({"rationales": [{"label": 1, "spans": [[False, True]]}]}, r"span \[False, True\] is not"),
    ],
)
def test_numbers_that_a_data_set_would_round_are_refused_by_row(change, message):
    with pytest.raises(ValueError, match=f"row 'a': .*{message}"):
        rows_to_dataset([{"text": "a b c", "labels": 1, "id": "a"} | change])
