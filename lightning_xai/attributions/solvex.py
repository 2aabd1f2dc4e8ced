"""Ranks that a beam search over orders of erasure finds best by the erasure metric itself."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.beam_search import Beams, best_orders, most_sets, require_search
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.chunking import check_chunk_size
from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Evaluate, Versions, logits_of, target_outputs
from lightning_xai.functional.units import Unit, count_units, kept_tokens, spread_over_tokens, token_units
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

Solved = Literal["comp", "suff", "comp_suff"]


def signed_ranks(ranks: Tensor, effects: Tensor, exists: Tensor) -> Tensor:
    """Returns ranks [P, M] less an offset: 0 lies where most signs agree with the units' single effects.

    The offset is one of -1/2, 1/2, ... N - 1/2, the first of equals; 0 where there is no unit.

    Args:
        ranks: [P, M], N - 1 for the most important of N units, 0 for the least.
        effects: [P, M] how much the output falls without one unit; an effect of 0 agrees with no sign.
        exists: [P, M] bool.
    """
    offsets = torch.arange(ranks.shape[1] + 1, dtype=torch.float64) - 0.5  # those beyond N agree as often as N - 1/2
    shifted = ranks.double().unsqueeze(1) - offsets.unsqueeze(1)  # [P, M + 1, M]
    agree = (shifted.sign() == effects.sign().unsqueeze(1)) & exists.unsqueeze(1)
    best = agree.sum(dim=-1).argmax(dim=1)  # the first of equals
    return (ranks - offsets[best].unsqueeze(1)).masked_fill(~exists, 0)


class _Found(NamedTuple):
    """What the searches of P = B * K pairs of an example and a class found; -1 and 0 where there is no unit."""

    ranks: Tensor  # [P, M] long, N - 1 for the most important unit
    effects: Tensor  # [P, M] float64, fall of the probability without the unit
    totals: Tensor  # [P] float64, the objective
    units: Tensor  # [B, T] long, the unit of each token


class Solvex(AttributionMethod):
    """Scores units by their rank in the order of erasure that a beam search finds best by the erasure metric.

    What the metric measures is optimized directly, so this is a reference for what an order can reach, at b N^2 / 2
    forward passes for N units and beams of b. One search runs for each example and class; classes share every erased
    input that several searches ask for. Scores are ranks, N - 1 for the most important unit and 0 for the least, less
    an offset between two ranks that makes most signs agree with the effect of erasing a unit alone; special tokens
    have 0. A word's score is divided equally among its tokens.

    Args:
        metric: what the order maximizes, summed over k = 1 ... N, f being the probability of the class: "comp"
            f(x) - f(x without the first k), "suff" f(only the first k) - f(x), or "comp_suff" both.
        beam_size: orders kept at each k.
        exact_up_to: texts of at most so many units are solved exactly, with all 2^N sets (see `best_orders`).
        beams: "sets" keeps the better of two orders of one set; "orders" lets both fill the beam, as published.
        erasure: how a unit is taken away, see `erase`.
        unit: tokens or words.
        chunk_size: most erased inputs in one forward pass; None takes as many as suit the device. Results do not depend
            on it.

    Reference: Zhou and Shah (2023), "The Solvability of Interpretability Evaluation Metrics", arXiv 2205.08696.
    Differs: the released beam holds several orders of one set (beams="orders"), and its "comp" and "suff" do not run.
    """

    passes_at_most = True

    def __init__(
        self,
        metric: Solved = "comp_suff",
        beam_size: int = 50,
        exact_up_to: int = 0,
        beams: Beams = "sets",
        erasure: Erasure = "mask",
        unit: Unit = "token",
        chunk_size: int | None = None,
    ) -> None:
        literals = {"metric": Solved, "beams": Beams, "erasure": Erasure, "unit": Unit}
        require_choices(literals, {"metric": metric, "beams": beams, "erasure": erasure, "unit": unit})
        require_search(beam_size, exact_up_to)
        check_chunk_size(chunk_size)
        self.metric = metric
        self.beam_size = beam_size
        self.exact_up_to = exact_up_to
        self.beams = beams
        self.erasure = erasure
        self.unit = unit
        self.chunk_size = chunk_size

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        found = self._search(model, inputs, targets)
        values = signed_ranks(found.ranks, found.effects, found.ranks >= 0)
        values[~found.totals.isfinite()] = torch.nan  # ranks would hide it
        return spread_over_tokens(values.view(*targets.shape, -1), found.units).float().to(inputs.device)

    def solve(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the units' ranks [B, K, M], N - 1 the most important, -1 for none, and the objectives [B, K].

        The model has to be in eval mode already, unlike in `attribute`.
        """
        found = self._search(model, inputs, targets)
        return found.ranks.view(*targets.shape, -1), found.totals.view(targets.shape)

    def _search(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> _Found:
        num_targets = targets.shape[1]
        units = token_units(inputs, self.unit).cpu()
        num_units = count_units(units)
        width = max(int(num_units.max()), 1)
        evaluate = _probabilities_of(model)
        options = {"how": self.erasure, "pad_id": model.pad_id, "chunk_size": self.chunk_size}

        def probs_of(example: Tensor, keep: Tensor) -> Tensor:
            versions = Versions(example, kept_tokens(units[example], keep))
            return target_outputs(evaluate, inputs, targets, versions, **options)

        # the whole text, and the text without each of its units: one engine call
        every = torch.arange(len(inputs))
        example, unit = (torch.arange(width) < num_units.unsqueeze(1)).nonzero(as_tuple=True)
        erased = torch.cat([torch.zeros(len(inputs), width), torch.eye(width)[unit]]).bool()
        probs = probs_of(torch.cat([every, example]), ~erased)
        whole = probs[: len(inputs)]  # [B, K]
        alone = whole.unsqueeze(1).repeat(1, width, 1)  # [B, M, K]
        alone[example, unit] = probs[len(inputs) :]

        def gains(problem: Tensor, chosen: Tensor) -> Tensor:
            rows, column = problem // num_targets, (problem % num_targets).unsqueeze(1)
            gain = torch.zeros(len(problem), num_targets, dtype=torch.float64)
            if self.metric != "suff":
                known = bool((chosen.sum(dim=1) == 1).all())
                gain += whole[rows] - (alone[rows, chosen.int().argmax(dim=1)] if known else probs_of(rows, ~chosen))
            if self.metric != "comp":
                gain += probs_of(rows, chosen) - whole[rows]
            return gain.gather(1, column).squeeze(1)

        counts = num_units.repeat_interleave(num_targets)
        search = {"beam_size": self.beam_size, "exact_up_to": self.exact_up_to, "beams": self.beams}
        places, totals, _ = best_orders(gains, counts, **search)
        ranks = (counts.unsqueeze(1) - 1 - places).clamp(min=-1)
        effects = (whole.unsqueeze(1) - alone).transpose(1, 2).flatten(0, 1)[:, : ranks.shape[1]]
        return _Found(ranks, effects, totals, units)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns an upper bound: sets that several searches ask for are evaluated once."""
        if not num_tokens:
            return Passes(forward=1, backward=0)
        sets = most_sets(num_tokens, num_targets, beam_size=self.beam_size, exact_up_to=self.exact_up_to)
        # without one unit is known from the start
        versions = {"comp": sets - num_tokens, "suff": sets, "comp_suff": 2 * sets - num_tokens}[self.metric]
        return Passes(forward=1 + num_tokens + versions, backward=0)


def _probabilities_of(model: Classifier) -> Evaluate:
    """Returns the function that gives probabilities in float64, in which confident ones still differ, on the CPU."""
    logits_of_model = logits_of(model)

    def evaluate(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        logits = logits_of_model(inputs, embed_mask).cpu().double()  # not every device has float64
        return logits.sigmoid() if model.multilabel else logits.softmax(dim=-1)

    return evaluate
