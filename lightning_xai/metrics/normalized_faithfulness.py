"""Comprehensiveness and sufficiency, normalized by the drop in the probability when the input is emptied."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.perturbation import Versions, predict_zero_embeddings
from lightning_xai.metrics.erasure import ErasureMetric, RankedRows
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Sizes

Empty = Literal["zero_embeddings", "zero_ids"]


def normalized_comprehensiveness(prob: Tensor, removed: Tensor, empty: Tensor, *, capped: bool = True) -> Tensor:
    """Returns a / b for two drops in the probability, a and b. Higher is better.

    Both drops start from the probability for the whole input. a is the drop when the most important units are removed,
    or 0 if this drop is negative. b is the drop when the input is replaced by the empty input. The result is NaN where
    b is not positive.

    Args:
        prob: probability for the whole input.
        removed: probability without the most important units.
        empty: probability for the empty input.
        capped: whether values above 1 are set to 1.

    Example:
        >>> prob, removed, empty = torch.tensor([0.75, 0.75]), torch.tensor([0.5, 0.125]), torch.tensor([0.25, 0.25])
        >>> normalized_comprehensiveness(prob, removed, empty)  # drops 0.25 and 0.625, divided by 0.5
        tensor([0.5000, 1.0000])
    """
    share = (prob - removed).clamp(min=0) / _drop_of_empty(prob, empty)
    return share.clamp(max=1) if capped else share


def normalized_sufficiency(prob: Tensor, kept: Tensor, empty: Tensor) -> Tensor:
    """Returns 1 - a / b, clipped to [0, 1], for two drops in the probability, a and b. Higher is better.

    Both drops start from the probability for the whole input. a is the drop when only the most important units are
    kept. b is the drop when the input is replaced by the empty input. The result is 1 if a is at most 0, and 0 if a is
    at least b. The result is NaN where b is not positive.

    Args:
        prob: probability for the whole input.
        kept: probability with only the most important units.
        empty: probability for the empty input.

    Example:
        >>> normalized_sufficiency(torch.tensor([0.75]), kept=torch.tensor([0.625]), empty=torch.tensor([0.25]))
        tensor([0.7500])
    """
    room = _drop_of_empty(prob, empty)
    return ((room - (prob - kept).clamp(min=0)) / room).clamp(min=0)


def _drop_of_empty(prob: Tensor, empty: Tensor) -> Tensor:
    """Returns the drop in the probability, prob - empty, or NaN where the probability does not drop."""
    # Carton et al. (2020) write 1 - s0 for this drop, since s0, their sufficiency of the empty input, is 1 - drop
    room = (prob - empty).clamp(min=0)
    return room.masked_fill(room == 0, torch.nan)


def empty_probs(rows: RankedRows, predict: PredictOnce, empty: Empty, erasure: Erasure) -> Tensor:
    """Returns the probability of each row's class for the empty input, in float64.

    The shape is [R, 1] for "zero_ids". For "zero_embeddings", it is [R, J], because the empty input depends on the
    number k of top units.

    Args:
        rows: the R rows, with the top k units for J numbers k.
        predict: the network.
        empty: "zero_ids" sets every token id of the text to 0. "zero_embeddings" erases all but the top k units, and
            sets the embeddings of the remaining tokens to zero. A prompt around the text stays as it is.
        erasure: how "zero_embeddings" erases units; `erase` describes the options.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs, zero = TextInputs.of_ids([[5, 6]]), torch.tensor([0])
        >>> def predict(inputs, embed_mask=None):  # 1/4 for each token whose id is not 0
        ...     return (inputs.input_ids > 0).sum(dim=1, keepdim=True) / 4
        >>> once = PredictOnce(predict, inputs)
        >>> rows = RankedRows(inputs, example=zero, target=zero, top=inputs.token_mask[:, None], probs=once(inputs))
        >>> rows.prob.tolist(), empty_probs(rows, once, "zero_ids", "delete").tolist()
        ([[0.5]], [[0.0]])
    """
    if empty == "zero_embeddings":
        versions = Versions(rows.example, keep=rows.top)
        return predict_zero_embeddings(
            predict, rows.inputs, versions, rows.target, erasure=erasure, pad_id=predict.pad_id
        )
    if "zero_ids" not in predict.memo:
        prompt, ids = rows.inputs.prompt_mask, rows.inputs.input_ids
        zeros = torch.zeros_like(ids)
        blank = replace(rows.inputs, input_ids=zeros if prompt is None else ids.where(prompt, zeros))
        predict.memo["zero_ids"] = predict(blank).cpu()
    return predict.memo["zero_ids"][rows.example, rows.target].double().unsqueeze(1)


class NormalizedComprehensiveness(ErasureMetric):
    """Comprehensiveness, normalized by the drop in the probability when the input is emptied; higher is better.

    The value is a / b. a is the drop in the probability when the top k units are erased, or 0 if this drop is negative.
    b is the drop in the probability when the input is replaced by the empty input.

    Args:
        sizes: see ErasureMetric.
        empty: the kind of empty input; `empty_probs` describes the options.
        capped: whether values above 1 are set to 1. If they are not, one text with a small b can dominate the mean.
        **kwargs: see ErasureMetric.

    Example:
        >>> from lightning_xai.metrics.top_units import Counts
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[3.0, 1.0, 0.0, 2.0]]], inputs.token_mask)
        >>> def first_tokens(inputs, embed_mask=None):  # 1/2 for the token 5, 1/4 for the token 6, 0 for id 0
        ...     return ((inputs.input_ids == 5) / 2 + (inputs.input_ids == 6) / 4).sum(dim=1, keepdim=True)
        >>> metric = NormalizedComprehensiveness(Counts([1]), empty="zero_ids", name="c")  # erases token 5
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), first_tokens)
        >>> float(metric.compute()["c"])  # the drop 1/2, divided by the empty input's drop 3/4
        0.6666666666666666

    Reference: Carton et al. (2020), "Evaluating and Characterizing Human Rationales", arXiv 2010.04736.
    """

    higher_is_better = True
    erases_top = True

    def __init__(self, sizes: Sizes, *, empty: Empty = "zero_embeddings", capped: bool = True, **kwargs) -> None:
        super().__init__(sizes, **kwargs)
        self.empty, self.capped = empty, capped

    def row_records(self, rows: RankedRows, predict: PredictOnce) -> Tensor:
        empty = empty_probs(rows, predict, self.empty, self.erasure)
        return normalized_comprehensiveness(rows.prob, self.changed(rows, predict), empty, capped=self.capped)


class NormalizedSufficiency(ErasureMetric):
    """Sufficiency, normalized by the drop in the probability when the input is emptied; higher is better.

    The value is 1 - a / b, clipped to [0, 1]. a is the drop in the probability when only the top k units are kept. b is
    the drop in the probability when the input is replaced by the empty input.

    Args:
        sizes: see ErasureMetric.
        empty: the kind of empty input; `empty_probs` describes the options.
        **kwargs: see ErasureMetric.

    Example:
        >>> from lightning_xai.metrics.top_units import Counts
        >>> from lightning_xai.types import Attribution, Batch, TextInputs
        >>> inputs = TextInputs.of_ids([[5, 6, 7, 8]])
        >>> attribution = Attribution.of_scores([[[3.0, 1.0, 0.0, 2.0]]], inputs.token_mask)
        >>> def first_tokens(inputs, embed_mask=None):  # 1/2 for the token 5, 1/4 for the token 6, 0 for id 0
        ...     return ((inputs.input_ids == 5) / 2 + (inputs.input_ids == 6) / 4).sum(dim=1, keepdim=True)
        >>> metric = NormalizedSufficiency(Counts([1]), empty="zero_ids", name="s")  # keeps token 5
        >>> metric.update(attribution, Batch(inputs, labels=torch.tensor([0])), first_tokens)
        >>> float(metric.compute()["s"])  # 1/2 remains of 3/4; the empty input leaves 0
        0.6666666666666666

    Reference: Carton et al. (2020), "Evaluating and Characterizing Human Rationales", arXiv 2010.04736.
    """

    higher_is_better = True
    erases_top = False

    def __init__(self, sizes: Sizes, *, empty: Empty = "zero_embeddings", **kwargs) -> None:
        super().__init__(sizes, **kwargs)
        self.empty = empty

    def row_records(self, rows: RankedRows, predict: PredictOnce) -> Tensor:
        empty = empty_probs(rows, predict, self.empty, self.erasure)
        return normalized_sufficiency(rows.prob, self.changed(rows, predict), empty)
