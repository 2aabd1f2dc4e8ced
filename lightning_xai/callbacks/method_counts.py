"""Reports what methods have counted. For example, fAML counts at which step each explanation had its best scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

NAMES = ("kept_steps", "aligned_tokens")  # attributes of methods; each is a Counter

MethodCounts = Mapping[str, Mapping[str, Counter]]


def counts_of_methods(methods: Mapping[str, Any]) -> MethodCounts:
    """Returns copies of all counts: name of a method -> name of a count -> Counter (empty if the method lacks it).

    Example:
        >>> from types import SimpleNamespace
        >>> counts_of_methods({"faml": SimpleNamespace(kept_steps=Counter({2: 3}))})["faml"]["kept_steps"]
        Counter({2: 3})
    """
    return {name: {key: Counter(getattr(method, key, {})) for key in NAMES} for name, method in methods.items()}


def clear_counts(methods: Mapping[str, Any]) -> None:
    """Sets the counts of all methods to zero.

    Example:
        >>> from types import SimpleNamespace
        >>> method = SimpleNamespace(kept_steps=Counter({2: 3}))
        >>> clear_counts({"faml": method})
        >>> method.kept_steps
        Counter()
    """
    for method in methods.values():
        for key in NAMES:
            getattr(method, key, Counter()).clear()


def lines_of_counts(gathered: Sequence[MethodCounts]) -> list[str]:
    """Returns lines that report the counts of each method, summed over the processes in `gathered`.

    Example:
        >>> steps, tokens = Counter({0: 1, 2: 3}), Counter(scored=1200, nearest=6)
        >>> print(*lines_of_counts([{"faml": {"kept_steps": steps, "aligned_tokens": tokens}}]), sep="\\n")
        faml: tuning steps that gave the best scores (number of explanations): 0 (1), 2 (3)
        faml: 6 of 1,200 tokens share no character with a token of the scorer, so they have the score of the nearest ...
    """
    lines = []
    for method in gathered[0]:
        steps, tokens = (sum((counts[method][key] for counts in gathered), Counter()) for key in NAMES)
        if steps:
            shown = ", ".join(f"{step} ({steps[step]})" for step in sorted(steps))
            lines.append(f"{method}: tuning steps that gave the best scores (number of explanations): {shown}")
        if tokens:
            lines.append(
                f"{method}: {tokens['nearest']:,} of {tokens['scored']:,} tokens share no character with a token of "
                "the scorer, so they have the score of the nearest scorer token"
            )
    return lines
