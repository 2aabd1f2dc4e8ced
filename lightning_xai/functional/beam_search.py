"""Search for the order of units that accumulates the largest value over its beginnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import comb
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lightning_xai.functional.duplicates import distinct_rows
from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Evaluate, perturbed_outputs
from lightning_xai.types import TextInputs

Beams = Literal["sets", "orders"]
SetValues = Callable[[Tensor, Tensor], Tensor]  # problem [R] and chosen units [R, M] bool -> values [R] float64

LARGEST_EXACT = 20  # units; each more doubles the sets

_CANDIDATE_ELEMENTS = 2**27  # units of candidate sets held at once


class Orders(NamedTuple):
    """The best order found for each of P problems over at most M units."""

    steps: Tensor  # [P, M] long, the place of each unit in the order, from 0; M where there is no unit
    totals: Tensor  # [P] float64, sum of the values of the first 1, 2, ... all units
    num_sets: Tensor  # [P] long, sets whose value was asked for


def require_search(beam_size: int, exact_up_to: int) -> None:
    """Checks the two arguments of a search.

    Raises:
        ValueError: one of them is out of range.
    """
    if beam_size < 1:
        raise ValueError(f"beam_size is {beam_size}: keep at least 1 order a step")
    if not 0 <= exact_up_to <= LARGEST_EXACT:
        raise ValueError(
            f"exact_up_to is {exact_up_to}: give a number of units from 0 to {LARGEST_EXACT}, for N units have 2^N sets"
        )


def best_orders(
    values: SetValues, num_units: Tensor, *, beam_size: int, exact_up_to: int = 0, beams: Beams = "sets"
) -> Orders:
    """Returns for each problem the order of its units whose beginnings have the largest sum of values.

    The value of a beginning depends on its set of units, not on their order. Keeping the better of two orders of one
    set therefore loses nothing, and a beam that holds every set of a size is dynamic programming over the subsets:
    exact, with 2^N sets where brute force has N! orders. Equal sums are settled by the beam's own order, then by place.

    Args:
        values: called once a size (or a few times, to bound memory) for the distinct sets of all problems.
        num_units: [P] long, units of each problem, on the CPU.
        beam_size: beginnings kept at each size.
        exact_up_to: problems of at most so many units keep all sets, and are solved exactly.
        beams: "sets" keeps one order of a set; "orders" lets several orders of one set fill the beam.
    """
    width = int(num_units.max()) if len(num_units) else 0
    steps = torch.full((len(num_units), width), width)
    totals = torch.zeros(len(num_units), dtype=torch.float64)
    num_sets = torch.zeros(len(num_units), dtype=torch.long)
    beam_sizes = _beam_sizes(num_units, beam_size, exact_up_to)
    for problems in _groups(beam_sizes * num_units * width):
        state = problems  # [S] the problem of each beginning
        state_steps = steps[problems]  # [S, M]
        state_totals = totals[problems]  # [S]
        for step in range(width):
            going = num_units[state] > step
            state, state_steps, state_totals = state[going], state_steps[going], state_totals[going]
            if not len(state):
                break
            free = (state_steps == width) & (torch.arange(width) < num_units[state].unsqueeze(1))
            parent, unit = free.nonzero(as_tuple=True)  # [R] candidates, by beginning and then by place
            chosen = (state_steps[parent] < width).scatter(1, unit.unsqueeze(1), True)  # [R, M]
            distinct, place = distinct_rows(torch.cat([_bits(state[parent]), chosen], dim=1))
            gains = values(state[parent[distinct]], chosen[distinct]).double().cpu()
            num_sets += torch.bincount(state[parent[distinct]], minlength=len(num_sets))
            candidate_totals = state_totals[parent] + gains[place]
            kept = _kept(candidate_totals, state[parent], place if beams == "sets" else None, beam_sizes)
            state, state_totals = state[parent[kept]], candidate_totals[kept]
            state_steps = state_steps[parent[kept]].scatter(1, unit[kept].unsqueeze(1), step)
            best, _ = distinct_rows(state)  # the first, so the best, of each problem
            steps[state[best]], totals[state[best]] = state_steps[best], state_totals[best]
    return Orders(steps, totals, num_sets)


def _kept(totals: Tensor, problem: Tensor, place: Tensor | None, beam_sizes: Tensor) -> Tensor:
    """Returns the candidates that stay, by problem and then from the largest total down."""
    order = totals.argsort(descending=True, stable=True)
    if place is not None:  # of each set the best order only
        first, _ = distinct_rows(place[order])
        order = order[first.sort().values]
    order = order[problem[order].argsort(stable=True)]
    sorted_problem = problem[order]
    rank = torch.arange(len(order)) - torch.searchsorted(sorted_problem, sorted_problem)
    return order[rank < beam_sizes[sorted_problem]]


def _beam_sizes(num_units: Tensor, beam_size: int, exact_up_to: int) -> Tensor:
    """Returns [P] long: the beam size, or for exact problems the largest number of sets of one size."""
    all_sets = [comb(n, n // 2) if n <= exact_up_to else beam_size for n in num_units.tolist()]
    return torch.tensor(all_sets, dtype=torch.long)


def _bits(numbers: Tensor) -> Tensor:
    """Returns numbers [R] as bits [R, 32], which keep equal sets of different problems apart."""
    return ((numbers.unsqueeze(1) >> torch.arange(32)) & 1).bool()


def _groups(elements: Tensor) -> Iterator[Tensor]:
    """Yields runs of problems whose candidates fit the memory, neighbors together as they share sets."""
    ends = elements.cumsum(0)
    start = 0
    while start < len(elements):
        before = int(ends[start - 1]) if start else 0
        end = max(int((ends <= before + _CANDIDATE_ELEMENTS).sum()), start + 1)
        yield torch.arange(start, end)
        start = end


def most_sets(num_units: int, num_problems: int, *, beam_size: int, exact_up_to: int = 0) -> int:
    """Returns the most distinct sets that `num_problems` searches over the same `num_units` units ask for together.

    With beam b a search asks for at most b N (N + 1) / 2 sets, and all searches for no more than all 2^N - 1 sets.
    """
    total = 0
    for size in range(1, num_units + 1):
        all_sets = comb(num_units, size)
        beams = min(beam_size, comb(num_units, size - 1))
        candidates = num_problems * beams * (num_units - size + 1)
        total += all_sets if num_units <= exact_up_to else min(candidates, all_sets)
    return total


def outputs_without(
    evaluate: Evaluate,
    inputs: TextInputs,
    targets: Tensor,
    units: Tensor,
    example: Tensor,
    erased: Tensor,
    *,
    how: Erasure,
    pad_id: int = 0,
    chunk_size: int | None = None,
) -> Tensor:
    """Returns outputs [R, K] in float64, on the CPU, of inputs without some of their units, for their own classes only.

    Args:
        evaluate: the function of erased inputs; see `perturbed_outputs`.
        inputs: B whole inputs.
        targets: [B, K] long, the classes.
        units: [B, T] long, the unit of each token, -1 for none.
        example: [R] long, the example of each row.
        erased: [R, M] bool, the units that each row lacks.
        how: see `erase`.
        pad_id: see `erase`.
        chunk_size: see `perturbed_outputs`.
    """

    def of_targets(copies: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        outputs = evaluate(copies, embed_mask)
        return outputs.gather(1, targets[copies.index].to(outputs.device)).cpu().double()

    places = units.cpu()[example]  # [R, T]
    keep = ~erased.gather(1, places.clamp(min=0)) | (places < 0)
    rows = replace(inputs, index=torch.arange(len(inputs), device=inputs.device))  # to find their classes by
    options = {"how": how, "pad_id": pad_id, "chunk_size": chunk_size}
    return perturbed_outputs(of_targets, rows, example, keep, **options).cpu()
