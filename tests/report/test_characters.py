"""Clusters, directions and printable text."""

import pytest

from lightning_xai.report.characters import (
    TextDirection,
    cluster_bounds,
    direction,
    joined_ends,
    piece_directions,
    piece_levels,
    printable,
    visual_order,
)


@pytest.mark.parametrize(
    "cluster",
    ["e\u0301", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "\r\n"],
)
def test_what_a_reader_sees_as_one_character_is_not_cut(cluster):
    assert cluster_bounds(f"a{cluster}b") == [0, 1, 1 + len(cluster), 2 + len(cluster)]


@pytest.mark.parametrize("character", ["\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\u2069", "\ufeff", "\u2028"])
def test_characters_that_steer_a_terminal_become_spaces(character):
    assert printable(f"a{character}b") == "a b"


@pytest.mark.parametrize("text", ["caf\u00e9\n", "\u0645\u0631", "\u4f60", "\U0001f469\u200d\U0001f467"])
def test_other_characters_stay(text):
    assert printable(text) == text


@pytest.mark.parametrize(("text", "side"), [("1. a", "left"), ("(\u05d0", "right"), ("\u0645", "right"), ("12", None)])
def test_direction_is_that_of_the_first_letter(text, side):
    assert direction(text) == side


def shown(texts: list[str], base: TextDirection) -> str:
    """Returns a line as it looks, from left to right."""
    return "".join(texts[place] for place in visual_order(piece_levels(piece_directions(texts), base)))


@pytest.mark.parametrize("base", ["left", "right"])
def test_every_piece_has_one_place(base):
    directions: list[TextDirection | None] = ["left", None, "right", "right", None, None, "left", None]
    assert sorted(visual_order(piece_levels(directions, base))) == list(range(8))


def test_punctuation_between_words_of_one_direction_follows_them():
    assert visual_order(piece_levels(["right", None, "right"], "left")) == [2, 1, 0]
    assert visual_order(piece_levels(["right", None, "left"], "left")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("left", "a \u05d1 25% \u05d0 b"),  # the Hebrew words change places, the digits do not
        ("right", "b \u05d1 25% \u05d0 a"),
    ],
)
def test_the_parts_of_a_number_keep_their_order(base, expected):
    assert shown(["a", " ", "\u05d0", " ", "2", "5", "%", " ", "\u05d1", " ", "b"], base) == expected


def test_a_decimal_point_belongs_to_its_number():
    assert shown(["\u05d0", " ", "2", ".", "5", "."], "right") == ".2.5 \u05d0"


def test_a_number_after_an_english_word_belongs_to_it():
    assert shown(["\u05d0", " ", "top", " ", "10", "!"], "right") == "!top 10 \u05d0"


def test_only_cursive_letters_are_joined():
    assert joined_ends("\u05d0", "\u05d1", "\u05d2") == "\u05d1"
    assert joined_ends("\u0645 ", "\u0631", "") == "\u0631"
