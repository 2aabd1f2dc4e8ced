"""The number of the format that files carry."""

from pathlib import Path

import pytest

from lightning_xai.runs.format import FORMAT, with_format, without_format


def test_facts_come_back_without_the_number():
    assert without_format(with_format({"a": 1}), Path("run"), "remove it") == {"a": 1}


@pytest.mark.parametrize(("facts", "number"), [({"a": 1}, 1), ({"format": FORMAT + 1}, FORMAT + 1)])
def test_other_formats_are_refused_with_their_number_and_a_remedy(facts, number):
    with pytest.raises(ValueError, match=f"run has format {number}, but .* reads format {FORMAT}: remove it"):
        without_format(facts, Path("run"), "remove it")
