"""Human rationales beside the classes that are explained."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lightning_xai.functional.targets import gold_pairs
from lightning_xai.types import Attribution

Match = Literal["class", "gold", "any"]


def align_rationale(rationale: Attribution, targets: Tensor, labels: Tensor, *, match: Match = "class") -> Tensor:
    """Returns the evidence [B, K, T] bool for each of `targets` [B, K]; a row without any is all False.

    Rationales and targets are matched by class id, for their orders differ.

    Args:
        rationale: scores [B, K', T] in [0, 1]; from 0.5 on a token is evidence.
        targets: explained classes.
        labels: [B] or [B, C], gold.
        match: "class" takes the rationale of the explained class, "gold" those of the example's gold classes whatever
            is explained, "any" all of the example's.
    """
    marked = (rationale.scores >= 0.5) & rationale.target_mask.unsqueeze(-1)  # [B, K', T]
    if match == "class":
        matches = targets.unsqueeze(-1) == rationale.targets.unsqueeze(1)  # [B, K, K']
        return torch.einsum("bkr,brt->bkt", matches.double(), marked.double()) > 0
    if match == "gold":
        marked = marked & gold_pairs(labels, rationale.targets).unsqueeze(-1)
    return marked.any(dim=1, keepdim=True).expand(-1, targets.shape[1], -1)
