"""Weighted linear regressions on binary units, solved for all outputs of all examples at once in float64."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

_DESIGN_ELEMENTS = 2**22  # units of samples in float64 at once
_MAX_SWEEPS = 10_000
_TOLERANCE = 1e-10  # of a lasso's largest step, as a fraction of its largest coefficient, and of its optimality
_RANK_TOLERANCE = 1e-10  # of a matrix's largest eigenvalue, below which another counts as 0


def _products(design: Tensor, shift: Tensor, outputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Returns X'WX [B, M, M] and X'WY [B, M, K] of X = `design` - `shift`, with few rows of X in float64 at a time.

    Args:
        design: [B, N, M].
        shift: [B, N, 1] float64, what is taken from all units of a sample.
        outputs: [B, N, K] float64, Y.
        weights: [B, N] float64, the diagonal of W.
    """
    batch, num_samples, num_units = design.shape
    gram = outputs.new_zeros(batch, num_units, num_units)
    moments = outputs.new_zeros(batch, num_units, outputs.shape[2])
    for rows in torch.arange(num_samples).split(max(_DESIGN_ELEMENTS // (batch * num_units), 1)):
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
    sums = gram.diagonal(dim1=1, dim2=2)  # of weights where a unit is 1, as 1 is its own square
    return gram - sums.unsqueeze(2) * sums.unsqueeze(1) / total, moments, total


def ridge(design: Tensor, outputs: Tensor, weights: Tensor, *, alpha: float) -> Tensor:
    """Returns coefficients [B, M, K] that minimize sum_n w (y - b - xc)^2 + alpha |c|^2; the intercept b is free.

    The objective is that of scikit-learn's Ridge with sample weights. Columns that never vary get 0.

    Args:
        design: [B, N, M] bool, units of each sample.
        outputs: [B, N, K].
        weights: [B, N], non-negative; 0 leaves a sample out.
        alpha: positive.
    """
    gram, moments, _ = _normal_equations(design, outputs, weights)
    gram.diagonal(dim1=1, dim2=2).add_(alpha)
    return torch.cholesky_solve(moments, torch.linalg.cholesky(gram))


def lasso(design: Tensor, outputs: Tensor, weights: Tensor, *, alpha: float) -> Tensor:
    """Returns coefficients [B, M, K] that minimize sum_n w (y - b - xc)^2 / (2 sum_n w) + alpha |c|_1.

    The objective is that of scikit-learn's Lasso with sample weights, reached by coordinate descent on all outputs of
    an example side by side; once signs stand still, a linear system settles the rest. Arguments as in `ridge`.
    """
    gram, moments, total = _normal_equations(design, outputs, weights)
    gram, moments = ((matrix / total).cpu().numpy() for matrix in (gram, moments))
    found = [_descend(gram_b, moments_b, alpha) for gram_b, moments_b in zip(gram, moments, strict=True)]
    return torch.from_numpy(np.stack(found)).to(outputs.device)


def _descend(gram: np.ndarray, moments: np.ndarray, alpha: float) -> np.ndarray:
    """Returns coefficients [M, K] of the lasso from X'WX [M, M] and X'WY [M, K] of one example.

    NumPy, because a step of the descent is a handful of operations on K numbers, where torch spends most of its time on
    calls: ten times as much as here, and more than the network for a short text.
    """
    coefficients, residuals = np.zeros_like(moments), moments.copy()  # residuals are moments - gram @ coefficients
    scales = gram.diagonal().tolist()
    varying = [place for place, scale in enumerate(scales) if scale > 0]  # the other columns keep 0
    left = np.arange(moments.shape[1])  # outputs that are not settled
    for _ in range(_MAX_SWEEPS):
        old_signs = np.sign(coefficients[:, left])
        part, rest = coefficients[:, left], residuals[:, left]
        largest_step = np.zeros(len(left))
        for place in varying:
            old = part[place]
            pull = rest[place] + scales[place] * old
            new = (pull - np.minimum(np.maximum(pull, -alpha), alpha)) / scales[place]
            step = new - old
            if step.any():
                part[place] = new
                rest -= gram[place, :, None] * step
                largest_step = np.maximum(largest_step, np.abs(step))
        coefficients[:, left], residuals[:, left] = part, rest
        settled = largest_step <= _TOLERANCE * np.abs(part).max(axis=0, initial=0.0)
        for column in (~settled & (np.sign(part) == old_signs).all(axis=0)).nonzero()[0]:
            solved = _solve_signed(gram, moments[:, left[column]], np.sign(part[:, column]), alpha)
            if solved is not None:
                coefficients[:, left[column]], settled[column] = solved, True
        left = left[~settled]
        if not len(left):
            return coefficients
    warnings.warn(f"lasso took {_MAX_SWEEPS} sweeps without settling: raise alpha above {alpha:g}", stacklevel=3)
    return coefficients


def _solve_signed(gram: np.ndarray, moments: np.ndarray, signs: np.ndarray, alpha: float) -> np.ndarray | None:
    """Returns the coefficients [M] that have these signs and minimize the lasso, or None where it has none such."""
    chosen = signs.nonzero()[0]
    system = torch.from_numpy(gram[np.ix_(chosen, chosen)])
    solution = torch.linalg.solve_ex(system, torch.from_numpy(moments[chosen] - alpha * signs[chosen])).result.numpy()
    if not (np.sign(solution) == signs[chosen]).all():  # also where the system is singular, as NaN has no sign
        return None
    gradient = moments - gram[:, chosen] @ solution  # alpha * sign where chosen, no larger than alpha elsewhere
    gradient[chosen] -= alpha * signs[chosen]
    bounds = np.full_like(gradient, alpha)
    bounds[chosen] = 0.0
    if not (np.abs(gradient) <= bounds + _TOLERANCE * np.abs(moments).max()).all():
        return None
    coefficients = np.zeros_like(moments)
    coefficients[chosen] = solution
    return coefficients


def additive_fit(kept: Tensor, outputs: Tensor, weights: Tensor, differences: Tensor, real: Tensor) -> Tensor:
    """Returns scores [B, M, K] that minimize sum_n w (y - sum of kept scores)^2 and sum exactly to `differences`.

    The mean share of `differences` is taken out, so that scores sum to 0 and only the part of a coalition that stands
    out from its size matters: the constraint is met without singling out a unit. Where samples leave scores
    undetermined, the smallest ones that fit are returned.

    Args:
        kept: [B, N, M] bool, the coalitions.
        outputs: [B, N, K] of the coalitions, less the output of the empty one.
        weights: [B, N], non-negative; 0 leaves a coalition out.
        differences: [B, K] output of the full coalition less that of the empty one.
        real: [B, M] bool, False where an example has fewer units; the score is 0 there.
    """
    count = real.sum(dim=1).clamp(min=1).double().view(-1, 1, 1)
    share = differences.double().unsqueeze(1) / count  # [B, 1, K]
    sizes = kept.sum(dim=2, keepdim=True).double()  # [B, N, 1]
    shift, outputs, weights = sizes / count, outputs.double() - sizes * share, weights.double()
    if kept.shape[1] < kept.shape[2]:
        scores = _from_few_samples(kept, shift, outputs, weights, real)
    else:
        gram, moments = _products(kept, shift, outputs, weights)
        scores = _solve_centered(gram * real.unsqueeze(1) * real.unsqueeze(2), moments * real.unsqueeze(-1), real)
    excess = scores.sum(dim=1, keepdim=True) / count  # rounding only
    return (scores - excess + share) * real.unsqueeze(-1)


def _from_few_samples(kept: Tensor, shift: Tensor, outputs: Tensor, weights: Tensor, real: Tensor) -> Tensor:
    """Returns the smallest scores [B, M, K] that fit, by matrices of N samples [N, N] in place of units [M, M]."""
    roots = weights.sqrt().unsqueeze(-1)
    design = roots * (kept.double() - shift) * real.unsqueeze(1)  # [B, N, M]
    similar = torch.linalg.pinv(design @ design.transpose(1, 2), rtol=_RANK_TOLERANCE, hermitian=True)
    return design.transpose(1, 2) @ (similar @ (roots * outputs))


def _solve_centered(gram: Tensor, moments: Tensor, real: Tensor) -> Tensor:
    """Returns the smallest scores [B, M, K] with gram @ scores = moments, where rows of real units sum to 0.

    Units that are not real score 0, as their rows are 0.
    """
    largest = gram.diagonal(dim1=1, dim2=2).amax(dim=1).view(-1, 1, 1)
    # real units together, and each that is not, have eigenvalue 0 and moment 0: any other gives the same scores
    together = (real.unsqueeze(1) & real.unsqueeze(2)) / real.sum(dim=1).clamp(min=1).view(-1, 1, 1)
    filled = gram + largest * (together + torch.diag_embed((~real).to(gram)))
    factor, failed = torch.linalg.cholesky_ex(filled)
    pivots = factor.diagonal(dim1=1, dim2=2).square().amin(dim=1)
    determined = (failed == 0) & (pivots > _RANK_TOLERANCE * largest.flatten())
    scores = torch.zeros_like(moments)
    scores[determined] = torch.cholesky_solve(moments[determined], factor[determined])
    rest = torch.linalg.pinv(gram[~determined], rtol=_RANK_TOLERANCE, hermitian=True)  # an eigendecomposition: dearer
    scores[~determined] = rest @ moments[~determined]
    return scores
