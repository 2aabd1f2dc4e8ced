"""Choices and values in messages: the likely one first, and never a long line."""

from lightning_xai.commands.parser.choices import MOST_CHARACTERS, listed_choices, shortened


def test_the_most_similar_name_is_first_whatever_its_case():
    assert listed_choices(["baseline", "num_steps", "pooling"], "NUM_STEP").split(", ")[0] == "num_steps"
    assert listed_choices(["b", "a", "b"]) == "a, b"  # in alphabetical order, each once


def test_a_long_list_is_cut_and_says_how_many_names_are_missing():
    names = [f"class_{number:02}" for number in range(12)]
    listed = listed_choices(names)
    shown, _, rest = listed.partition(" and ")
    assert len(shown) <= MOST_CHARACTERS and len(shown.split(", ")) + int(rest.split()[0]) == 12
    one_too_many = ["x" * 30, "y" * 30, "z" * 30]
    assert listed_choices(one_too_many).endswith(" and 1 other")


def test_a_list_is_never_empty():
    assert listed_choices(["x" * 99, "y"]) == f"{'x' * 99} and 1 other"


def test_a_value_of_several_lines_becomes_one():
    assert shortened("a\n  b") == "a b" and len(shortened("x" * 99, 20)) == 20
