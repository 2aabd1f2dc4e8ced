"""Finds the human rationales that belong to the explained classes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.classes.targets import gold_pairs
from lightning_xai.types import Attribution

Match = Literal["class", "gold", "any"]


def align_rationale(rationale: Attribution, targets: Tensor, labels: Tensor, *, match: Match = "class") -> Tensor:
    """Returns [B, K, T] bool: True at the evidence tokens for each class in `targets` [B, K].

    Rationales and targets may list classes in different orders, so they are matched by class id.

    Args:
        rationale: human scores [B, K', T] in [0, 1] for K' classes. A token with a score of at least 0.5 is evidence.
        targets: [B, K] long, the explained classes.
        labels: the gold classes, [B] long, or [B, C] if multi-label.
        match: which rationales count as evidence for an explained class. "class" takes the rationales for this class,
            "gold" takes those for the example's gold classes, and "any" takes all rationales of the example.

    Example:
        >>> mask = torch.ones(1, 3, dtype=torch.bool)
        >>> rationale = Attribution.of_scores([[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]], mask)  # for classes 0 and 1
        >>> align_rationale(rationale, torch.tensor([[1]]), torch.tensor([0])).tolist()
        [[[False, False, True]]]
        >>> align_rationale(rationale, torch.tensor([[1]]), torch.tensor([0]), match="gold").tolist()
        [[[True, False, False]]]
    """
    marked = (rationale.scores >= 0.5) & rationale.target_mask.unsqueeze(-1)  # [B, K', T]
    if match == "class":
        matches = targets.unsqueeze(-1) == rationale.targets.unsqueeze(1)  # [B, K, K']
        return torch.einsum("bkr,brt->bkt", matches.double(), marked.double()) > 0
    if match == "gold":
        marked = marked & gold_pairs(labels, rationale.targets).unsqueeze(-1)
    return marked.any(dim=1, keepdim=True).expand(-1, targets.shape[1], -1)
