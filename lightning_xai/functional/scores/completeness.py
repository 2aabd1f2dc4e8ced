"""Checks completeness: the scores should sum to the logit of the input minus the logit of the baseline."""

from __future__ import annotations

import warnings

from torch import Tensor

# largest completeness error, in logits, that causes no warning. For comparison, integrated gradients with
# Gauss-Legendre points and the fill token as baseline had errors below 0.001 on MiniLM (50 steps), and up to 0.1 on a
# trained PLM-CA (20 steps). With zeros as baseline, errors reached 2 (50 steps)
DELTA_TOLERANCE = 0.05


class CompletenessCheck:
    """A check that warns, at most once, if the completeness error of scores exceeds a tolerance.

    Args:
        method: name of the method in the warning.
        tolerance: largest error, in logits, that causes no warning. None switches the check off.
        remedy: advice for the user, at the end of the warning.

    Example:
        >>> import torch
        >>> check = CompletenessCheck("integrated gradients", 0.05, "raise num_steps")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     check(torch.tensor([[0.01, -0.5]]))
        ...     check(torch.tensor([[0.9, 0.0]]))
        >>> [str(warning.message) for warning in caught]
        ['the scores of integrated gradients violate completeness by up to 0.5 logits, more than 0.05: raise num_steps']
    """

    def __init__(self, method: str, tolerance: float | None, remedy: str) -> None:
        self.method = method
        self.tolerance = tolerance
        self.remedy = remedy
        self._warned = False

    def __call__(self, deltas: Tensor) -> None:
        """Warns if the magnitude of a completeness error in `deltas` (in logits, any shape) exceeds the tolerance."""
        if self.tolerance is None or self._warned or not deltas.numel():
            return
        worst = float(deltas.abs().max())
        if worst > self.tolerance:
            self._warned = True
            warnings.warn(
                f"the scores of {self.method} violate completeness by up to {worst:.3g} logits, more than "
                f"{self.tolerance}: {self.remedy}",
                stacklevel=3,
            )
