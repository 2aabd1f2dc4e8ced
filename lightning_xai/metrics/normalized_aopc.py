"""Faithfulness, scaled for each text: the worst order of erasure gets 0, the best order gets 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.erasure.beam_search import best_orders, require_search
from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.perturbation import Versions, predict_erased, target_outputs
from lightning_xai.functional.erasure.units import count_units, kept_tokens, unit_ids
from lightning_xai.metrics.base import AttributionMetric, Explained
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Ranking
from lightning_xai.types import Attribution, Batch, TextInputs

Order = Literal["comprehensiveness", "sufficiency"]

# bounds that are closer than this count as equal; float32 results vary by about 1e-7 with the batch size
_LEAST_ROOM = 1e-6


def normalized_aopc(aopc: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """Returns (aopc - lower) / (upper - lower), or NaN where the bounds are less than 1e-6 apart.

    With such close bounds, all orders have the same AOPC up to rounding, and the quotient would be noise.

    Example:
        >>> aopc, lower, upper = torch.tensor([0.375]), torch.tensor([0.25]), torch.tensor([0.5])
        >>> normalized_aopc(aopc, lower, upper)
        tensor([0.5000])
    """
    room = upper - lower
    return (aopc - lower) / room.masked_fill(room < _LEAST_ROOM, torch.nan)


@dataclass(frozen=True)
class OrderSearch:
    """Settings of the search for the best and the worst order of erasure.

    Args:
        beam_size: number of partial orders of each length that a search keeps. The best and the worst order are found
            by separate searches.
        exact_up_to: texts with at most this many units are searched exactly, with 2^N predictions for N units.
        max_units: texts with more units are not searched; their rows count as skipped.

    Example:
        >>> OrderSearch(max_units=0)
        Traceback (most recent call last):
        ValueError: max_units is 0: give at least 1 unit
    """

    beam_size: int = 5
    exact_up_to: int = 8
    max_units: int = 64

    def __post_init__(self) -> None:
        require_search(self.beam_size, self.exact_up_to)
        if self.max_units < 1:
            raise ValueError(f"max_units is {self.max_units}: give at least 1 unit")


_BY_SCORE = Ranking()
_BEAM = OrderSearch()


@dataclass(frozen=True)
class _Rows:
    """R rows (example, class) of a batch. All tensors except those of `inputs` are on the CPU."""

    inputs: TextInputs  # the B texts
    targets: Tensor  # [B, K] long, the explained classes of each text
    units: Tensor  # [B, T] long, the index of the unit that each token belongs to; -1 for a token without a unit
    example: Tensor  # [R] long, the index of each row's text among the B texts
    column: Tensor  # [R] long, the column of each row's class in `targets`

    @property
    def target(self) -> Tensor:
        """[R] long: the class of each row."""
        return self.targets[self.example, self.column]

    def __getitem__(self, rows: Tensor) -> _Rows:
        return replace(self, example=self.example[rows], column=self.column[rows])


class NormalizedAOPC(AttributionMetric):
    """Area over the perturbation curve (AOPC), scaled to 0 for the worst order of erasure and to 1 for the best order.

    AOPC is the mean over k = 1 ... N of f(x) - f(x without the first k units). N is the number of units of the text x,
    f is the probability of the class, and the units are erased in the attribution's order. The mean includes k = N,
    where all units are erased, although this term is the same for every order. Negative differences are not clipped.
    Special tokens are never erased.

    The smallest and the largest AOPC over all orders, `lower` and `upper`, differ between models and texts. The value
    (AOPC - lower) / (upper - lower) is therefore comparable between models, unlike AOPC. In a batch, all attributions
    share one search for these bounds, and so do metrics with the same units, erasure and search settings. Sufficiency
    is the AOPC of the reverse order, so sufficiency has the same bounds.

    The bounds are exact for short texts. For longer texts they come from a beam search, and an attribution's AOPC may
    lie outside the bounds; a larger beam makes this rarer. One row costs about b N^2 predictions for beam size b. The
    value is undefined where the AOPC of all orders is the same up to float32 precision.

    Args:
        order: "comprehensiveness" erases the most important units first; higher is better. "sufficiency" erases the
            least important units first; lower is better.
        ranking: how the attribution's scores order the units.
        erasure: how units are erased; `erase` describes the options.
        search: settings of the search for the bounds.
        explained: see AttributionMetric.
        name: see AttributionMetric.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6]])
        >>> attribution = Attribution.of_scores([[[2.0, 1.0]]], inputs.token_mask)
        >>> def first_token(inputs, embed_mask=None):  # 1/2 with the token 5, else 0
        ...     return (inputs.input_ids == 5).sum(dim=1, keepdim=True) / 2
        >>> metric = NormalizedAOPC(name="naopc")
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0])), first_token)
        >>> {name: float(metric.compute()[name]) for name in ("naopc", "naopc/lower", "naopc/upper", "naopc/aopc")}
        {'naopc': 1.0, 'naopc/lower': 0.25, 'naopc/upper': 0.5, 'naopc/aopc': 0.5}

    Reference: Edin et al. (2024), "Normalized AOPC: Fixing Misleading Faithfulness Metrics for Feature Attribution
        Explainability", arXiv 2408.08137.
    Differs: the released beam search may keep several orders of the same set of units, and runs in half precision. The
        released exact search tries all N! orders, and starts with 0 as the largest sum, so its upper bound is never
        negative. The definition of the value is the same.
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
    def higher_is_better(self) -> bool:  # type: ignore[override]  # torchmetrics forbids assignment
        """True for comprehensiveness; False for sufficiency, where erasing unimportant units should change little."""
        return self.order == "comprehensiveness"

    def passes(self, num_units: int, num_methods: int) -> float:
        if num_units > self.search.max_units:
            return 0.0
        return float(num_methods * num_units + self.search.beam_size * num_units**2)  # all methods share one search

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        records = torch.full((*attribution.targets.shape, len(self.columns)), torch.nan, dtype=torch.float64)
        inputs = replace(batch.inputs, token_mask=attribution.token_mask)
        ranks, num_units = self.ranking.ranks(attribution.scores, inputs)
        short = (num_units > 0) & (num_units <= self.search.max_units)
        example, column = (short.unsqueeze(1) & attribution.target_mask.cpu()).nonzero(as_tuple=True)  # [R] each
        if len(example):
            units = unit_ids(inputs.token_mask.cpu(), self.ranking.word_ids(inputs))
            rows = _Rows(inputs, attribution.targets.cpu(), units, example, column)
            lower, upper = self._bounds(rows, predict).unbind(dim=1)
            aopc = self._aopc(rows, ranks[example, column], num_units[example], predict)
            records[example, column] = torch.stack([lower, upper, aopc, normalized_aopc(aopc, lower, upper)], dim=1)
        return records.to(attribution.scores.device)

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        values = super().aggregate(records)
        return {"": values.pop("naopc"), **values}

    def _aopc(self, rows: _Rows, ranks: Tensor, num_units: Tensor, predict: PredictOnce) -> Tensor:
        """Returns [R] float64: the AOPC of each row.

        Args:
            rows: the R rows.
            ranks: [R, T] rank of each token's unit.
            num_units: [R] number of units of each row's text.
            predict: returns the network's probabilities.
        """
        probs = predict(predict.inputs).cpu()
        keep = self._kept(ranks, num_units)
        versions = Versions(rows.example, keep)
        changed = predict_erased(
            predict, rows.inputs, versions, rows.target, probs, erasure=self.erasure, pad_id=predict.pad_id
        )  # [R, J]
        drops = probs[rows.example, rows.target].double().unsqueeze(1) - changed
        counted = torch.arange(1, keep.shape[1] + 1) <= num_units.unsqueeze(1)
        return (drops * counted).sum(dim=1) / num_units

    def _kept(self, ranks: Tensor, num_units: Tensor) -> Tensor:
        """Computes from `ranks` [R, T] which tokens are kept when the first 1, 2, ..., J units are erased.

        Returns bool [R, J, T].
        """
        counts = torch.arange(1, int(num_units.max()) + 1).view(1, -1, 1)
        ranks = ranks.unsqueeze(1)
        if self.order == "comprehensiveness":
            return ranks >= torch.minimum(counts, num_units.view(-1, 1, 1))
        return (ranks < num_units.view(-1, 1, 1) - counts) | (ranks >= num_units.view(-1, 1, 1))

    def _bounds(self, rows: _Rows, predict: PredictOnce) -> Tensor:
        """Returns [R, 2] float64: each row's smallest and largest AOPC, which `predict.memo` keeps for later calls."""
        definition = ("aopc bounds", self.erasure, predict.pad_id, self.search.beam_size, self.search.exact_up_to)
        memo: dict[tuple[int, int, bytes], Tensor] = predict.memo.setdefault(definition, {})
        pairs = zip(rows.example.tolist(), rows.target.tolist(), strict=True)
        keys = [(example, target, rows.units[example].numpy().tobytes()) for example, target in pairs]
        missing = {key: row for row, key in enumerate(keys) if key not in memo}  # each distinct key needs one search
        bounds = self._search(rows[torch.tensor(list(missing.values()), dtype=torch.long)], predict)
        memo.update(zip(missing, bounds, strict=True))
        return torch.stack([memo[key] for key in keys])

    def _search(self, rows: _Rows, predict: PredictOnce) -> Tensor:
        """Returns [R, 2] float64: each row's smallest and largest AOPC, found by a search."""
        # Each row needs two searches, one for the smallest and one for the largest AOPC.
        # A set of units that both searches erase is predicted once.
        example, column = rows.example.repeat_interleave(2), rows.column.repeat_interleave(2)
        direction = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(len(rows.example))
        prob = predict(predict.inputs).cpu()[example, rows.targets[example, column]].double()

        def drops(problem: Tensor, erased: Tensor) -> Tensor:
            versions = Versions(example[problem], kept_tokens(rows.units[example[problem]], ~erased))
            probs = target_outputs(
                predict, rows.inputs, rows.targets, versions, erasure=self.erasure, pad_id=predict.pad_id
            )
            return direction[problem] * (prob[problem] - probs[torch.arange(len(problem)), column[problem]])

        num_units = count_units(rows.units)[example]
        orders = best_orders(drops, num_units, beam_size=self.search.beam_size, exact_up_to=self.search.exact_up_to)
        return (direction * orders.totals / num_units).view(-1, 2)
