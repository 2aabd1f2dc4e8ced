"""Command lines made from typed functions."""

from argparse import ArgumentError
from collections.abc import Sequence

import pytest

from lightning_xai.commands.parser.typed_command import run_command


def parsed(*argv: str) -> tuple[list[str], list[int], float]:
    """Returns the values with which the words of a command line call a function."""
    calls = []

    def function(names: Sequence[str], sizes: Sequence[int] = (1, 2), scale: float = 0.5) -> None:
        """Adds up.

        Args:
            names: of things.
            sizes: of these things.
            scale: factor of all sizes.
        """
        calls.append((list(names or []), list(sizes), scale))

    run_command(function, argv, name="add")
    return calls[0]


def test_sequences_take_several_words():
    assert parsed("a", "b", "--sizes", "3", "4", "5") == (["a", "b"], [3, 4, 5], 0.5)


def test_defaults_stay_where_nothing_is_named():
    assert parsed("a") == (["a"], [1, 2], 0.5)


def test_positional_words_may_be_missing():
    assert parsed("--scale", "2") == ([], [1, 2], 2.0)


def test_one_word_is_a_sequence_of_one():
    assert parsed("a", "--sizes=7") == (["a"], [7], 0.5)


def test_word_with_a_comma_is_one_item():
    assert parsed("a,b", "[c]")[0] == ["a,b", "[c]"]


@pytest.mark.parametrize(
    "argv, named",
    [
        (["a", "--sizes", "x"], "Got value: x"),
        (["a", "--sizes"], "expected at least one argument"),
        (["a", "--scale", "wide"], "wide"),
        (["a", "--size", "1"], "--size"),  # no abbreviations
    ],
)
def test_mistake_is_an_error_that_names_it(argv, named):
    with pytest.raises(ArgumentError, match=named):
        parsed(*argv)


def test_help_is_the_docstring(capsys):
    with pytest.raises(SystemExit):
        parsed("--help")
    printed = capsys.readouterr().out
    assert printed.startswith("usage: run.py add")
    assert all(text in printed for text in ("Adds up.", "[names ...]", "of things.", "factor of all sizes."))
