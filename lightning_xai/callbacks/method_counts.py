"""Reports what methods have counted. For example, fAML counts at which step each explanation had its best scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.given import with_parts
from lightning_xai.functional.text.quantity import quantity

NAMES = ("kept_steps", "aligned_tokens", "answers")  # attributes of methods; each is a Counter

MethodCounts = Mapping[str, Mapping[str, Counter]]


def counts_of_methods(methods: Mapping[str, AttributionMethod]) -> MethodCounts:
    """Returns copies of all counts: name of a method -> name of a count -> Counter (empty if the method lacks it).

    The counts of a method include those of the methods that it contains.

    Example:
        >>> from lightning_xai.attributions.aml import AMLAttribution
        >>> from lightning_xai.attributions.transformed import Transformed
        >>> paml = AMLAttribution("runs/aml/seed0")
        >>> paml.kept_steps.update([2, 2])
        >>> counts_of_methods({"normalized": Transformed(paml, ["normalize"])})["normalized"]["kept_steps"]
        Counter({2: 2})
    """
    return {name: {key: sum(_counters([method], key), Counter()) for key in NAMES} for name, method in methods.items()}


def clear_counts(methods: Mapping[str, AttributionMethod]) -> None:
    """Sets the counts of all methods, and of the methods that they contain, to zero.

    Example:
        >>> from lightning_xai.attributions.aml import AMLAttribution
        >>> method = AMLAttribution("runs/aml/seed0")
        >>> method.kept_steps.update([2])
        >>> clear_counts({"faml": method})
        >>> method.kept_steps
        Counter()
    """
    for key in NAMES:
        for counter in _counters(methods.values(), key):
            counter.clear()


def lines_of_counts(gathered: Sequence[MethodCounts]) -> list[str]:
    """Returns lines that report the counts of each method, summed over the processes in `gathered`.

    Example:
        >>> counts = {"kept_steps": Counter({0: 1, 2: 3}), "aligned_tokens": Counter(scored=1200, nearest=6)}
        >>> counts["answers"] = Counter(answers=8, ranked=40, dropped=2, useless=1)
        >>> print(*lines_of_counts([{"faml": counts}]), sep="\\n")
        faml: tuning steps that gave the best scores (number of explanations): 0 (1), 2 (3)
        faml: 6 of 1,200 tokens share no character with a token of the scorer, so they have the score of the nearest ...
        faml: 8 answers of the language model ranked 40 words and named 2 words that are not in the text; 1 answer ...
    """
    lines = []
    for method in gathered[0]:
        steps, tokens, answers = (sum((counts[method][key] for counts in gathered), Counter()) for key in NAMES)
        if steps:
            shown = ", ".join(f"{step} ({steps[step]})" for step in sorted(steps))
            lines.append(f"{method}: tuning steps that gave the best scores (number of explanations): {shown}")
        if tokens:
            lines.append(
                f"{method}: {tokens['nearest']:,} of {tokens['scored']:,} tokens share no character with a token of "
                "the scorer, so they have the score of the nearest scorer token"
            )
        if answers:
            lines.append(
                f"{method}: {quantity(answers['answers'], 'answer')} of the language model ranked "
                f"{quantity(answers['ranked'], 'word')} and named {quantity(answers['dropped'], 'word')} that are not "
                f"in the text; {quantity(answers['useless'], 'answer')} named no word of the text"
            )
    return lines


def _counters(methods: Iterable[AttributionMethod], name: str) -> list[Counter]:
    """Returns the attribute `name` of each method, and of the methods that it contains, that has it."""
    return [getattr(part, name) for part in with_parts(methods) if hasattr(part, name)]
