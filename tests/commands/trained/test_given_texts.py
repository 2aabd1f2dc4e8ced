"""Texts from Python: strings, lists and columns, and the arguments that are neither."""

import numpy as np
import pandas as pd
import pytest

from lightning_xai.commands.trained.given_texts import given_pairs, given_texts


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        ("fine", [0]),
        (["fine"], [0]),
        (pd.Series(["fine"], index=[7]), [7]),
        (np.array(["fine"]), [0]),
        ((text for text in ["fine"]), [0]),
    ],
)
def test_a_text_comes_in_any_of_these_forms(texts, labels):
    assert given_texts(texts) == (["fine"], labels)


def test_an_empty_column_has_no_texts():
    assert given_texts(pd.Series([], dtype=object)) == ([], [])


def test_a_missing_text_is_named_by_its_label():
    with pytest.raises(ValueError, match=r"texts\['b'\] is nan, not a string: replace or remove this item"):
        given_texts(pd.Series(["fine", float("nan")], index=["a", "b"]))


@pytest.mark.parametrize("texts", [pd.DataFrame({"text": ["fine"]}), 7, None])
def test_a_table_or_a_number_is_refused(texts):
    with pytest.raises(ValueError, match="give a string, a list of strings or one column, such as"):
        given_texts(texts)


def test_second_texts_are_as_many_as_the_first():
    assert given_pairs(pd.Series(["a", "b"]), 2) == ["a", "b"] and given_pairs("a", 9) == "a"
    with pytest.raises(ValueError, match="text_pair has 1 text, but texts has 2 texts: give a second text"):
        given_pairs(["a"], 2)
