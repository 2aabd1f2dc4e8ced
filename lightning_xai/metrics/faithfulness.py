"""Faithfulness: how the probability of the explained class changes when tokens are erased in order of their scores."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Versions, predict_erased, predict_zero_embeddings
from lightning_xai.functional.ranking import Rounding, percent_of, token_ranks
from lightning_xai.functional.signs import Sign, with_sign
from lightning_xai.metrics.base import AttributionMetric, Explained, PredictOnce, with_special_tokens
from lightning_xai.types import Attribution, Batch, TextInputs

Aggregate = Literal["mean", "sum_over_n_plus_1", "per_k"]
Empty = Literal["none", "zero_embeddings", "zero_ids"]

_MASK_ELEMENTS = 2**25  # erasure masks held at once, in tokens


def comprehensiveness(prob: Tensor, removed: Tensor, *, clipped: bool = False) -> Tensor:
    """Returns the drop of the probability when the most important tokens are removed; clipped at 0 from below."""
    drop = prob - removed
    return drop.clamp(min=0) if clipped else drop


def sufficiency(prob: Tensor, kept: Tensor, *, clipped: bool = False) -> Tensor:
    """Returns the drop of the probability when only the most important tokens are kept; lower is better."""
    return comprehensiveness(prob, kept, clipped=clipped)


def normalized_comprehensiveness(prob: Tensor, removed: Tensor, empty: Tensor, *, capped: bool = True) -> Tensor:
    """Returns the clipped drop as a fraction of the drop of the empty input; NaN where that is 0.

    Args:
        prob: probability of the whole input.
        removed: probability without the most important tokens.
        empty: probability of the empty input.
        capped: at 1.
    """
    share = comprehensiveness(prob, removed, clipped=True) / _drop_of_empty(prob, empty)
    return share.clamp(max=1) if capped else share


def normalized_sufficiency(prob: Tensor, kept: Tensor, empty: Tensor) -> Tensor:
    """Returns in [0, 1] how far the kept tokens preserve the probability, 0 being the empty input; higher is better.

    NaN where the empty input is as probable as the whole. Arguments as in `normalized_comprehensiveness`.
    """
    room = _drop_of_empty(prob, empty)
    return ((room - sufficiency(prob, kept, clipped=True)) / room).clamp(min=0)


def _drop_of_empty(prob: Tensor, empty: Tensor) -> Tensor:
    room = (prob - empty).clamp(min=0)  # 1 - s0
    return room.masked_fill(room == 0, torch.nan)


def log_odds(prob: Tensor, removed: Tensor) -> Tensor:
    """Returns log(removed / prob) in nats: negative where the most important tokens carried the prediction."""
    tiny = torch.finfo(torch.float32).tiny
    return removed.clamp(min=tiny).log() - prob.clamp(min=tiny).log()


class ErasureMetric(AttributionMetric):
    """Erases units in the order of an attribution and records one value for each number of erased units.

    Identical erased inputs (all units gone, classes that share a ranking) are predicted once.

    Args:
        percentages: percent of a text's units, each giving one number k; or
        counts: the numbers k themselves; more than a text has erases all of it.
        rounding: of percentages, in integer arithmetic.
        minimum: a floor for k.
        erasure: how a token is taken away, see `erase`.
        unit: tokens, or words with the sum of their tokens' scores.
        sign: what becomes of the scores before they are summed and ranked.
        rank_special: special tokens are ranked and can use up k, yet are never erased.
        relative: divide by the probability of the whole input.
        clipped: a drop below 0 counts as 0.
        normalized: express the drop as a fraction of that of the empty input; clips.
        empty: the empty input of `normalized`: embeddings of zeros, as many as kept tokens at that k, or ids all zero.
        capped: a normalized comprehensiveness over 1 counts as 1.
        aggregate: over the numbers k: mean, sum / (n + 1), or one value for each k.
        explained: see AttributionMetric.
        name: see AttributionMetric.
    """

    erases_top: ClassVar[bool]

    def __init__(
        self,
        *,
        percentages: list[float] | None = None,
        counts: list[int] | None = None,
        rounding: Rounding = "ceil",
        minimum: int = 0,
        erasure: Erasure = "delete",
        unit: Literal["token", "word"] = "token",
        sign: Sign = "signed",
        rank_special: bool = False,
        relative: bool = False,
        clipped: bool = False,
        normalized: bool = False,
        empty: Empty = "none",
        capped: bool = True,
        aggregate: Aggregate = "mean",
        explained: Explained = "predicted",
        name: str | None = None,
    ) -> None:
        super().__init__(explained=explained, name=name)
        if (percentages is None) == (counts is None):
            raise ValueError(f"percentages are {percentages} and counts are {counts}: give one of the two")
        if not (percentages or counts):
            raise ValueError("there is no number of tokens to erase: list at least one in percentages or counts")
        if counts is not None and min(counts) < 0:
            raise ValueError(f"counts are {counts}: give numbers of tokens from 0")
        for percentage in percentages or []:
            percent_of(torch.zeros(1), percentage)
        if normalized and empty == "none":
            raise ValueError("normalized is true, but empty is 'none': choose zero_embeddings or zero_ids")
        if empty != "none" and not normalized:
            raise ValueError(f"empty is {empty!r}, but normalized is false: set normalized to true, or leave empty out")
        if normalized and relative:
            raise ValueError("normalized and relative are both true: a drop is divided once, choose one of them")
        self.percentages, self.counts, self.rounding, self.minimum = percentages, counts, rounding, minimum
        self.erasure, self.unit, self.sign, self.rank_special = erasure, unit, sign, rank_special
        self.relative, self.clipped, self.normalized = relative, clipped, normalized
        self.empty, self.capped, self.over_k = empty, capped, aggregate
        self.columns = tuple(f"{k:g}" for k in (percentages or counts))

    @abstractmethod
    def values(self, prob: Tensor, changed: Tensor, empty: Tensor | None) -> Tensor:
        """Returns the records [R, J] from probabilities: whole [R, 1], erased [R, J], empty [R, 1 or J]."""

    def sizes(self, totals: Tensor) -> Tensor:
        """Returns how many of `totals` [B] units come first in the ranking at each k: [B, J]."""
        if self.counts is not None:
            counts = torch.tensor(self.counts).expand(len(totals), -1).clamp(min=self.minimum)
            return torch.minimum(counts, totals.unsqueeze(1))
        options = {"rounding": self.rounding, "minimum": self.minimum}
        return torch.stack([percent_of(totals, p, **options) for p in self.percentages], dim=1)

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        shape = (*attribution.targets.shape, len(self.columns))
        records = torch.full(shape, torch.nan, dtype=torch.float64)
        example, row = attribution.target_mask.cpu().nonzero(as_tuple=True)  # [R] each
        if len(example):
            inputs = replace(batch.inputs, token_mask=attribution.token_mask)
            token_rank, totals = self._ranks(attribution, inputs)
            sizes = self.sizes(totals)
            whole = predict(batch.inputs).cpu()
            blank = None
            if self.empty == "zero_ids":
                blank = predict(replace(inputs, input_ids=torch.zeros_like(inputs.input_ids))).cpu()
            targets = attribution.targets.cpu()
            step = max(1, _MASK_ELEMENTS // (len(self.columns) * token_rank.shape[2]))
            for part in torch.arange(len(example)).split(step):
                b, k = example[part], row[part]
                first = token_rank[b, k].unsqueeze(1) < sizes[b].unsqueeze(2)  # [R, J, T]
                records[b, k] = self._measure_rows(inputs, b, first, targets[b, k], whole, blank, predict)
        return records.to(attribution.scores.device)

    def _ranks(self, attribution: Attribution, inputs: TextInputs) -> tuple[Tensor, Tensor]:
        """Returns the ranks [B, K, T] of each token's unit and the numbers of units [B], on the CPU."""
        if self.unit == "word" and inputs.word_ids is None:
            raise ValueError(f"{self.name} erases words, but the inputs have no word_ids: encode them, or erase tokens")
        ranked = with_special_tokens(inputs) if self.rank_special else inputs.token_mask
        scores = with_sign(
            attribution.scores.double(),
            self.sign,
            # ranked on the CPU, so that no device decides ties
        ).cpu()
        word_ids = inputs.word_ids.cpu() if self.unit == "word" else None
        return token_ranks(scores, ranked.cpu(), word_ids)

    def _measure_rows(
        self,
        inputs: TextInputs,
        example: Tensor,
        first: Tensor,
        target: Tensor,
        whole: Tensor,
        blank: Tensor | None,
        predict: PredictOnce,
    ) -> Tensor:
        """Returns the records [R, J] in float64 of R rows.

        Args:
            inputs: B whole inputs.
            example: [R] the example of each row.
            first: [R, J, T] bool, the tokens of the units that come first in the ranking, at each k.
            target: [R] the class of each row.
            whole: [B, C] probabilities of the whole inputs.
            blank: [B, C] those of ids that are all zero, where the definition has them.
            predict: the model.
        """
        prob = whole[example, target].double().unsqueeze(1)
        how = {"how": self.erasure, "pad_id": predict.pad_id}
        keep = ~first if self.erases_top else first
        changed = predict_erased(predict, inputs, Versions(example, keep), target, whole, **how)
        empty = blank[example, target].double().unsqueeze(1) if blank is not None else None
        if self.empty == "zero_embeddings":  # as many as sufficiency keeps
            empty = predict_zero_embeddings(predict, inputs, Versions(example, first), target, **how)
        return self.values(prob, changed, empty)

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        if self.over_k == "per_k":
            return dict(zip(self.columns, records.nanmean(dim=0), strict=True))
        divisor = len(self.columns) + (self.over_k == "sum_over_n_plus_1")
        return {"": (records.sum(dim=1) / divisor).nanmean()}

    def _drop(self, prob: Tensor, changed: Tensor) -> Tensor:
        drop = comprehensiveness(prob, changed, clipped=self.clipped)
        return drop / prob.masked_fill(prob == 0, torch.nan) if self.relative else drop


