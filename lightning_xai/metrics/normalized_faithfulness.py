"""Comprehensiveness and sufficiency as fractions of the drop that an empty input causes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Versions, predict_zero_embeddings
from lightning_xai.metrics.base import PredictOnce
from lightning_xai.metrics.erasure import ErasureMetric, Rows
from lightning_xai.metrics.top_units import Sizes

Empty = Literal["zero_embeddings", "zero_ids"]


def normalized_comprehensiveness(prob: Tensor, removed: Tensor, empty: Tensor, *, capped: bool = True) -> Tensor:
    """Returns the drop without the most important units, as a fraction of the drop of the empty input.

    A drop below 0 counts as 0. NaN where the empty input is as probable as the whole, or more. Higher is better.

    Args:
        prob: probability of the whole input.
        removed: probability without the most important units.
        empty: probability of the empty input.
        capped: a value over 1 counts as 1.

    Example:
        >>> prob, removed, empty = torch.tensor([0.75, 0.75]), torch.tensor([0.5, 0.125]), torch.tensor([0.25, 0.25])
        >>> normalized_comprehensiveness(prob, removed, empty)  # drops of 0.25 and 0.625, of at most 0.5
        tensor([0.5000, 1.0000])
    """
    share = (prob - removed).clamp(min=0) / _drop_of_empty(prob, empty)
    return share.clamp(max=1) if capped else share


def normalized_sufficiency(prob: Tensor, kept: Tensor, empty: Tensor) -> Tensor:
    """Returns in [0, 1] how far the most important units alone preserve the probability; higher is better.

    1 if they are as probable as the whole input, 0 if they are no more probable than the empty one. NaN where the empty
    input is as probable as the whole, or more.

    Args:
        prob: probability of the whole input.
        kept: probability of the most important units alone.
        empty: probability of the empty input.

    Example:
        >>> normalized_sufficiency(torch.tensor([0.75]), kept=torch.tensor([0.625]), empty=torch.tensor([0.25]))
        tensor([0.7500])
    """
    room = _drop_of_empty(prob, empty)
    return ((room - (prob - kept).clamp(min=0)) / room).clamp(min=0)


def _drop_of_empty(prob: Tensor, empty: Tensor) -> Tensor:
    """Returns the drop of the probability for the empty input, NaN where there is none."""
    room = (prob - empty).clamp(min=0)  # the authors' 1 - s0
    return room.masked_fill(room == 0, torch.nan)


def empty_probs(rows: Rows, predict: PredictOnce, empty: Empty, erasure: Erasure) -> Tensor:
    """Returns the probabilities [R, 1] or [R, J] in float64 of the empty inputs of R rows.

    Args:
        rows: the rows.
        predict: the network.
        empty: "zero_ids" writes id 0 over every token of a text. "zero_embeddings" sets the embeddings of a text to
            zero that holds as many tokens as are left of it when the k top units are kept.
        erasure: how the other units are taken away, see `erase`.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs, zero = TextInputs.of_ids([[5, 6]]), torch.tensor([0])
        >>> def predict(inputs, embed_mask=None):  # 1/4 for each token whose id is not 0
        ...     return (inputs.input_ids > 0).sum(dim=1, keepdim=True) / 4
        >>> once = PredictOnce(predict, inputs)
        >>> rows = Rows(inputs, example=zero, target=zero, top=inputs.token_mask[:, None], probs=once(inputs))
        >>> rows.prob.tolist(), empty_probs(rows, once, "zero_ids", "delete").tolist()
        ([[0.5]], [[0.0]])
    """
    if empty == "zero_embeddings":
        versions = Versions(rows.example, keep=rows.top)
        return predict_zero_embeddings(
            predict, rows.inputs, versions, rows.target, erasure=erasure, pad_id=predict.pad_id
        )
    if "zero_ids" not in predict.memo:
        blank = replace(rows.inputs, input_ids=torch.zeros_like(rows.inputs.input_ids))
        predict.memo["zero_ids"] = predict(blank).cpu()
    return predict.memo["zero_ids"][rows.example, rows.target].double().unsqueeze(1)


class NormalizedComprehensiveness(ErasureMetric):
    """Comprehensiveness as a fraction of the drop of the empty input; higher is better.

    Args:
        sizes: see ErasureMetric.
        empty: the empty input, see `empty_probs`.
        capped: a value over 1 counts as 1.
        **kwargs: see ErasureMetric.

    Example:
        >>> from lightning_xai.metrics.top_units import Counts
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[3.0, 1.0, 0.0, 2.0]]], inputs.token_mask)
        >>> def first_tokens(inputs, embed_mask=None):  # 1/2 for the token 5, 1/4 for the token 6, 0 for id 0
        ...     return ((inputs.input_ids == 5) / 2 + (inputs.input_ids == 6) / 4).sum(dim=1, keepdim=True)
        >>> metric = NormalizedComprehensiveness(Counts([1]), empty="zero_ids", name="c")  # erases the token 5
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), first_tokens)
        >>> float(metric.compute()["c"])  # a drop of 1/2, of 3/4 for the empty input
        0.6666666666666666

    Reference: Carton et al. (2020), "Evaluating and Characterizing Human Rationales", arXiv 2010.04736.
    """

    higher_is_better = True
    erases_top = True

    def __init__(self, sizes: Sizes, *, empty: Empty = "zero_embeddings", capped: bool = True, **kwargs) -> None:
        super().__init__(sizes, **kwargs)
        self.empty, self.capped = empty, capped

    def row_records(self, rows: Rows, predict: PredictOnce) -> Tensor:
        empty = empty_probs(rows, predict, self.empty, self.erasure)
        return normalized_comprehensiveness(rows.prob, self.changed(rows, predict), empty, capped=self.capped)


class NormalizedSufficiency(ErasureMetric):
    """Fraction of the drop of the empty input that the k most important units alone prevent; higher is better.

    Args:
        sizes: see ErasureMetric.
        empty: the empty input, see `empty_probs`.
        **kwargs: see ErasureMetric.

    Example:
        >>> from lightning_xai.metrics.top_units import Counts
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[3.0, 1.0, 0.0, 2.0]]], inputs.token_mask)
        >>> def first_tokens(inputs, embed_mask=None):  # 1/2 for the token 5, 1/4 for the token 6, 0 for id 0
        ...     return ((inputs.input_ids == 5) / 2 + (inputs.input_ids == 6) / 4).sum(dim=1, keepdim=True)
        >>> metric = NormalizedSufficiency(Counts([1]), empty="zero_ids", name="s")  # keeps the token 5
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), first_tokens)
        >>> float(metric.compute()["s"])  # 1/2 is left of 3/4, and nothing of the empty input
        0.6666666666666666

    Reference: Carton et al. (2020), "Evaluating and Characterizing Human Rationales", arXiv 2010.04736.
    """

    higher_is_better = True
    erases_top = False

    def __init__(self, sizes: Sizes, *, empty: Empty = "zero_embeddings", **kwargs) -> None:
        super().__init__(sizes, **kwargs)
        self.empty = empty

    def row_records(self, rows: Rows, predict: PredictOnce) -> Tensor:
        empty = empty_probs(rows, predict, self.empty, self.erasure)
        return normalized_sufficiency(rows.prob, self.changed(rows, predict), empty)
