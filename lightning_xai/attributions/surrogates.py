"""Weighted linear regressions that predict outputs from the kept units (0 or 1 for each unit), solved in float64."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

_DESIGN_ELEMENTS = 2**22  # largest number of float64 entries of the design matrix in memory
_MAX_SWEEPS = 10_000  # largest number of sweeps; a sweep updates every coefficient of the lasso once
_TOLERANCE = 1e-10  # a lasso has converged if its relative steps or its optimality errors are below this tolerance
_RANK_TOLERANCE = 1e-10  # eigenvalues below this fraction of the largest eigenvalue count as 0


def _products(design: Tensor, shift: Tensor, outputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Returns X'WX [B, M, M] and X'WY [B, M, K] for X = `design` - `shift`, computed for a few rows of X at a time.

    Args:
        design: [B, N, M] bool, True where a sample keeps a unit.
        shift: [B, N, 1] float64, subtracted from all units of a sample.
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
    """Returns X'WX [B, M, M] and X'WY [B, M, K] for centered X and Y, and the sum [B, 1, 1] of each example's weights.

    X is `design`, Y is `outputs`, and W has the weights on its diagonal. Centering subtracts the weighted means of X
    and Y, which removes the intercept from the regression. If an example has only weights of 0, their sum is set to 1.
    """
    outputs, weights = outputs.double(), weights.double()
    total = weights.sum(dim=1).view(-1, 1, 1)
    total = total.masked_fill(total == 0, 1.0)
    outputs = outputs - weights.unsqueeze(1) @ outputs / total
    gram, moments = _products(design, torch.zeros_like(weights).unsqueeze(-1), outputs, weights)
    sums = gram.diagonal(dim1=1, dim2=2)  # = weighted column sums of X, because x * x = x for 0 and 1
    return gram - sums.unsqueeze(2) * sums.unsqueeze(1) / total, moments, total


def ridge(design: Tensor, outputs: Tensor, weights: Tensor, *, alpha: float) -> Tensor:
    """Returns coefficients c [B, M, K] that minimize sum_n w_n (y_n - b - x_n c)^2 + alpha |c|^2.

    The intercept b is not penalized. scikit-learn's Ridge with sample weights has the same objective. A unit that is
    kept in every sample or in no sample gets 0.

    Args:
        design: [B, N, M] bool, the units x_n that each sample keeps.
        outputs: [B, N, K], the y_n.
        weights: [B, N], non-negative; samples of weight 0 do not count.
        alpha: positive.

    Example:
        >>> design, outputs = torch.tensor([[[True], [False]]]), torch.tensor([[[2.0], [0.0]]])
        >>> ridge(design, outputs, torch.ones(1, 2), alpha=0.5).item()  # sum xy / (sum xx + alpha) = 1 / (1/2 + alpha)
        1.0
    """
    gram, moments, _ = _normal_equations(design, outputs, weights)
    gram.diagonal(dim1=1, dim2=2).add_(alpha)
    return torch.cholesky_solve(moments, torch.linalg.cholesky(gram))


def lasso(design: Tensor, outputs: Tensor, weights: Tensor, *, alpha: float) -> Tensor:
    """Returns coefficients c [B, M, K] that minimize sum_n w_n (y_n - b - x_n c)^2 / (2 sum_n w_n) + alpha |c|_1.

    The intercept b is not penalized. scikit-learn's Lasso with sample weights has the same objective. Coordinate
    descent updates the coefficients of all outputs of an example together. When the signs of an output's coefficients
    stop changing, a linear system gives the exact solution.

    Args:
        design: [B, N, M] bool, the units x_n that each sample keeps.
        outputs: [B, N, K], the y_n.
        weights: [B, N], non-negative; samples of weight 0 do not count.
        alpha: positive.

    Example:
        >>> design, outputs = torch.tensor([[[True], [False]]]), torch.tensor([[[2.0], [0.0]]])
        >>> lasso(design, outputs, torch.ones(1, 2), alpha=0.25).item()  # (covariance 1/2 - alpha) / variance 1/4
        1.0
    """
    gram, moments, total = _normal_equations(design, outputs, weights)
    grams, all_moments = (matrix.cpu().numpy() for matrix in (gram / total, moments / total))
    coefficients = [_descend(gram_b, moments_b, alpha) for gram_b, moments_b in zip(grams, all_moments, strict=True)]
    return torch.from_numpy(np.stack(coefficients)).to(outputs.device)


def _descend(gram: np.ndarray, moments: np.ndarray, alpha: float) -> np.ndarray:
    """Returns the lasso's coefficients [M, K] of one example from X'WX [M, M] and X'WY [M, K]; weights W sum to 1.

    The steps use NumPy, because each step is a few operations on only K numbers. In torch, the overhead of calls would
    make steps ten times slower. For a short text, the lasso would then take longer than the passes of the network.
    """
    coefficients, residuals = np.zeros_like(moments), moments.copy()  # residuals are moments - gram @ coefficients
    scales = gram.diagonal().tolist()
    varying = [column for column, scale in enumerate(scales) if scale > 0]  # other coefficients stay 0
    unsettled = np.arange(moments.shape[1])  # indices of outputs whose coefficients have not converged
    for _ in range(_MAX_SWEEPS):
        old_signs = np.sign(coefficients[:, unsettled])
        part, rest = coefficients[:, unsettled], residuals[:, unsettled]
        largest_step = np.zeros(len(unsettled))
        for column in varying:
            old = part[column]
            pull = rest[column] + scales[column] * old
            new = (pull - np.minimum(np.maximum(pull, -alpha), alpha)) / scales[column]
            step = new - old
            if step.any():
                part[column] = new
                rest -= gram[column, :, None] * step
                largest_step = np.maximum(largest_step, np.abs(step))
        coefficients[:, unsettled], residuals[:, unsettled] = part, rest
        settled = largest_step <= _TOLERANCE * np.abs(part).max(axis=0, initial=0.0)
        for k in (~settled & (np.sign(part) == old_signs).all(axis=0)).nonzero()[0]:
            solution = _solve_signed(gram, moments[:, unsettled[k]], np.sign(part[:, k]), alpha)
            if solution is not None:
                coefficients[:, unsettled[k]], settled[k] = solution, True
        unsettled = unsettled[~settled]
        if not len(unsettled):
            return coefficients
    warnings.warn(f"lasso did not converge in {_MAX_SWEEPS} sweeps: raise alpha above {alpha:g}", stacklevel=3)
    return coefficients


def _solve_signed(gram: np.ndarray, moments: np.ndarray, signs: np.ndarray, alpha: float) -> np.ndarray | None:
    """Returns one output's lasso coefficients [M] if their signs are `signs`, otherwise None."""
    chosen = signs.nonzero()[0]
    system = torch.from_numpy(gram[np.ix_(chosen, chosen)])
    solution = torch.linalg.solve_ex(system, torch.from_numpy(moments[chosen] - alpha * signs[chosen])).result.numpy()
    if not (np.sign(solution) == signs[chosen]).all():  # also true if the system is singular, since its solution is NaN
        return None
    # `gradient` is the negative gradient of the squared error. At the optimum, it is alpha * (sign of the coefficient)
    # for chosen units, which have a nonzero coefficient, and its magnitude is at most alpha for the other units
    gradient = moments - gram[:, chosen] @ solution
    gradient[chosen] -= alpha * signs[chosen]
    bounds = np.full_like(gradient, alpha)
    bounds[chosen] = 0.0
    if not (np.abs(gradient) <= bounds + _TOLERANCE * np.abs(moments).max()).all():
        return None
    coefficients = np.zeros_like(moments)
    coefficients[chosen] = solution
    return coefficients


