"""Solvex: a beam search for the erasure order with the best value of a metric; scores are ranks in this order."""

from __future__ import annotations

import copy
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.erasure.beam_search import Beams, best_orders, most_sets, require_search
from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.evaluate import mapped
from lightning_xai.functional.erasure.perturbation import Evaluate, Versions, logits_of, target_outputs
from lightning_xai.functional.erasure.units import Unit, count_units, kept_tokens, spread_over_tokens, token_units
from lightning_xai.functional.network.chunking import check_chunk_size
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

Objective = Literal["comp", "suff", "comp_suff"]


def signed_ranks(ranks: Tensor, effects: Tensor, exists: Tensor) -> Tensor:
    """Returns ranks [P, M] minus an offset, so that as many results as possible have the same sign as their `effects`.

    Each row has its own offset: -1/2, 1/2, ..., or N - 1/2. If several offsets are equally good, the smallest is
    chosen. The result is 0 where there is no unit.

    Args:
        ranks: [P, M], N - 1 for the most important of N units, 0 for the least important.
        effects: [P, M], the drop in the output when only this unit is erased. An effect of 0 agrees with neither sign.
        exists: [P, M] bool, False where there is no unit.

    Example:
        >>> signed_ranks(torch.tensor([[2, 1, 0]]), torch.tensor([[0.5, 0.2, -0.1]]), torch.ones(1, 3).bool())
        tensor([[ 1.5000,  0.5000, -0.5000]], dtype=torch.float64)
    """
    # offsets above N - 1/2 are needless for a row with N < M units: as N - 1/2 does, they make all scores negative.
    # They are never chosen, because argmax returns the first of equal values
    offsets = torch.arange(ranks.shape[1] + 1, dtype=torch.float64) - 0.5
    shifted = ranks.double().unsqueeze(1) - offsets.unsqueeze(1)  # [P, M + 1, M]
    agree = (shifted.sign() == effects.sign().unsqueeze(1)) & exists.unsqueeze(1)
    best = agree.sum(dim=-1).argmax(dim=1)
    return (ranks - offsets[best].unsqueeze(1)).masked_fill(~exists, 0)


class _Solution(NamedTuple):
    """The best orders for P = B * K pairs of an example and a class."""

    ranks: Tensor  # [P, M] long, N - 1 for the most important of N units; -1 where there is no unit
    effects: Tensor  # [P, M] float64, the drop in the probability when only this unit is erased; 0 without a unit
    totals: Tensor  # [P] float64, the objective of each order
    units: Tensor  # [B, T] long, the index of each token's unit


