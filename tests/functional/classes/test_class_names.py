"""Class names are compared without case, white space, hyphens and underscores."""

import pytest

from lightning_xai.functional.classes.class_names import (
    class_positions,
    comparable_names,
    listed,
    named_positions,
    says_nothing,
)


@pytest.mark.parametrize(
    "names, wanted, expected",
    [
        (["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], ["entailment", "neutral", "contradiction"], [2, 1, 0]),
        (["not_entailment", "Entailment"], ["entailment", "Not Entailment"], [1, 0]),
        (["NOT-SPAM", "SPAM"], ["not spam", "spam"], [0, 1]),
        (["1", "0"], ["0", "1"], [1, 0]),
        (["STRASSE", "b"], ["stra\u00dfe", "b"], [0, 1]),
        (["n\u00e9", "nu"], ["nu", "Ne\u0301"], [1, 0]),  # one accent, composed and decomposed
        (["neg", "neutral", "pos"], ["negative", "neutral", "positive"], [0, 1, 2]),  # a common name in its place
        (["LABEL_1", "LABEL_0"], ["no", "yes"], None),
        (["no", "yes"], ["negative", "positive"], None),
        (["A1", "A-1"], ["A-1", "A1"], [1, 0]),  # compared as they are, since they would be equal
    ],
)
def test_position_of_each_class_is_found_by_its_name(names, wanted, expected):
    assert class_positions(names, wanted, "network") == expected


@pytest.mark.parametrize(
    "names, wanted",
    [
        (["neutral", "neg", "pos"], ["negative", "neutral", "positive"]),
        (["a", "b"], ["b", "c"]),
        (["a", "b", "c"], ["a", "b"]),
    ],
)
def test_lists_of_which_only_some_names_are_the_same_are_refused(names, wanted):
    with pytest.raises(
        ValueError, match="network has the classes .*, but the data has .*: make both lists name the same classes"
    ):
        class_positions(names, wanted, "network")


@pytest.mark.parametrize(
    ("names", "wanted", "difference"),
    [
        (["No", "YES", "MAYBE"], ["yes", "no"], "(missing in the data: ['MAYBE'])"),
        (["no"], ["no", "yes"], "(new in the data: ['yes'])"),
        (["a", "b"], ["c", "a", "d"], "(missing in the data: ['b']; new in the data: ['c', 'd'])"),
        (["LABEL_0", "LABEL_1", "LABEL_2"], ["no", "yes"], "missing in the data: ['LABEL_0', 'LABEL_1', 'LABEL_2']"),
    ],
)
def test_another_number_of_classes_is_refused_with_both_lists_and_their_difference(names, wanted, difference):
    with pytest.raises(ValueError) as caught:
        named_positions(names, wanted, "network", "rename them")
    number = "1 class" if len(names) == 1 else f"{len(names)} classes"
    start = f"network has {number}, {names}, but the data has {len(wanted)}, {wanted} ("
    assert str(caught.value).startswith(start) and difference in str(caught.value)


def test_only_numbered_labels_say_nothing():
    assert says_nothing(["label 0", "Label_17"]) and not says_nothing(["LABEL_0", "spam"])
    assert comparable_names(["A b"], ["a-B"]) == (["ab"], ["ab"])
    assert listed([str(i) for i in range(12)]).endswith("'9'] and 2 others")
