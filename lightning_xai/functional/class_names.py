"""Compares the class names of a network with those of the data, which may be spelled in another way."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBERED = re.compile(r"label\d+")  # transformers writes LABEL_0, LABEL_1 where nobody named the classes


def normalized_name(name: str) -> str:
    """Returns a class name without case, white space, hyphens and underscores.

    Example:
        >>> normalized_name("Not-Entailment") == normalized_name("NOT_ENTAILMENT") == "notentailment"
        True
    """
    return re.sub(r"[\s_-]", "", name).casefold()


def says_nothing(names: Sequence[str]) -> bool:
    """Returns whether names such as LABEL_0 tell nothing about the classes.

    Example:
        >>> says_nothing(["LABEL_0", "LABEL_1"]), says_nothing(["no", "yes"])
        (True, False)
    """
    return all(_NUMBERED.fullmatch(normalized_name(name)) for name in names)


def class_positions(names: Sequence[str], wanted: Sequence[str], owner: str) -> list[int] | None:
    """Returns the position in `names` of each of the `wanted` names; None if no name is in both lists.

    Args:
        names: class names of a network or of a column, in the order of its class numbers.
        wanted: class names of the data.
        owner: where `names` come from, for the error message.

    Raises:
        ValueError: the two lists share names and stand in another order, but are not the same set of names. So neither
            the names nor the positions tell which classes are the same.

    Example:
        >>> class_positions(["NEUTRAL", "CONTRADICTION", "ENTAILMENT"], ["entailment", "neutral", "contradiction"], "m")
        [2, 0, 1]
        >>> print(class_positions(["LABEL_0", "LABEL_1"], ["no", "yes"], "m"))
        None
    """
    theirs, ours = comparable_names(names, wanted)
    shared = set(theirs) & set(ours)
    if not shared:
        return None
    if set(theirs) == set(ours):
        return [theirs.index(name) for name in ours]
    if len(theirs) == len(ours) and all(theirs.index(name) == ours.index(name) for name in shared):
        return list(range(len(ours)))
    raise ValueError(
        f"{owner} has the classes {listed(names)}, the data has {listed(wanted)}: give the data's source class_names "
        "that name the same classes"
    )


def listed(names: Sequence[str]) -> str:
    """Returns class names for a message; of more than ten names, the first ten and the number of the others.

    Example:
        >>> listed(["no", "yes"])
        "['no', 'yes']"
    """
    return f"{list(names)}" if len(names) <= 10 else f"{list(names[:10])} and {len(names) - 10} others"


def comparable_names(names: Sequence[str], wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns both lists normalized, or as they are if normalizing makes two names of one list equal.

    Example:
        >>> comparable_names(["NO", "YES"], ["no", "yes"])
        (['no', 'yes'], ['no', 'yes'])
        >>> comparable_names(["A1", "A-1"], ["A1", "A-1"])
        (['A1', 'A-1'], ['A1', 'A-1'])
    """
    normalized = [normalized_name(name) for name in names], [normalized_name(name) for name in wanted]
    if all(len(set(new)) == len(set(old)) for new, old in zip(normalized, (names, wanted), strict=True)):
        return normalized
    return list(names), list(wanted)
