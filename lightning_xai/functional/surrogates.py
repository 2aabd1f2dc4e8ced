"""Weighted linear regressions on binary features, solved for all outputs of all examples at once in float64."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

_DESIGN_ELEMENTS = 2**22  # features of samples in float64 at once
_MAX_SWEEPS = 10_000
_TOLERANCE = 1e-10  # of a lasso's largest step, as a fraction of its largest coefficient


def _products(design: Tensor, shift: Tensor, outputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Returns X'WX [B, M, M] and X'WY [B, M, K] of X = `design` - `shift`, with few rows of X in float64 at a time.

    Args:
        design: [B, N, M].
        shift: [B, N, 1] float64, what is taken from all features of a sample.
        outputs: [B, N, K] float64, Y.
        weights: [B, N] float64, the diagonal of W.
    """
    batch, num_samples, num_features = design.shape
    gram = outputs.new_zeros(batch, num_features, num_features)
    moments = outputs.new_zeros(batch, num_features, outputs.shape[2])
    for rows in torch.arange(num_samples).split(max(_DESIGN_ELEMENTS // (batch * num_features), 1)):
        part = design[:, rows].double() - shift[:, rows]
        weighted = (weights[:, rows].unsqueeze(-1) * part).transpose(1, 2)
        gram.baddbmm_(weighted, part)
        moments.baddbmm_(weighted, outputs[:, rows])
    return gram, moments


def _normal_equations(design: Tensor, outputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns X'WX [B, M, M] and X'WY [B, M, K] of what differs from the weighted means, and sums [B, 1, 1] of weights.

    Means leave out the intercept. Weights that are all 0 sum to 1 here.
    """
    outputs, weights = outputs.double(), weights.double()
    total = weights.sum(dim=1).view(-1, 1, 1)
    total = total.masked_fill(total == 0, 1.0)
    outputs = outputs - weights.unsqueeze(1) @ outputs / total
    gram, moments = _products(design, torch.zeros_like(weights).unsqueeze(-1), outputs, weights)
    sums = gram.diagonal(dim1=1, dim2=2)  # of weights where a feature is 1, as 1 is its own square
    return gram - sums.unsqueeze(2) * sums.unsqueeze(1) / total, moments, total


def ridge(design: Tensor, outputs: Tensor, weights: Tensor, *, alpha: float) -> Tensor:
    """Returns coefficients [B, M, K] that minimize sum_n w (y - b - xc)^2 + alpha |c|^2; the intercept b is free.

    The objective is that of scikit-learn's Ridge with sample weights. Columns that never vary get 0.

    Args:
        design: [B, N, M] bool, features of each sample.
        outputs: [B, N, K].
        weights: [B, N], non-negative; 0 leaves a sample out.
        alpha: positive.
    """
    gram, moments, _ = _normal_equations(design, outputs, weights)
    gram.diagonal(dim1=1, dim2=2).add_(alpha)
    return torch.cholesky_solve(moments, torch.linalg.cholesky(gram))


def lasso(design: Tensor, outputs: Tensor, weights: Tensor, *, alpha: float) -> Tensor:
    """Returns coefficients [B, M, K] that minimize sum_n w (y - b - xc)^2 / (2 sum_n w) + alpha |c|_1.

    The objective is that of scikit-learn's Lasso with sample weights, reached by coordinate descent on all examples
    and outputs side by side. Arguments as in `ridge`.
    """
    gram, moments, total = _normal_equations(design, outputs, weights)
    gram, moments = gram / total, moments / total
    scales = gram.diagonal(dim1=1, dim2=2).unsqueeze(-1)  # [B, M, 1]
    scales = scales.masked_fill(scales <= 0, torch.inf)  # columns that never vary keep 0
    coefficients = torch.zeros_like(moments)
    for _ in range(_MAX_SWEEPS):
        largest_step = 0.0
        for place in range(gram.shape[1]):
            old = coefficients[:, place].clone()  # [B, K]
            residual = moments[:, place] - torch.einsum("bm,bmk->bk", gram[:, place], coefficients)
            pull = residual + gram[:, place, place, None] * old
            new = (pull - pull.clamp(-alpha, alpha)) / scales[:, place]
            coefficients[:, place] = new
            largest_step = max(largest_step, float((new - old).abs().max()))
        if largest_step <= _TOLERANCE * float(coefficients.abs().max()):
            return coefficients
    warnings.warn(f"lasso took {_MAX_SWEEPS} sweeps without settling: raise alpha above {alpha:g}", stacklevel=2)
    return coefficients


def additive_fit(kept: Tensor, outputs: Tensor, weights: Tensor, differences: Tensor, real: Tensor) -> Tensor:
    """Returns scores [B, M, K] that minimize sum_n w (y - sum of kept scores)^2 and sum exactly to `differences`.

    The mean share of `differences` is taken out, so that scores sum to 0 and only the part of a coalition that stands
    out from its size matters: the constraint is met without singling out a feature. Where samples leave scores
    undetermined, the smallest ones that fit are returned.

    Args:
        kept: [B, N, M] bool, the coalitions.
        outputs: [B, N, K] of the coalitions, less the output of the empty one.
        weights: [B, N], non-negative; 0 leaves a coalition out.
        differences: [B, K] output of the full coalition less that of the empty one.
        real: [B, M] bool, False where an example has fewer features; the score is 0 there.
    """
    count = real.sum(dim=1).clamp(min=1).double().view(-1, 1, 1)
    share = differences.double().unsqueeze(1) / count  # [B, 1, K]
    sizes = kept.sum(dim=2, keepdim=True).double()  # [B, N, 1]
    gram, moments = _products(kept, sizes / count, outputs.double() - sizes * share, weights.double())
    gram = gram * real.unsqueeze(1) * real.unsqueeze(2)
    scores = torch.linalg.pinv(gram, rtol=1e-10, hermitian=True) @ (moments * real.unsqueeze(-1))
    excess = scores.sum(dim=1, keepdim=True) / count  # rounding only
    return (scores - excess + share) * real.unsqueeze(-1)
