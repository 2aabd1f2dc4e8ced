"""Numbers with their nouns."""

import pytest

from lightning_xai.functional.text.quantity import quantity


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"),
    [
        (1, "row", "", "1 row"),
        (0, "row", "", "0 rows"),
        (2, "class", "", "2 classes"),
        (1, "class", "", "1 class"),
        (1_000_000, "corpus", "corpora", "1,000,000 corpora"),
        (1, "corpus", "corpora", "1 corpus"),
    ],
)
def test_the_noun_is_in_the_singular_for_one_alone(number, noun, plural, text):
    assert quantity(number, noun, plural) == text