class Solvex(AttributionMethod):
    """Scores units by their rank in the erasure order with the best value of an erasure metric, found by beam search.

    The search optimizes the metric directly, so its result shows how high the metric's value can get. Each example and
    class has its own search. An erased input that several of these searches need is evaluated once.

    The most important of N units has rank N - 1, the least important has rank 0. A unit's effect is the drop in the
    probability when only this unit is erased. A unit's score is its rank minus an offset. The offset is chosen so that
    for as many units as possible, score and effect have the same sign. Special tokens score 0. The score of a word is
    divided equally among its tokens.

    Passes: at most about b N^2 / 2 forward passes for each class of a text with N units, with a beam of b orders; twice
    as many for "comp_suff".

    Args:
        metric: what the search maximizes over all orders: a sum of terms for k = 1, ..., N. If f is the probability of
            the class and x the text, the terms are f(x) - f(x without the first k units) for "comp",
            f(only the first k units) - f(x) for "suff", and the sum of both for "comp_suff".
        beam_size: largest number of orders of k units that the beam keeps, for each k.
        exact_up_to: texts of at most this number of units are solved exactly, by evaluating all 2^N sets of units.
        beams: "sets" keeps only the better of two orders of the same units; "orders" keeps both, as published.
        erasure: how a unit is erased: "delete" removes its tokens, "mask" replaces them by the fill token, "pad" by the
            padding token, and "embed_zero" sets their embeddings to 0.
        unit: "token" or "word".
        chunk_size: largest number of erased inputs in one forward pass. By default, it is chosen for the device. Scores
            do not depend on it.

    Reference: Zhou and Shah (2023), "The Solvability of Interpretability Evaluation Metrics", arXiv 2205.08696.
    Differs: the released beam keeps several orders of one set (beams="orders"). The released code cannot run "comp" or
    "suff" alone.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7, 2]], special_ids=[1, 2])
        >>> scores = Solvex(exact_up_to=3).attribute(random_bert(), inputs, torch.tensor([[1]])).scores
        >>> scores[0, 0, 1:4].sort().values.diff()  # ranks of three units
        tensor([1., 1.])
    """

    passes_at_most = True

    def __init__(
        self,
        metric: Objective = "comp_suff",
        beam_size: int = 50,
        exact_up_to: int = 0,
        beams: Beams = "sets",
        erasure: Erasure = "mask",
        unit: Unit = "token",
        chunk_size: int | None = None,
    ) -> None:
        literals = {"metric": Objective, "beams": Beams, "erasure": Erasure, "unit": Unit}
        require_choices(literals, {"metric": metric, "beams": beams, "erasure": erasure, "unit": unit})
        require_search(beam_size, exact_up_to)
        check_chunk_size(chunk_size)
        self.metric: Objective = metric
        self.beam_size = beam_size
        self.exact_up_to = exact_up_to
        self.beams: Beams = beams
        self.erasure: Erasure = erasure
        self.unit: Unit = unit
        self.chunk_size = chunk_size

    @property
    def selected_on(self) -> str:
        """Name of the erasure metric that this method optimizes."""
        return {"comp": "comprehensiveness", "suff": "sufficiency"}.get(self.metric, "comprehensiveness+sufficiency")

    def for_preflight(self) -> Solvex:
        narrow = copy.copy(self)
        narrow.beam_size = 1
        return narrow

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        solution = self._search(model, inputs, targets)
        ranks = signed_ranks(solution.ranks, solution.effects, solution.ranks >= 0)
        ranks[~solution.totals.isfinite()] = torch.nan  # finite ranks would hide non-finite probabilities
        return spread_over_tokens(ranks.view(*targets.shape, -1), solution.units).float().to(inputs.device)

    def solve(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the units' ranks [B, K, M] in the best order found, and the order's objective value [B, K].

        The rank is N - 1 for the most important of N units, and -1 where there is no unit. Unlike `attribute`, `solve`
        does not switch the model to eval mode.
        """
        solution = self._search(model, inputs, targets)
        return solution.ranks.view(*targets.shape, -1), solution.totals.view(targets.shape)

    def _search(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> _Solution:
        num_targets = targets.shape[1]
        units = token_units(inputs, self.unit).cpu()
        num_units = count_units(units)
        most_units = max(int(num_units.max()), 1)
        evaluate = _probabilities_of(model)

        def probs_of(example: Tensor, keep: Tensor) -> Tensor:
            versions = Versions(example, kept_tokens(units[example], keep))
            return target_outputs(
                evaluate,
                inputs,
                targets,
                versions,
                erasure=self.erasure,
                pad_id=model.pad_id,
                chunk_size=self.chunk_size,
            )

        # the texts, and their versions with one unit erased, are evaluated together
        texts = torch.arange(len(inputs))
        example, unit = (torch.arange(most_units) < num_units.unsqueeze(1)).nonzero(as_tuple=True)
        erased = torch.cat([torch.zeros(len(inputs), most_units), torch.eye(most_units)[unit]]).bool()
        probs = probs_of(torch.cat([texts, example]), ~erased)
        unerased = probs[: len(inputs)]  # [B, K]
        without_unit = unerased.unsqueeze(1).repeat(1, most_units, 1)  # [B, M, K]
        without_unit[example, unit] = probs[len(inputs) :]

        def gains(problem: Tensor, chosen: Tensor) -> Tensor:
            rows, column = problem // num_targets, (problem % num_targets).unsqueeze(1)
            gain = torch.zeros(len(problem), num_targets, dtype=torch.float64)
            if self.metric != "suff":
                is_single = bool((chosen.sum(dim=1) == 1).all())
                lone_unit = chosen.int().argmax(dim=1)
                gain += unerased[rows] - (without_unit[rows, lone_unit] if is_single else probs_of(rows, ~chosen))
            if self.metric != "comp":
                gain += probs_of(rows, chosen) - unerased[rows]
            return gain.gather(1, column).squeeze(1)

        counts = num_units.repeat_interleave(num_targets)
        positions, totals, _ = best_orders(
            gains, counts, beam_size=self.beam_size, exact_up_to=self.exact_up_to, beams=self.beams
        )
        ranks = (counts.unsqueeze(1) - 1 - positions).clamp(min=-1)
        effects = (unerased.unsqueeze(1) - without_unit).transpose(1, 2).flatten(0, 1)[:, : ranks.shape[1]]
        return _Solution(ranks, effects, totals, units)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns an upper bound on the number of passes. Fewer suffice if searches evaluate the same sets of units."""
        if not num_tokens:
            return Passes(forward=1, backward=0)
        sets = most_sets(num_tokens, num_targets, beam_size=self.beam_size, exact_up_to=self.exact_up_to)
        # a text has at most `num_tokens` units. Its versions with one unit erased are evaluated before the search, so
        # the search for "comp" or "comp_suff" does not evaluate these `num_tokens` versions again
        versions = {"comp": sets - num_tokens, "suff": sets, "comp_suff": 2 * sets - num_tokens}[self.metric]
        return Passes(forward=1 + num_tokens + versions, backward=0)


def _probabilities_of(model: Classifier) -> Evaluate:
    """Returns a function that computes the probabilities of erased inputs, in float64 on the CPU.

    The network's logits are converted to float64 before the softmax or sigmoid. In float32, different probabilities
    close to 1 may round to the same number.
    """

    def probabilities(logits: Tensor) -> Tensor:
        logits = logits.cpu().double()  # not every device supports float64
        return logits.sigmoid() if model.multilabel else logits.softmax(dim=-1)

    return mapped(logits_of(model), probabilities, model)
