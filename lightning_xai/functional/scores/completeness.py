"""Checks the completeness of scores: their sum should be the logit of the input minus the logit of the baseline."""

from __future__ import annotations

import warnings

from torch import Tensor

# in logits. With the encoder's fill token as baseline, 50 Gauss-Legendre steps miss completeness by under 0.001 on
# MiniLM, and 20 steps by up to 0.1 on a trained PLM-CA; with zeros as baseline, 50 steps miss it by up to 2
DELTA_TOLERANCE = 0.05


class CompletenessCheck:
    """Warns if scores miss completeness by more than a tolerance, at most once.

    Args:
        method: name of the method in the warning.
        tolerance: largest error, in logits, without a warning. None switches the check off.
        remedy: advice for the user, as part of the warning.

    Example:
        >>> import torch
        >>> check = CompletenessCheck("integrated gradients", 0.05, "raise num_steps")
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     check(torch.tensor([[0.01, -0.5]]))
        ...     check(torch.tensor([[0.9, 0.0]]))
        >>> [str(warning.message) for warning in caught]
        ['the scores of integrated gradients miss completeness by up to 0.5 logits, more than 0.05: raise num_steps']
    """

    def __init__(self, method: str, tolerance: float | None, remedy: str) -> None:
        self.method = method
        self.tolerance = tolerance
        self.remedy = remedy
        self._warned = False

    def __call__(self, deltas: Tensor) -> None:
        """Warns if a completeness error is above the tolerance. `deltas` are errors, in logits, in any shape."""
        if self.tolerance is None or self._warned or not deltas.numel():
            return
        worst = float(deltas.abs().max())
        if worst > self.tolerance:
            self._warned = True
            warnings.warn(
                f"the scores of {self.method} miss completeness by up to {worst:.3g} logits, more than "
                f"{self.tolerance}: {self.remedy}",
                stacklevel=3,
            )