def additive_fit(keep: Tensor, outputs: Tensor, weights: Tensor, differences: Tensor, exists: Tensor) -> Tensor:
    """Returns scores [B, M, K] that minimize sum_n w_n (y_n - s_n)^2 and sum to `differences` exactly.

    Here, s_n is the sum of the scores of the units that coalition n keeps. A unit's score is an equal share of
    `differences` plus a correction, which the regression determines. The corrections sum to 0, so the 0/1 vector of
    each coalition can be centered without changing the fit. No unit is eliminated from the regression to satisfy the
    constraint, so all units are treated alike. Of several best fits, the one with the smallest L2 norm is returned.

    Args:
        keep: [B, N, M] bool, the coalitions.
        outputs: [B, N, K], the y_n: outputs of the coalitions minus the output of the empty coalition.
        weights: [B, N], non-negative; coalitions of weight 0 do not count.
        differences: [B, K], the output of the full coalition minus the output of the empty coalition.
        exists: [B, M] bool, False where an example has no unit; the score is 0 there.

    Example:
        >>> keep, outputs = torch.tensor([[[True, False], [False, True]]]), torch.tensor([[[1.0], [2.0]]])
        >>> exists = torch.ones(1, 2, dtype=torch.bool)
        >>> additive_fit(keep, outputs, torch.ones(1, 2), torch.tensor([[4.0]]), exists).flatten().tolist()
        [1.5, 2.5]
    """
    count = exists.sum(dim=1).clamp(min=1).double().view(-1, 1, 1)
    share = differences.double().unsqueeze(1) / count  # [B, 1, K]
    sizes = keep.sum(dim=2, keepdim=True).double()  # [B, N, 1]
    shift, outputs, weights = sizes / count, outputs.double() - sizes * share, weights.double()
    if keep.shape[1] < keep.shape[2]:
        scores = _fit_few_samples(keep, shift, outputs, weights, exists)
    else:
        gram, moments = _products(keep, shift, outputs, weights)
        scores = _solve_centered(
            gram * exists.unsqueeze(1) * exists.unsqueeze(2), moments * exists.unsqueeze(-1), exists
        )
    excess = scores.sum(dim=1, keepdim=True) / count  # differs from 0 only by rounding
    return (scores - excess + share) * exists.unsqueeze(-1)


