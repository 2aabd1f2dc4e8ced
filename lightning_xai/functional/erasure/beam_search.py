"""Beam search for the best order of units: its prefixes (first 1, 2, ... units) have the largest sum of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lightning_xai.functional.erasure.duplicates import distinct_rows

Beams = Literal["sets", "orders"]
SetValues = Callable[[Tensor, Tensor], Tensor]  # maps (problem [R], members [R, M] bool) of R sets to their values [R]

LARGEST_EXACT = 20  # largest number of units for an exact search; each additional unit doubles the number of sets

_CANDIDATE_ELEMENTS = 2**27  # limits memory: largest number of entries (candidates times units) in a candidate table


class Orders(NamedTuple):
    """The result of `best_orders`: for each of P problems with at most M units, the best order of its units.

    Example:
        >>> orders = Orders(torch.tensor([[1, 0, 3]]), torch.tensor([2.5]), torch.tensor([3]))
        >>> orders.positions[0].argsort()[:2].tolist()  # unit 1, then unit 0; there is no unit 2
        [1, 0]
    """

    positions: Tensor  # [P, M] long, each unit's position in the order, counted from 0; M for units that do not exist
    totals: Tensor  # [P] float64, the sum of the values of all non-empty prefixes of the order
    num_sets: Tensor  # [P] long, the number of sets whose value was computed


def require_search(beam_size: int, exact_up_to: int) -> None:
    """Checks the arguments `beam_size` and `exact_up_to` of `best_orders`.

    Raises:
        ValueError: `beam_size` is below 1, or `exact_up_to` is outside 0..20.

    Example:
        >>> require_search(beam_size=0, exact_up_to=0)
        Traceback (most recent call last):
        ValueError: beam_size is 0: give a number of at least 1
    """
    if beam_size < 1:
        raise ValueError(f"beam_size is {beam_size}: give a number of at least 1")
    if not 0 <= exact_up_to <= LARGEST_EXACT:
        raise ValueError(
            f"exact_up_to is {exact_up_to}: give a number from 0 to {LARGEST_EXACT}, since N units form 2^N sets"
        )


def best_orders(
    values: SetValues, num_units: Tensor, *, beam_size: int, exact_up_to: int = 0, beams: Beams = "sets"
) -> Orders:
    """Returns the best order that a beam search finds for the N units of each problem: the order with the largest sum.

    The sum of an order u_1 ... u_N is v({u_1}) + v({u_1, u_2}) + ... + v({u_1 ... u_N}), where v is the argument
    `values`. The value of a prefix depends only on the set of its units. Of two orders of the same set, the order with
    the smaller sum can therefore be dropped without loss. If the beam holds every set of each size, the search is
    dynamic programming over subsets: the result is exact and needs the values of 2^N sets, while brute force would
    compare N! orders.

    Each step extends the prefixes in the beam by one unit. Extended prefixes with equal sums are sorted by the position
    of the shorter prefix in the beam, and then by the index of the added unit.

    Args:
        values: the function v, see `SetValues`. For each set size, it is called once with the distinct sets of all
            problems, or several times if these sets do not fit in memory together.
        num_units: [P] long, the number of units of each problem, on the CPU.
        beam_size: largest number of prefixes of each size that are kept per problem.
        exact_up_to: for problems with at most this many units, the beam is large enough for all sets of each size. If
            `beams` is "sets", these problems are solved exactly.
        beams: "sets" keeps only the best order of each set; "orders" may keep several orders of a set in the beam.

    Example:
        >>> worth = torch.tensor([1.0, 5.0, 3.0])  # the value of a set is the sum of the values of its units
        >>> best = best_orders(lambda problem, members: members.float() @ worth, torch.tensor([3]), beam_size=4)
        >>> best.positions.tolist(), best.totals.tolist()  # units 1, 2, 0: 5 + 8 + 9
        ([[2, 0, 1]], [22.0])
    """
    width = int(num_units.max()) if len(num_units) else 0
    best_positions = torch.full((len(num_units), width), width)
    best_totals = torch.zeros(len(num_units), dtype=torch.float64)
    num_sets = torch.zeros(len(num_units), dtype=torch.long)
    beam_sizes = _beam_sizes(num_units, beam_size, exact_up_to)
    for problems in _fitting_groups(beam_sizes * num_units * width):
        problem = problems  # [S] index of the problem to which each of S prefixes belongs
        positions = best_positions[problems]  # [S, M] each unit's position in the prefix, M if the unit is not in it
        totals = best_totals[problems]  # [S]
        for size in range(width):
            unfinished = num_units[problem] > size
            problem, positions, totals = problem[unfinished], positions[unfinished], totals[unfinished]
            if not len(problem):
                break
            free = (positions == width) & (torch.arange(width) < num_units[problem].unsqueeze(1))
            parent, unit = free.nonzero(as_tuple=True)  # [R] candidates: prefix `parent` plus `unit`
            members = (positions[parent] < width).scatter(1, unit.unsqueeze(1), True)  # [R, M]
            distinct, set_of = distinct_rows(torch.cat([_bits(problem[parent]), members], dim=1))
            gains = values(problem[parent[distinct]], members[distinct]).double().cpu()
            num_sets += torch.bincount(problem[parent[distinct]], minlength=len(num_sets))
            candidate_totals = totals[parent] + gains[set_of]
            chosen = _beam(candidate_totals, problem[parent], set_of if beams == "sets" else None, beam_sizes)
            problem, totals = problem[parent[chosen]], candidate_totals[chosen]
            positions = positions[parent[chosen]].scatter(1, unit[chosen].unsqueeze(1), size)
            best, _ = distinct_rows(problem)  # each problem's first prefix is its best one
            best_positions[problem[best]], best_totals[problem[best]] = positions[best], totals[best]
    return Orders(best_positions, best_totals, num_sets)


def _beam(totals: Tensor, problem: Tensor, set_of: Tensor | None, beam_sizes: Tensor) -> Tensor:
    """Returns the indices of the candidates that stay in the beam, sorted by problem and then by descending total.

    Args:
        totals: [R] float64, the sum of the values of each candidate's prefixes.
        problem: [R] long, the index of the problem that each candidate belongs to.
        set_of: [R] long, the index of the set that each candidate's units form. Only the best candidate of each set
            stays. If None, several candidates with the same set may stay.
        beam_sizes: [P] long, the beam size of each problem.
    """
    order = totals.argsort(descending=True, stable=True)
    if set_of is not None:
        first, _ = distinct_rows(set_of[order])
        order = order[first.sort().values]
    order = order[problem[order].argsort(stable=True)]
    sorted_problem = problem[order]
    rank = torch.arange(len(order)) - torch.searchsorted(sorted_problem, sorted_problem)
    return order[rank < beam_sizes[sorted_problem]]


def _beam_sizes(num_units: Tensor, beam_size: int, exact_up_to: int) -> Tensor:
    """Returns each problem's beam size [P] long.

    In an exact search over n units, the beam must hold all sets of one size, which are at most comb(n, n // 2) sets.
    """
    all_sets = [comb(n, n // 2) if n <= exact_up_to else beam_size for n in num_units.tolist()]
    return torch.tensor(all_sets, dtype=torch.long)


def _bits(numbers: Tensor) -> Tensor:
    """Returns problem indices [R] as binary digits, a bool tensor [R, 32].

    `best_orders` describes a set by the digits of its problem, followed by its members. So equal sets of different
    problems have different descriptions.
    """
    return ((numbers.unsqueeze(1) >> torch.arange(32)) & 1).bool()


def _fitting_groups(elements: Tensor) -> Iterator[Tensor]:
    """Divides the problems into groups of consecutive problems, so that the candidates of a group fit in memory.

    Yields the indices of each group's problems.

    Args:
        elements: [P] long, the largest number of entries in each problem's candidate table.
    """
    ends = elements.cumsum(0)
    start = 0
    while start < len(elements):
        before = int(ends[start - 1]) if start else 0
        end = max(int((ends <= before + _CANDIDATE_ELEMENTS).sum()), start + 1)
        yield torch.arange(start, end)
        start = end


def most_sets(num_units: int, num_problems: int, *, beam_size: int, exact_up_to: int = 0) -> int:
    """Returns an upper bound on the number of distinct sets that several searches over the same units evaluate.

    With beam size b, one search over N units evaluates at most b N (N + 1) / 2 sets. All searches together evaluate at
    most the 2^N - 1 non-empty sets.

    Args:
        num_units: number N of units.
        num_problems: number of searches.
        beam_size: beam size b.
        exact_up_to: all non-empty sets are counted if N is at most this number.

    Example:
        >>> most_sets(4, 1, beam_size=1)  # 4 units to begin with, then 3, 2 and 1 to add
        10
        >>> most_sets(4, 1, beam_size=100)  # all sets but the empty one
        15
    """
    total = 0
    for size in range(1, num_units + 1):
        all_sets = comb(num_units, size)
        num_prefixes = min(beam_size, comb(num_units, size - 1))
        candidates = num_problems * num_prefixes * (num_units - size + 1)
        total += all_sets if num_units <= exact_up_to else min(candidates, all_sets)
    return total
