"""The order of units, and the sizes k that definitions name."""

from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from jsonargparse import ArgumentParser

from lightning_xai.metrics.top_units import Counts, Percentages, Range, Ranking, Sizes, Window
from tests.conftest import text_inputs

TOTALS = torch.tensor([0, 3, 40])


@pytest.mark.parametrize(
    "sizes, expected",
    [
        (Percentages([10, 50]), [[0, 0], [1, 2], [4, 20]]),
        (Percentages([10, 50], rounding="floor"), [[0, 0], [0, 1], [4, 20]]),
        (Percentages([10, 50], rounding="floor", minimum=1), [[0, 0], [1, 1], [4, 20]]),
        (Counts([0, 2, 30]), [[0, 0, 0], [0, 2, 3], [0, 2, 30]]),
        (Window([0, 2, 30], window=5), [[0, 0, 0], [3, 1, 0], [5, 3, 0]]),
    ],
)
def test_sizes_of_texts_with_few_and_with_many_units(sizes, expected):
    assert sizes.of(TOTALS).tolist() == expected


def test_a_range_stands_for_a_list():
    assert Counts(Range(2, 8, every=3)).numbers == [2, 5, 8]
    assert Window(Range(1, 3), window=9).of(TOTALS).tolist() == Window([1, 2, 3], window=9).of(TOTALS).tolist()


def test_names_are_the_numbers_as_they_print():
    assert Percentages([1.0, 12.5]).names == ("1", "12.5")
    assert Counts(Range(0, 1)).names == Window([0, 1], window=4).names == ("0", "1")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Percentages([]), "percentages is empty"),
        (lambda: Percentages([120]), "percentage is 120"),
        (lambda: Counts([]), "give one or more numbers"),
        (lambda: Counts([-1]), "counts are"),
        (lambda: Window([1], window=0), "window is 0"),
        (lambda: Range(3, 1), "holds no number"),
        (lambda: Range(1, 3, every=0), "every >= 1"),
        (lambda: Ranking(sign=cast(Any, "positive")), "sign is 'positive'"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "entry, expected",
    [
        ({"percentages": [1, 5], "rounding": "floor"}, Percentages([1, 5], rounding="floor")),
        ({"counts": {"first": 1, "last": 100}}, Counts(Range(1, 100))),
        ({"window": 100, "counts": [0, 2]}, Window([0, 2], window=100)),
    ],
)
def test_the_keys_of_yaml_tell_which_sizes_are_meant(entry, expected):
    parser = ArgumentParser()
    parser.add_argument("--sizes", type=Sizes)
    assert parser.instantiate(parser.parse_object({"sizes": entry})).sizes == expected


def test_words_rank_by_the_sum_of_their_tokens():
    inputs = replace(text_inputs([6]), word_ids=torch.tensor([[-1, 0, 0, 1, 2, -1]]))
    scores = torch.tensor([[[9.0, 1, 1, -3, 0, 9]]])
    assert Ranking("word").ranks(scores, inputs)[0].tolist() == [[[6, 0, 0, 2, 1, 6]]]
    assert Ranking("word", sign="absolute").ranks(scores, inputs)[0].tolist() == [[[6, 1, 1, 0, 2, 6]]]
    assert Ranking().ranks(scores, inputs)[0].tolist() == [[[6, 0, 1, 3, 2, 6]]]