class Comprehensiveness(ErasureMetric):
    """Drop of the probability when the k most important units are erased; higher is better.

    Reference: DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", arXiv 1911.03429,
        Eq. 1; normalized: Carton et al. (2020), "Evaluating and Characterizing Human Rationales", arXiv 2010.04736.
    """

    higher_is_better = True
    erases_top = True

    def values(self, prob: Tensor, changed: Tensor, empty: Tensor | None) -> Tensor:
        if self.normalized:
            return normalized_comprehensiveness(prob, changed, empty, capped=self.capped)
        return self._drop(prob, changed)


class Sufficiency(ErasureMetric):
    """Drop of the probability when only the k most important units are kept; lower is better, unless normalized.

    Args:
        window: None keeps the k most important units. A number w erases, of the w most important ones, the k least
            important, and all beyond the w.
        **kwargs: see ErasureMetric.

    Reference: DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", arXiv 1911.03429,
        Eq. 2; normalized: Carton et al. (2020), "Evaluating and Characterizing Human Rationales", arXiv 2010.04736.
    """

    erases_top = False

    def __init__(self, *, window: int | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        if window is not None and (window < 1 or self.counts is None):
            raise ValueError(f"window is {window}: give a positive number together with counts, or leave it out")
        if window is not None and self.minimum:
            raise ValueError(f"minimum is {self.minimum}, but a window ends with nothing kept: leave one of them out")
        self.window = window

    @property
    def higher_is_better(self) -> bool:
        """True for the normalized form, which is what is preserved rather than what is lost."""
        return self.normalized

    def sizes(self, totals: Tensor) -> Tensor:
        if self.window is None:
            return super().sizes(totals)
        return (totals.clamp(max=self.window).unsqueeze(1) - torch.tensor(self.counts)).clamp(min=0)

    def values(self, prob: Tensor, changed: Tensor, empty: Tensor | None) -> Tensor:
        if self.normalized:
            return normalized_sufficiency(prob, changed, empty)
        return self._drop(prob, changed)


class LogOdds(ErasureMetric):
    """Change of the log-probability, in nats, when the k most important units are erased; lower is better.

    Args:
        **kwargs: see ErasureMetric; `relative`, `clipped` and `normalized` have no meaning here.

    Reference: Shrikumar et al. (2017), "Learning Important Features Through Propagating Activation Differences",
        arXiv 1704.02685.
    """

    higher_is_better = False
    erases_top = True

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        if self.relative or self.clipped or self.normalized:
            raise ValueError("log-odds are neither relative, clipped nor normalized: leave these arguments out")

    def values(self, prob: Tensor, changed: Tensor, empty: Tensor | None) -> Tensor:
        return log_odds(prob, changed)
