"""Faithfulness: how the probability of the explained class changes when units are erased in order of their scores."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.metrics.erasure import ErasureMetric, RankedRows
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Sizes

WithoutUnits = Literal["measured", "zero"]


def comprehensiveness(prob: Tensor, removed: Tensor, *, relative: bool = False, clipped: bool = False) -> Tensor:
    """Returns the drop in the probability when the most important units are removed; higher is better.

    Args:
        prob: probability for the whole input.
        removed: probability without the most important units.
        relative: whether the drop is divided by `prob`; the result is NaN where `prob` is 0.
        clipped: whether negative drops are set to 0.

    Example:
        >>> prob, removed = torch.tensor([0.5, 0.5]), torch.tensor([0.125, 0.75])
        >>> comprehensiveness(prob, removed)
        tensor([ 0.3750, -0.2500])
        >>> comprehensiveness(prob, removed, relative=True, clipped=True)
        tensor([0.7500, 0.0000])
    """
    drop = prob - removed
    if clipped:
        drop = drop.clamp(min=0)
    return drop / prob.masked_fill(prob == 0, torch.nan) if relative else drop


def sufficiency(prob: Tensor, kept: Tensor, *, relative: bool = False, clipped: bool = False) -> Tensor:
    """Returns the drop in the probability when only the most important units are kept; lower is better.

    Args:
        prob: probability for the whole input.
        kept: probability with only the most important units.
        relative: whether the drop is divided by `prob`; the result is NaN where `prob` is 0.
        clipped: whether negative drops are set to 0.

    Example:
        >>> sufficiency(torch.tensor([0.5]), kept=torch.tensor([0.375]))
        tensor([0.1250])
    """
    return comprehensiveness(prob, kept, relative=relative, clipped=clipped)


def log_odds(prob: Tensor, removed: Tensor) -> Tensor:
    """Returns log(removed / prob) in nats; negative where removing the most important units lowers the probability.

    Example:
        >>> log_odds(torch.tensor([0.5]), removed=torch.tensor([0.25]))  # log(1 / 2)
        tensor([-0.6931])
    """
    tiny = torch.finfo(torch.float32).tiny
    return removed.clamp(min=tiny).log() - prob.clamp(min=tiny).log()


class _ProbabilityDrop(ErasureMetric):
    """Base class of erasure metrics that measure a drop in the probability. The drop may be relative or clipped."""

    def __init__(self, sizes: Sizes, *, relative: bool = False, clipped: bool = False, **kwargs) -> None:
        super().__init__(sizes, **kwargs)
        self.relative, self.clipped = relative, clipped


class Comprehensiveness(_ProbabilityDrop):
    """Drop in the probability when the k most important units are erased; higher is better.

    Args:
        sizes: see ErasureMetric.
        relative: whether the drop is divided by the probability for the whole input.
        clipped: whether negative drops are set to 0.
        **kwargs: see ErasureMetric.

    Example:
        >>> from lightning_xai.metrics.top_units import Counts
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[3.0, 1.0, 0.0, 2.0]]], inputs.token_mask)
        >>> def first_tokens(inputs, embed_mask=None):  # 1/2 for the token 5, 1/4 for the token 6
        ...     return ((inputs.input_ids == 5) / 2 + (inputs.input_ids == 6) / 4).sum(dim=1, keepdim=True)
        >>> metric = Comprehensiveness(Counts([1, 3]))  # erases token 5, then tokens 5, 8 and 6
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), first_tokens)
        >>> float(metric.compute()["comprehensiveness"])  # the mean of 1/2 and 3/4
        0.625

    Reference: DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", arXiv 1911.03429,
        Eq. 1.
    """

    higher_is_better = True
    erases_top = True

    def row_records(self, rows: RankedRows, predict: PredictOnce) -> Tensor:
        changed = self.changed(rows, predict)
        return comprehensiveness(rows.prob, changed, relative=self.relative, clipped=self.clipped)


class Sufficiency(_ProbabilityDrop):
    """Drop in the probability when only the k most important units are kept; lower is better.

    Args:
        sizes: see ErasureMetric. With a `Window` of w units, the w - k most important units are kept in place of the k
            most important ones.
        relative: whether the drop is divided by the probability for the whole input.
        clipped: whether negative drops are set to 0.
        without_units: the drop that is recorded if no unit is kept: "measured" is the drop when only the special tokens
            are kept, "zero" is 0.
        **kwargs: see ErasureMetric.

    Example:
        >>> from lightning_xai.metrics.top_units import Counts
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[3.0, 1.0, 0.0, 2.0]]], inputs.token_mask)
        >>> def first_tokens(inputs, embed_mask=None):  # 1/2 for the token 5, 1/4 for the token 6
        ...     return ((inputs.input_ids == 5) / 2 + (inputs.input_ids == 6) / 4).sum(dim=1, keepdim=True)
        >>> metric = Sufficiency(Counts([1, 3]))  # keeps token 5, then tokens 5, 8 and 6
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), first_tokens)
        >>> float(metric.compute()["sufficiency"])  # the mean of 1/4 and 0
        0.125

    Reference: DeYoung et al. (2020), "ERASER: A Benchmark to Evaluate Rationalized NLP Models", arXiv 1911.03429,
        Eq. 2.
    """

    higher_is_better = False
    erases_top = False

    def __init__(self, sizes: Sizes, *, without_units: WithoutUnits = "measured", **kwargs) -> None:
        super().__init__(sizes, **kwargs)
        require_choices({"without_units": WithoutUnits}, {"without_units": without_units})
        self.without_units: WithoutUnits = without_units

    def row_records(self, rows: RankedRows, predict: PredictOnce) -> Tensor:
        changed = self.changed(rows, predict)
        drops = sufficiency(rows.prob, changed, relative=self.relative, clipped=self.clipped)
        return drops if self.without_units == "measured" else drops.masked_fill(~rows.top.any(dim=-1), 0.0)


class LogOdds(ErasureMetric):
    """Change in the log-probability, in nats, when the k most important units are erased; lower is better.

    Args:
        sizes: see ErasureMetric.
        **kwargs: see ErasureMetric.

    Example:
        >>> from lightning_xai.metrics.top_units import Counts
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6]])
        >>> attribution = Attribution.of_scores([[[2.0, 1.0]]], inputs.token_mask)
        >>> def token_share(inputs, embed_mask=None):  # half for each token
        ...     return inputs.attention_mask.sum(dim=1, keepdim=True) / 2
        >>> metric = LogOdds(Counts([1]))
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), token_share)
        >>> round(float(metric.compute()["log_odds"]), 4)  # log(1 / 2)
        -0.6931

    Reference: Shrikumar et al. (2017), "Learning Important Features Through Propagating Activation Differences",
        arXiv 1704.02685.
    """

    higher_is_better = False
    erases_top = True

    def row_records(self, rows: RankedRows, predict: PredictOnce) -> Tensor:
        return log_odds(rows.prob, self.changed(rows, predict))
