"""The base class of metrics that erase units in the order of their scores, and measure the changed prediction."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.perturbation import Versions, predict_erased
from lightning_xai.metrics.base import AttributionMetric, Explained, with_special_tokens
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Ranking, Sizes
from lightning_xai.types import Attribution, Batch, TextInputs

Aggregate = Literal["mean", "sum_over_n_plus_1", "per_k"]

_BY_SCORE = Ranking()
_MASK_ELEMENTS = 2**25  # largest number of mask entries in memory at once


@dataclass(frozen=True)
class RankedRows:
    """R rows of a batch. A row is a pair (example, class). For J numbers k, `top` marks the top k units of each row.

    All tensors except those of `inputs` are on the CPU.

    Example:
        >>> inputs, first = TextInputs.of_ids([[5, 6]]), torch.tensor([0])
        >>> top = torch.tensor([[[True, False]]])
        >>> RankedRows(inputs, example=first, target=first, top=top, probs=torch.tensor([[0.75, 0.25]])).prob.tolist()
        [[0.75]]
    """

    inputs: TextInputs  # the B texts of the batch; only tokens of `token_mask` can be erased
    example: Tensor  # [R] long, the index of each row's text among the B texts
    target: Tensor  # [R] long, the class of each row
    top: Tensor  # [R, J, T] bool; for each of the J numbers k, True at the tokens of the top k units
    probs: Tensor  # [B, C] probabilities of the unerased texts

    @property
    def prob(self) -> Tensor:
        """[R, 1] float64: the probability of each row's class for the unerased text."""
        return self.probs[self.example, self.target].double().unsqueeze(1)


class ErasureMetric(AttributionMetric):
    """Base class of metrics that erase the top k units of a text, or all other units, for several numbers k.

    The top k units are the k most important units. The metric has one record for each explained class of a text. A
    record holds one value for each k.

    If all tokens of a text are special, no token can be erased. Then the metric is undefined, and the text is skipped.

    If erased inputs are equal (for example, because two classes rank the units in the same order), the network is
    evaluated on them only once.

    Args:
        sizes: the numbers k, as percentages of a text's units, as fixed counts, or as a `Window`.
        ranking: how the attribution's scores rank the units.
        rank_special: whether special tokens are ranked and count among the top k units. Special tokens are never
            erased.
        erasure: how tokens are erased; `erase` describes the options.
        aggregate: how the n values of a record, one for each k, are combined. "mean" averages the values,
            "sum_over_n_plus_1" divides the sum of the values by n + 1, and "per_k" reports each value by itself.
        explained: see AttributionMetric.
        name: see AttributionMetric.

    Example:
        A subclass says whether the top units are erased or kept, and turns probabilities into records.

        >>> class ProbabilityOfTheRest(ErasureMetric):
        ...     erases_top = True
        ...
        ...     def row_records(self, rows, predict):
        ...         return self.changed(rows, predict)
        >>> from lightning_xai.metrics.top_units import Counts
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[3.0, 1.0, 0.0, 2.0]]], inputs.token_mask)
        >>> def share_of_four(inputs, embed_mask=None):  # 1/4 for each token that is left
        ...     return inputs.attention_mask.sum(dim=1, keepdim=True) / 4
        >>> metric = ProbabilityOfTheRest(Counts([1, 3]), aggregate="per_k", name="rest")
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), share_of_four)
        >>> values = metric.compute()
        >>> float(values["rest/1"]), float(values["rest/3"])
        (0.75, 0.25)
    """

    erases_top: ClassVar[bool]  # True if the top units are erased, False if all other units are erased

    def __init__(
        self,
        sizes: Sizes,
        *,
        ranking: Ranking = _BY_SCORE,
        rank_special: bool = False,
        erasure: Erasure = "delete",
        aggregate: Aggregate = "mean",
        explained: Explained = "predicted",
        name: str | None = None,
    ) -> None:
        super().__init__(explained=explained, name=name)
        self.sizes, self.ranking, self.rank_special = sizes, ranking, rank_special
        self.erasure, self.over_sizes = erasure, aggregate
        self.columns = sizes.names

    @abstractmethod
    def row_records(self, rows: RankedRows, predict: PredictOnce) -> Tensor:
        """Returns records [R, J] float64 on the CPU: one value per row (example, class) and per number k of units."""

    def passes(self, num_units: int, num_methods: int) -> float:
        return float(num_methods * len(set(self.sizes.of(torch.tensor([num_units]))[0].tolist())))

    def erased_units(self, num_units: int) -> Tensor:
        """Ranks M units at random. Returns [J, M] bool: for each k, True at the units that this metric then erases."""
        ranks = torch.randperm(num_units, generator=torch.Generator().manual_seed(0))
        top = ranks < self.sizes.of(torch.tensor([num_units])).T
        return top if self.erases_top else ~top

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        shape = (*attribution.targets.shape, len(self.columns))
        records = torch.full(shape, torch.nan, dtype=torch.float64)
        erasable = attribution.token_mask.any(dim=1, keepdim=True)  # [B, 1]
        example, place = (attribution.target_mask & erasable).cpu().nonzero(as_tuple=True)  # [R] each
        if len(example):
            inputs = replace(batch.inputs, token_mask=attribution.token_mask)
            ranked = with_special_tokens(inputs) if self.rank_special else inputs.token_mask
            ranks, totals = self.ranking.ranks(attribution.scores, inputs, ranked)
            sizes = self.sizes.of(totals)
            probs, targets = predict(batch.inputs).cpu(), attribution.targets.cpu()
            rows_at_once = max(1, _MASK_ELEMENTS // (len(self.columns) * ranks.shape[2]))
            for part in torch.arange(len(example)).split(rows_at_once):
                b, k = example[part], place[part]
                top = ranks[b, k].unsqueeze(1) < sizes[b].unsqueeze(2)  # [R, J, T]
                records[b, k] = self.row_records(RankedRows(inputs, b, targets[b, k], top, probs), predict)
        return records.to(attribution.scores.device)

    def changed(self, rows: RankedRows, predict: PredictOnce) -> Tensor:
        """Returns [R, J] float64: the probability of each row's class after an erasure, for each number k of units."""
        versions = Versions(rows.example, keep=~rows.top if self.erases_top else rows.top)
        return predict_erased(
            predict, rows.inputs, versions, rows.target, rows.probs, erasure=self.erasure, pad_id=predict.pad_id
        )

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        if self.over_sizes == "per_k":
            return dict(zip(self.columns, records.nanmean(dim=0), strict=True))
        divisor = len(self.columns) + (self.over_sizes == "sum_over_n_plus_1")
        return {"": (records.sum(dim=1) / divisor).nanmean()}