def _fit_few_samples(keep: Tensor, shift: Tensor, outputs: Tensor, weights: Tensor, exists: Tensor) -> Tensor:
    """Returns the corrections [B, M, K] of `additive_fit` if there are fewer coalitions than units (N < M).

    Only [N, N] matrices are inverted. Of several best fits, the one with the smallest L2 norm is returned.
    """
    roots = weights.sqrt().unsqueeze(-1)
    design = roots * (keep.double() - shift) * exists.unsqueeze(1)  # [B, N, M]
    inverse = torch.linalg.pinv(design @ design.transpose(1, 2), rtol=_RANK_TOLERANCE, hermitian=True)
    return design.transpose(1, 2) @ (inverse @ (roots * outputs))


def _solve_centered(gram: Tensor, moments: Tensor, exists: Tensor) -> Tensor:
    """Solves gram @ scores = moments, and returns the solution [B, M, K] of smallest norm.

    Each row of `gram` must sum to 0. Rows of units that do not exist in an example must be 0; these units score 0.
    """
    largest = gram.diagonal(dim1=1, dim2=2).amax(dim=1).view(-1, 1, 1)
    # the null space of `gram` contains the indicator of all existing units, and the indicator of each missing unit.
    # `regular` has a positive eigenvalue for these vectors instead of 0, which makes it invertible, unless the null
    # space contains further vectors. The scores stay the same, because `moments` are orthogonal to the indicators
    together = (exists.unsqueeze(1) & exists.unsqueeze(2)) / exists.sum(dim=1).clamp(min=1).view(-1, 1, 1)
    regular = gram + largest * (together + torch.diag_embed((~exists).to(gram)))
    factor, failed = torch.linalg.cholesky_ex(regular)
    pivots = factor.diagonal(dim1=1, dim2=2).square().amin(dim=1)
    determined = (failed == 0) & (pivots > _RANK_TOLERANCE * largest.flatten())
    scores = torch.zeros_like(moments)
    scores[determined] = torch.cholesky_solve(moments[determined], factor[determined])
    # matrices that are still singular need a pseudoinverse, which costs more
    inverse = torch.linalg.pinv(gram[~determined], rtol=_RANK_TOLERANCE, hermitian=True)
    scores[~determined] = inverse @ moments[~determined]
    return scores
