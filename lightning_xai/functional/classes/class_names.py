"""Matches the class names of a network with those of the data, even if their spelling differs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from lightning_xai.functional.text.quantity import quantity

_NUMBERED = re.compile(r"label\d+")  # transformers' default names: LABEL_0, LABEL_1
_NUMBERS = re.compile(r"(?:class)?(\d+)")  # other names that say nothing, such as 0 and 1, or class0 and class1


def normalized_name(name: str) -> str:
    """Returns a class name in Unicode form NFC, in lower case and without white space, hyphens or underscores.

    Example:
        >>> normalized_name("Not-Entailment") == normalized_name("NOT_ENTAILMENT") == "notentailment"
        True
    """
    return re.sub(r"[\s_-]", "", unicodedata.normalize("NFC", name)).casefold()


def says_nothing(names: Sequence[str]) -> bool:
    """Returns whether all names are default names such as LABEL_0 and LABEL_1.

    Example:
        >>> says_nothing(["LABEL_0", "LABEL_1"]), says_nothing(["no", "yes"])
        (True, False)
    """
    return all(_NUMBERED.fullmatch(normalized_name(name)) for name in names)


def only_number(names: Sequence[str]) -> bool:
    """Returns whether the names say nothing because they only number the classes, as "LABEL_0", "1" and "class_1" do.

    Default names such as LABEL_0 may have any numbers. Other names must count up from 0 or 1.

    Example:
        >>> only_number(["LABEL_0", "LABEL_1"]), only_number(["0", "1"]), only_number(["class 1", "class 2"])
        (True, True, True)
        >>> only_number(["1", "0"]), only_number(["401", "250"]), only_number(["no", "yes"])
        (False, False, False)
    """
    matches = [_NUMBERS.fullmatch(normalized_name(name)) for name in names]
    numbers = [int(match[1]) for match in matches if match is not None]
    return says_nothing(names) or numbers in (list(range(len(names))), list(range(1, len(names) + 1)))


def named_positions(names: Sequence[str], data_names: Sequence[str], owner: str, remedy: str) -> list[int] | None:
    """Returns the position of each of `data_names` in `names`; None if one list only numbers the classes.

    None means that only the order of the classes is known. Lists with the same names are matched by name even if the
    names are numbers. If the lists differ at only one position, the two names at this position are taken to mean the
    same class. Lists of different lengths always raise a ValueError.

    Args:
        names: class names of a network, in the order of its logits.
        data_names: class names of the data.
        owner: the network that has `names`, for the error message.
        remedy: advice at the end of the error message.

    Raises:
        ValueError: the lists have different lengths, or the names do not show which classes correspond.

    Example:
        >>> named_positions(["YES", "NO"], ["no", "yes"], "m", "rename them")
        [1, 0]
        >>> print(named_positions(["LABEL_0", "LABEL_1"], ["no", "yes"], "m", "rename them"))
        None
        >>> named_positions(["ja", "nein"], ["no", "yes"], "m", "rename them")
        Traceback (most recent call last):
        ValueError: m has the classes ['ja', 'nein'], but the data has ['no', 'yes'] (missing in the data: ...
        >>> named_positions(["no", "yes", "maybe"], ["no", "yes"], "m", "rename them")
        Traceback (most recent call last):
        ValueError: m has 3 classes, ['no', 'yes', 'maybe'], but the data has 2, ['no', 'yes'] (missing in the data: ...
    """
    if len(names) != len(data_names):
        raise ValueError(
            f"{owner} has {quantity(len(names), 'class')}, {listed(names)}, but the data has {len(data_names)}, "
            f"{listed(data_names)} ({_difference(names, data_names)}): choose data with the network's classes, or a "
            "network that was trained on the classes of the data"
        )
    theirs, ours = comparable_names(names, data_names)
    if set(theirs) == set(ours):
        return [theirs.index(name) for name in ours]
    if only_number(names) or only_number(data_names):
        return None
    if sum(one != other for one, other in zip(theirs, ours, strict=True)) == 1:
        return list(range(len(ours)))
    difference = _difference(names, data_names)
    raise ValueError(
        f"{owner} has the classes {listed(names)}, but the data has {listed(data_names)} ({difference}): {remedy}"
    )


def _difference(names: Sequence[str], data_names: Sequence[str]) -> str:
    """Returns a text that lists the names that occur in only one of the two lists."""
    theirs, ours = comparable_names(names, data_names)
    missing = [name for name, compared in zip(names, theirs, strict=True) if compared not in ours]
    new = [name for name, compared in zip(data_names, ours, strict=True) if compared not in theirs]
    parts = {"missing in the data": missing, "new in the data": new}
    return "; ".join(f"{side}: {listed(part)}" for side, part in parts.items() if part)


def class_positions(names: Sequence[str], data_names: Sequence[str], owner: str) -> list[int] | None:
    """Returns the position of each of `data_names` in `names`; None if the lists have no name in common.

    Args:
        names: class names of a network or of a column of a data set, in the order of the class ids.
        data_names: class names of the data.
        owner: the network or column that has `names`, for the error message.

    Raises:
        ValueError: only some names are in both lists, and the lists differ in length or in the positions of these
            names. So neither names nor positions show which classes correspond.

    Example:
        >>> class_positions(["NEUTRAL", "CONTRADICTION", "ENTAILMENT"], ["entailment", "neutral", "contradiction"], "m")
        [2, 0, 1]
        >>> print(class_positions(["LABEL_0", "LABEL_1"], ["no", "yes"], "m"))
        None
    """
    theirs, ours = comparable_names(names, data_names)
    shared = set(theirs) & set(ours)
    if not shared:
        return None
    if set(theirs) == set(ours):
        return [theirs.index(name) for name in ours]
    if len(theirs) == len(ours) and all(theirs.index(name) == ours.index(name) for name in shared):
        return list(range(len(ours)))
    raise ValueError(
        f"{owner} has the classes {listed(names)}, but the data has {listed(data_names)}: make both lists name "
        "the same classes, for example by `class_names` of the data's source, if it has this option"
    )


def listed(names: Sequence[str]) -> str:
    """Returns a text that lists up to ten class names, followed by the number of further names.

    Example:
        >>> listed(["no", "yes"])
        "['no', 'yes']"
    """
    return f"{list(names)}" if len(names) <= 10 else f"{list(names[:10])} and {len(names) - 10} others"


def comparable_names(names: Sequence[str], data_names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns both lists with normalized names, or unchanged if normalization makes two names of one list equal.

    Example:
        >>> comparable_names(["NO", "YES"], ["no", "yes"])
        (['no', 'yes'], ['no', 'yes'])
        >>> comparable_names(["A1", "A-1"], ["A1", "A-1"])
        (['A1', 'A-1'], ['A1', 'A-1'])
    """
    normalized = [normalized_name(name) for name in names], [normalized_name(name) for name in data_names]
    if all(len(set(new)) == len(set(old)) for new, old in zip(normalized, (names, data_names), strict=True)):
        return normalized
    return list(names), list(data_names)
