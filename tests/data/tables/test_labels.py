"""Labels as text: which class they mean, and which names they give to the classes."""

import pytest

from lightning_xai.data.tables.labels import ClassNumbers, cell_text, infer_class_names, unknown_label


@pytest.mark.parametrize(
    "labels, names",
    [
        (["b", "a", "b"], ["a", "b"]),
        (["10", "2", "-1"], ["-1", "2", "10"]),
        (["1.0", "0.0", "1"], ["0", "1"]),  # a file of floats beside a file of integers
        (["250.0", "401.1", "5.5"], ["5.5", "250.0", "401.1"]),
        (["250.0", "250.00"], ["250.0", "250.00"]),  # two codes
        (["01", "2"], ["01", "2"]),
        (["1", "2", "3+"], ["1", "2", "3+"]),
        (["null", "NA"], ["NA", "null"]),
    ],
)
def test_distinct_labels_name_the_classes(labels, names):
    assert infer_class_names(labels) == names


@pytest.mark.parametrize(
    "names, found",
    [
        (
            ["no", "yes"],
            {"yes": 1, "1": 1, "0.0": 0, "True": 1, "false": 0, "01": None, "2": None, "-1": None, "0.5": None},
        ),
        (["0", "1"], {"1": 1, "1.0": 1, "0.0": 0, "true": 1, "2": None, "-1": None, "yes": None}),
        (["1", "2", "3"], {"1": 0, "3.0": 2, "0": None, "True": None}),
        (["01", "02"], {"01": 0, "1": None, "0": None, "02.0": None}),
        (["250.0", "401.1"], {"250.0": 0, "250": None, "1": None}),
        (["250", "250.0"], {"250": 0, "250.0": 1}),
        (["true", "false"], {"True": 0, "true": 0, "FALSE": 1, "1": 1}),
        (["True", "unknown"], {"true": 0, "False": None}),
        (["a", "b", "3"], {"3": 2, "1": None}),
    ],
)
def test_label_means_one_class_or_none(names, found):
    numbers = ClassNumbers(names)
    assert {label: numbers.find(label) for label in found} == found


@pytest.mark.parametrize(
    "cell, text", [(None, None), ("", None), (float("nan"), None), (0, "0"), (False, "False"), (" a", " a")]
)
def test_only_an_empty_cell_is_empty(cell, text):
    assert cell_text(cell) == text


def test_message_says_where_the_classes_come_from_and_what_to_do():
    message = unknown_label("z", ["x"], "test row 1", are_from_train=True)
    assert message.endswith(
        "which are the classes of the training rows; correct the label or, if you set class_names, add its class there"
    )
