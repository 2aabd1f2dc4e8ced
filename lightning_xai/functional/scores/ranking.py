"""Ranks tokens or examples, rounds percentages to numbers of units, and computes areas under curves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.erasure.units import unit_ids

Rounding = Literal["floor", "ceil", "round"]
Ties = Literal["first", "last"]


def ranks(scores: Tensor, mask: Tensor, *, ties: Ties = "first") -> Tensor:
    """Returns [..., N] long: the rank of each score inside `mask` (0 for the largest score), and N outside `mask`.

    Equal scores are ranked by position, so that ranks depend neither on the machine nor on padding.

    Args:
        scores: [..., N].
        mask: [..., N] bool, True at the scores that are ranked.
        ties: "first" ranks the leftmost of equal scores first; "last" ranks the rightmost first.

    Example:
        >>> ranks(torch.tensor([2.0, 9.0, 2.0, 5.0]), torch.tensor([True, False, True, True])).tolist()
        [1, 4, 2, 0]
    """
    if ties == "last":
        return ranks(scores.flip(-1), mask.flip(-1)).flip(-1)
    order = scores.masked_fill(~mask, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    # a score of -inf inside the mask must still precede all scores outside the mask
    order = order.gather(-1, (~mask).gather(-1, order).to(torch.uint8).argsort(dim=-1, stable=True))
    positions = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    return torch.empty_like(order).scatter_(-1, order, positions).masked_fill(~mask, scores.shape[-1])


def top_mask(scores: Tensor, mask: Tensor, counts: Tensor, *, ties: Ties = "first") -> Tensor:
    """Returns [..., N] bool: True at the `counts` [...] largest scores inside `mask`.

    If fewer than `counts` scores are inside `mask`, the result is True at all of them.

    Example:
        >>> top_mask(torch.tensor([2.0, 9.0, 5.0]), torch.tensor([True, False, True]), torch.tensor(1)).tolist()
        [False, False, True]
    """
    return ranks(scores, mask, ties=ties) < torch.minimum(counts, mask.sum(dim=-1)).unsqueeze(-1)


def percent_of(totals: Tensor, percentage: float | str, *, rounding: Rounding = "floor", minimum: int = 0) -> Tensor:
    """Returns [N] long: `percentage` percent of each number in `totals`, computed exactly and then rounded.

    A float percentage is taken as the decimal number that Python prints for it, so 70 percent of 90 is exactly 63. In
    floating point, 0.7 * 90 is 62.99999999999999, which "floor" would round to 62.

    Args:
        totals: [N], whole numbers.
        percentage: a number from 0 to 100.
        rounding: "floor", "ceil", or "round". Like Python, "round" rounds halves to the nearest even number.
        minimum: smallest result, unless the total itself is smaller.

    Raises:
        ValueError: `percentage` is outside [0, 100].

    Example:
        >>> [percent_of(torch.tensor([90, 5]), 70, rounding=rounding).tolist() for rounding in ("floor", "ceil")]
        [[63, 3], [63, 4]]
    """
    numerator, denominator = _share(str(percentage))
    round_ratio = _ROUND_RATIO[rounding]
    # computed with Python's integers, because 64-bit integers could overflow: as an exact fraction, 33.333333333333336
    # percent has a numerator near 2^52, which is multiplied by the length of a text
    whole = [int(total) for total in totals.tolist()]
    counts = [min(max(round_ratio(numerator * total, denominator), minimum), total) for total in whole]
    return torch.tensor(counts, dtype=torch.long, device=totals.device)


@functools.lru_cache(maxsize=1024)
def _share(percentage: str) -> tuple[int, int]:
    """Returns the numerator and the denominator of `percentage` / 100 as a fraction."""
    share = Fraction(percentage) / 100
    if not 0 <= share <= 1:
        raise ValueError(f"percentage is {percentage}: give a number from 0 to 100")
    return share.as_integer_ratio()


def _half_to_even(numerator: int, denominator: int) -> int:
    """Returns the whole number nearest to a ratio; a half goes to the even number, as with Python's `round`."""
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1))


