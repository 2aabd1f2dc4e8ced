"""Checks of the scores that a method returns, so that a fault of the method is found where it happens."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.functional.own_parts import require_type


def require_shape(method: str, scores: Tensor, shape: tuple[int, ...]) -> None:
    """Raises ValueError if `scores` does not have `shape`, because broadcasting could hide a wrong shape later.

    Example:
        >>> import torch
        >>> require_shape("Gradient", torch.zeros(1, 2), (1, 1, 2))
        Traceback (most recent call last):
        ValueError: Gradient.scores returned shape [1, 2], but [B, K, T] is [1, 1, 2]: return one score for each ...
    """
    require_type(scores, Tensor, f"{method}.scores", "return a tensor [B, K, T]")
    if scores.shape != shape:
        raise ValueError(
            f"{method}.scores returned shape {list(scores.shape)}, but [B, K, T] is {list(shape)}: return one score "
            "for each example, class and token"
        )


def require_finite(method: str, scores: Tensor, index: Tensor | None) -> None:
    """Raises ValueError, with the indices of the examples, if a score [B, K, T] is not finite.

    Args:
        method: name of the method's class, for the message.
        scores: the scores.
        index: [B], the examples' rows in their split. None numbers the examples by their rows in `scores`.

    Example:
        >>> import torch
        >>> require_finite("Gradient", torch.tensor([[[0.5]], [[torch.nan]]]), None)
        Traceback (most recent call last):
        ValueError: Gradient gave non-finite scores for the examples with indices [1]: check whether the model's ...
    """
    finite = scores.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        rows = (~finite).nonzero().flatten()
        indices = rows if index is None else index[rows]
        raise ValueError(
            f"{method} gave non-finite scores for the examples with indices {indices.tolist()}: check whether the "
            "model's weights overflow, or load the model in float32"
        )
