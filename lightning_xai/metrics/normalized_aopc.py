"""Faithfulness on the scale of what an order of erasure can reach on a text: 0 for the worst order, 1 for the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.beam_search import best_orders, require_search
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Versions, predict_erased, target_outputs
from lightning_xai.functional.units import count_units, kept_tokens, unit_ids
from lightning_xai.metrics.base import AttributionMetric, Explained, PredictOnce
from lightning_xai.metrics.top_units import Ranking
from lightning_xai.types import Attribution, Batch, TextInputs

Order = Literal["comprehensiveness", "sufficiency"]

_LEAST_ROOM = 1e-6  # probability; ten times the float32 noise between batch sizes


def normalized_aopc(aopc: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Returns (aopc - lower) / (upper - lower); NaN where all orders are worth the same, as for a single unit.

    That is where the bounds are less than 1e-6 apart: the value would be that of rounding errors.
    """
    room = upper - lower
    return (aopc - lower) / room.masked_fill(room < _LEAST_ROOM, torch.nan)


@dataclass(frozen=True)
class OrderSearch:
    """How the best and the worst order of erasure are searched.

    Args:
        beam_size: orders kept at each k, for each of the two.
        exact_up_to: texts of at most so many units are searched exactly, with 2^N predictions for N units.
        max_units: longer texts are not searched; their rows count as skipped.

    Example:
        >>> OrderSearch(max_units=0)
        Traceback (most recent call last):
        ValueError: max_units is 0: give the largest number of units to search, from 1
    """

    beam_size: int = 5
    exact_up_to: int = 8
    max_units: int = 64

    def __post_init__(self) -> None:
        require_search(self.beam_size, self.exact_up_to)
        if self.max_units < 1:
            raise ValueError(f"max_units is {self.max_units}: give the largest number of units to search, from 1")


_BY_SCORE = Ranking()
_BEAM = OrderSearch()