_ROUND_RATIO: dict[Rounding, Callable[[int, int], int]] = {
    "floor": lambda numerator, denominator: numerator // denominator,
    "ceil": lambda numerator, denominator: -(-numerator // denominator),
    "round": _half_to_even,
}


def _tie_groups(scores: Tensor, positives: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
    """Sorts entries by descending score. Returns the sorted positives and mask, and two bounds for each sorted entry.

    The bounds are the first and the last position of the group of sorted entries that have the same score as the entry.
    All four results are [..., N].
    """
    mask = torch.ones_like(positives) if mask is None else mask
    scores = scores.double().masked_fill(~mask, -torch.inf)
    sorted_scores, order = scores.sort(dim=-1, descending=True, stable=True)
    valid = mask.gather(-1, order)
    positives = positives.gather(-1, order) & valid
    places = torch.arange(scores.shape[-1], device=scores.device).expand_as(order)
    differs = sorted_scores[..., 1:] != sorted_scores[..., :-1]
    edge = torch.ones_like(valid[..., :1])
    starts, ends = torch.cat([edge, differs], dim=-1), torch.cat([differs, edge], dim=-1)
    first = places.where(starts, 0).cummax(dim=-1).values
    last = places.where(ends, scores.shape[-1]).flip(-1).cummin(dim=-1).values.flip(-1)
    return positives, valid, first, last


def average_precision(scores: Tensor, positives: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the average precision [...] float64, the area under the stepwise precision-recall curve.

    Each row of N entries (the last dimension) has a curve. Equal scores share one threshold, as in scikit-learn. The
    area is NaN if no entry is positive.

    Args:
        scores: [..., N].
        positives: [..., N] bool, True at positive entries.
        mask: [..., N] bool, True at the entries that count; None counts all entries.

    Example:
        >>> positives = torch.tensor([True, False, True])
        >>> average_precision(torch.tensor([3.0, 2.0, 1.0]), positives).item()  # (1/1 + 2/3) / 2
        0.8333333333333333
    """
    if not scores.shape[-1]:
        return scores.new_full(scores.shape[:-1], torch.nan, dtype=torch.float64)
    positives, valid, _, last = _tie_groups(scores, positives, mask)
    precision = positives.cumsum(-1).double() / valid.cumsum(-1).clamp(min=1)
    return (precision.gather(-1, last) * positives).sum(-1) / positives.sum(-1)


def auroc(scores: Tensor, positives: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the AUROC [...] float64: the probability that a positive entry has a higher score than a negative entry.

    Pairs with equal scores count half. The result is NaN if there are no positives or no negatives. The arguments are
    those of `average_precision`.

    Example:
        >>> auroc(torch.tensor([3.0, 2.0, 2.0, 1.0]), torch.tensor([True, True, False, False])).item()  # (4 - 1/2) / 4
        0.875
    """
    if not scores.shape[-1]:
        return scores.new_full(scores.shape[:-1], torch.nan, dtype=torch.float64)
    positives, valid, first, last = _tie_groups(scores, positives, mask)
    negatives = valid & ~positives
    above = negatives.cumsum(-1).double()
    # for each entry: how many negatives have at least the entry's score, and how many have a larger score
    until = above.gather(-1, last)
    before = above.gather(-1, first) - negatives.gather(-1, first).double()
    total = negatives.sum(-1, keepdim=True).double()
    return (((total - 0.5 * (until + before)) / total) * positives).sum(-1) / positives.sum(-1)


def precision_recall_area(scores: Tensor, positives: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the area [...] float64 under the precision-recall curve, computed with the trapezoidal rule.

    The curve starts at recall 0 and precision 1, and is a straight line between neighboring thresholds. The curve of
    `average_precision` has steps instead. The arguments are those of `average_precision`.

    Example:
        >>> positives = torch.tensor([True, False, True])
        >>> precision_recall_area(torch.tensor([3.0, 2.0, 1.0]), positives).item()  # (1 + (1/2 + 2/3) / 2) / 2
        0.7916666666666666
    """
    if not scores.shape[-1]:
        return scores.new_full(scores.shape[:-1], torch.nan, dtype=torch.float64)
    positives, valid, _, last = _tie_groups(scores, positives, mask)
    hits = positives.cumsum(-1).double()
    precision = (hits / valid.cumsum(-1).clamp(min=1)).gather(-1, last)
    recall = hits.gather(-1, last) / positives.sum(-1, keepdim=True)
    precision = torch.cat([torch.ones_like(precision[..., :1]), precision], dim=-1)
    recall = torch.cat([torch.zeros_like(recall[..., :1]), recall], dim=-1)
    return torch.trapezoid(precision, recall, dim=-1)


def token_ranks(scores: Tensor, mask: Tensor, word_ids: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Ranks units (words or single tokens). Returns the rank of each token's unit, and each text's number of units.

    The score of a word is the sum of its tokens' scores.

    Args:
        scores: [B, K, T].
        mask: [B, T] bool, True at tokens that are ranked.
        word_ids: [B, T] long, the index of each token's word, see `unit_ids`; None ranks single tokens.

    Returns:
        the ranks [B, K, T] long, counted from 0; tokens outside `mask` have the value T.
        the number of units [B] long in each text.

    Example:
        >>> scores, mask = torch.tensor([[[2.0, 2.0, 3.0]]]), torch.ones(1, 3, dtype=torch.bool)
        >>> token_ranks(scores, mask, torch.tensor([[0, 0, 1]]))  # the first word's score is 4
        (tensor([[[0, 0, 1]]]), tensor([2]))
    """
    units = unit_ids(mask, word_ids)
    places = units.clamp(min=0).unsqueeze(1).expand_as(scores)  # [B, K, T]
    inside = mask.unsqueeze(1)
    totals = torch.zeros_like(scores).scatter_add(-1, places, scores.masked_fill(~inside, 0))
    num_units = units.amax(dim=1) + 1
    exists = torch.arange(scores.shape[-1], device=scores.device) < num_units[:, None, None]
    unit_ranks = ranks(totals, exists.expand_as(totals))
    return unit_ranks.gather(-1, places).masked_fill(~inside, scores.shape[-1]), num_units
