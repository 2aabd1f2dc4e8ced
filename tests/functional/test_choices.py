from typing import Literal

import pytest

from lightning_xai.functional.choices import require_choices

WORDS = {"stop": Literal["example", "batch"]}


def test_a_word_of_the_literal_is_accepted():
    require_choices(WORDS, {"stop": "batch", "other": "anything"})


def test_another_word_is_refused_with_the_words_there_are():
    with pytest.raises(ValueError, match="stop is 'batches': choose one of 'example', 'batch'"):
        require_choices(WORDS, {"stop": "batches"})