class NormalizedAOPC(AttributionMetric):
    """Area over the perturbation curve of an attribution, between those of the worst and of the best order of erasure.

    AOPC is the mean over k = 1 ... N of f(x) - f(x without k units), f being the probability of the class; units go in
    the attribution's order. k = N, where all of them are gone, counts although no order changes it; k = 0 does not.
    Drops keep their sign, and special tokens stay. It compares attributions of one model. Its least and largest values
    over all orders, `lower` and `upper`, differ between models and texts, and dividing their range out lets models be
    compared as well. The bounds are searched once for a batch, whatever number of attributions and metrics reads them;
    sufficiency, which is the AOPC of the reverse order, has the same ones.

    Bounds are exact for short texts. For longer ones each is what a beam search of its own finds, which a good
    attribution may exceed; a larger beam tightens them. A row costs about b N^2 predictions for N units and a beam
    of b. Where all orders are worth the same to the precision of float32, the value is undefined.

    Args:
        order: "comprehensiveness" erases the most important units first; higher is better. "sufficiency" erases the
            least important first; lower is better.
        ranking: the attribution's order of the units.
        erasure: how a unit is taken away, see `erase`.
        search: how the bounds are searched.
        explained: see AttributionMetric.
        name: see AttributionMetric.

    Reference: Edin et al. (2024), "Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature Attribution
        Explainability", arXiv 2408.08137.
    Differs: the released beam holds several orders of one set and runs in half precision; its exact bounds walk
        through N! orders, and the upper one starts from sums of 0. What is measured is the same.
    """

    columns = ("lower", "upper", "aopc", "naopc")

    def __init__(
        self,
        *,
        order: Order = "comprehensiveness",
        ranking: Ranking = _BY_SCORE,
        erasure: Erasure = "mask",
        search: OrderSearch = _BEAM,
        explained: Explained = "predicted",
        name: str | None = None,
    ) -> None:
        super().__init__(explained=explained, name=name)
        require_choices({"order": Order, "erasure": Erasure}, {"order": order, "erasure": erasure})
        self.order, self.ranking, self.erasure, self.search = order, ranking, erasure, search

    @property
    def higher_is_better(self) -> bool:
        """False for sufficiency, where erasing what matters least should change little."""
        return self.order == "comprehensiveness"

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        records = torch.full((*attribution.targets.shape, 4), torch.nan, dtype=torch.float64)
        inputs = replace(batch.inputs, token_mask=attribution.token_mask)
        ranks, num_units = self.ranking.ranks(attribution.scores, inputs)
        units = unit_ids(inputs.token_mask.cpu(), self.ranking.word_ids(inputs))
        short = (num_units > 0) & (num_units <= self.search.max_units)
        measured = short.unsqueeze(1) & attribution.target_mask.cpu()
        example, row = measured.nonzero(as_tuple=True)  # [R] each
        if len(example):
            whole = predict(batch.inputs).cpu()
            lower, upper = self._bounds(predict, inputs, attribution.targets, units, example, row)
            targets = attribution.targets.cpu()[example, row]
            keep = self._kept(ranks[example, row], num_units[example])
            options = {"how": self.erasure, "pad_id": predict.pad_id}
            changed = predict_erased(predict, inputs, Versions(example, keep), targets, whole, **options)  # [R, J]
            drops = whole[example, targets].double().unsqueeze(1) - changed
            counted = torch.arange(1, keep.shape[1] + 1) <= num_units[example].unsqueeze(1)
            aopc = (drops * counted).sum(dim=1) / num_units[example]
            records[example, row] = torch.stack([lower, upper, aopc, normalized_aopc(aopc, lower, upper)], dim=1)
        return records.to(attribution.scores.device)

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        values = super().aggregate(records)
        return {"": values.pop("naopc"), **values}

    def _kept(self, ranks: Tensor, num_units: Tensor) -> Tensor:
        """Returns [R, J, T] bool: the tokens that stay when the first 1, 2, ... J units go, from ranks [R, T]."""
        counts = torch.arange(1, int(num_units.max()) + 1).view(1, -1, 1)
        ranks = ranks.unsqueeze(1)
        if self.order == "comprehensiveness":
            return ranks >= torch.minimum(counts, num_units.view(-1, 1, 1))
        return (ranks < num_units.view(-1, 1, 1) - counts) | (ranks >= num_units.view(-1, 1, 1))

    def _bounds(
        self, predict: PredictOnce, inputs: TextInputs, targets: Tensor, units: Tensor, example: Tensor, row: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the least and the largest AOPC [R] in float64 of rows (example, row), from the memo where it can."""
        limits = (self.search.beam_size, self.search.exact_up_to)
        definition = ("aopc bounds", self.erasure, predict.pad_id, *limits)
        memo: dict[tuple[int, int, bytes], Tensor] = predict.memo.setdefault(definition, {})
        classes = targets.cpu()[example, row].tolist()
        keys = [(b, c, units[b].numpy().tobytes()) for b, c in zip(example.tolist(), classes, strict=True)]
        places = {key: place for place, key in enumerate(keys) if key not in memo}  # two rows may have one class
        missing = torch.tensor(list(places.values()), dtype=torch.long)
        found = self._search(predict, inputs, targets, units, example[missing], row[missing])
        memo.update(zip(places, found, strict=True))
        return torch.stack([memo[key] for key in keys]).unbind(dim=1)

    def _search(
        self, predict: PredictOnce, inputs: TextInputs, targets: Tensor, units: Tensor, example: Tensor, row: Tensor
    ) -> Tensor:
        """Returns the least and the largest AOPC [R, 2] in float64."""
        # two searches a row, side by side: they share the sets of one unit, of all, and what else they both visit
        example, row = example.repeat_interleave(2), row.repeat_interleave(2)
        direction = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(len(example) // 2)
        whole = predict(predict.inputs).cpu()[example, targets.cpu()[example, row]].double()
        options = {"how": self.erasure, "pad_id": predict.pad_id}

        def drops(problem: Tensor, erased: Tensor) -> Tensor:
            versions = Versions(example[problem], kept_tokens(units[example[problem]], ~erased))
            probs = target_outputs(predict, inputs, targets, versions, **options)
            return direction[problem] * (whole[problem] - probs[torch.arange(len(problem)), row[problem]])

        num_units = count_units(units)[example]
        bounds = {"beam_size": self.search.beam_size, "exact_up_to": self.search.exact_up_to}
        totals = best_orders(drops, num_units, **bounds).totals
        return (direction * totals / num_units).view(-1, 2)
