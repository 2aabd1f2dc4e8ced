"""Rules that convert the cells of a label column to classes. They are the same for all file formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lightning_xai.functional.classes.class_names import listed

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_WHOLE = re.compile(r"([+-]?(?:0|[1-9]\d*))(?:\.0)?")  # no leading zeros: 007 is a code
_BOOLEANS = {"false": "0", "true": "1"}


def cell_text(cell: Any) -> str | None:
    """Returns a cell as text; None if the cell is empty. The words null, None, NA and nan are ordinary text.

    Example:
        >>> cell_text("null"), cell_text(1.0), cell_text("007"), cell_text(float("nan")), cell_text("")
        ('null', '1.0', '007', None, None)
    """
    if cell is None or cell == "" or cell != cell:  # NaN is the only value that differs from itself
        return None
    return str(cell)


def whole_number(text: str) -> int | None:
    """Returns the integer of a text such as "1" or "1.0"; None for other texts and for numbers with leading zeros.

    Example:
        >>> whole_number("7"), whole_number("7.0"), whole_number("-1"), whole_number("07"), whole_number("7.5")
        (7, 7, -1, None, None)
    """
    match = _WHOLE.fullmatch(text)
    return int(match[1]) if match else None


def infer_class_names(labels: Iterable[str]) -> list[str]:
    """Returns the distinct labels. They are sorted as numbers if all labels are numbers, and otherwise as text.

    If all labels are whole numbers, labels such as "1.0" become "1". This is needed because pandas writes 1 as 1.0 in a
    column that has an empty cell, or had one in a row that was removed.

    Example:
        >>> infer_class_names(["10", "9", "10"]), infer_class_names(["0.0", "1.0", "1"])
        (['9', '10'], ['0', '1'])
        >>> infer_class_names(["401.1", "250.0"]), infer_class_names(["01", "02"])
        (['250.0', '401.1'], ['01', '02'])
    """
    distinct = set(labels)
    whole = {whole_number(label) for label in distinct}
    if None not in whole and len(whole) == len({label.removesuffix(".0") for label in distinct}):
        return [str(number) for number in sorted(number for number in whole if number is not None)]
    if all(_NUMBER.fullmatch(label) for label in distinct):
        return sorted(distinct, key=lambda label: (float(label), label))
    return sorted(distinct)


class ClassNumbers:
    """Finds the class of a label by four rules.

    1. A label that is a class name means that class.
    2. If all class names are whole numbers, labels are compared with them as numbers: 1.0 means the class "1".
    3. If no class name is a number, a label that is a whole number means the class with this index, counted from 0.
    4. The labels True and False mean the classes "true" and "false". If there are two classes, and neither has such
       a name, False and True are read as the labels 0 and 1.

    Args:
        class_names: names of the classes 0, 1, ...

    Raises:
        ValueError: a class name occurs twice.

    Example:
        >>> ClassNumbers(["no", "yes"]).find("1"), ClassNumbers(["01", "02"]).find("02")
        (1, 1)
        >>> ClassNumbers(["0", "1"]).find("1.0"), ClassNumbers(["01", "02"]).find("1")
        (1, None)
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        self._classes = {name: number for number, name in enumerate(class_names)}
        if len(self._classes) < len(class_names):
            twice = next(name for name in class_names if list(class_names).count(name) > 1)
            raise ValueError(f"class_names has {twice!r} twice: name every class once")
        self._booleans = {name.casefold(): i for name, i in self._classes.items() if name.casefold() in _BOOLEANS}
        whole = [whole_number(name) for name in class_names]
        self._whole: dict[int, int] = {}  # whole number -> class
        if None not in whole and len(set(whole)) == len(whole):
            self._whole = {number: i for i, number in enumerate(whole) if number is not None}
        elif not any(_NUMBER.fullmatch(name) for name in class_names):
            self._whole = {number: number for number in range(len(class_names))}

    @classmethod
    def of_names(cls, classes: Mapping[str, int]) -> ClassNumbers:
        """Returns a ClassNumbers that knows only the labels in `classes`, which maps labels to class numbers."""
        numbers = cls([])
        numbers._classes = dict(classes)
        return numbers

    def find(self, label: str) -> int | None:
        """Returns the class of a label, or None if there is no such class."""
        if label in self._classes:
            return self._classes[label]
        if label.casefold() in self._booleans:
            return self._booleans[label.casefold()]
        if len(self._classes) == 2 and not self._booleans:
            label = _BOOLEANS.get(label.casefold(), label)
        number = whole_number(label)
        return None if number is None else self._whole.get(number)


def unknown_label(label: str, class_names: Sequence[str], location: str, *, are_from_train: bool) -> str:
    """Returns the error message for a label that names no class.

    Example:
        >>> unknown_label("-1", ["0", "1"], "test row 0", are_from_train=False)
        "test row 0: label '-1' is not in class_names ['0', '1']; -1 often marks hidden labels: drop this split or row"
    """
    origin = ", which are the classes of the training rows" if are_from_train else ""
    remedy = "-1 often marks hidden labels: drop this split or row" if whole_number(label) == -1 else None
    remedy = remedy or "correct the label or, if you set class_names, add its class there"
    label = label if len(label) <= 60 else f"{label[:57]}..."
    return f"{location}: label {label!r} is not in class_names {listed(class_names)}{origin}; {remedy}"
