"""Chooses the classes that are explained for each example."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

TargetPolicy = Literal["gold", "predicted", "gold_or_predicted", "all", "topk"]


def predicted_classes(probs: Tensor, *, multilabel: bool, decision_threshold: float = 0.5) -> Tensor:
    """Returns [B, C] bool, True at the predicted classes of each example.

    For single-label data, this is the most probable class. For multi-label data, these are all classes whose
    probability is above `decision_threshold`.

    Example:
        >>> probs = torch.tensor([[0.6, 0.9]])
        >>> predicted_classes(probs, multilabel=False), predicted_classes(probs, multilabel=True)
        (tensor([[False,  True]]), tensor([[True, True]]))
    """
    if multilabel:
        return probs > decision_threshold
    return torch.zeros_like(probs, dtype=torch.bool).scatter(1, probs.argmax(dim=1, keepdim=True), True)


def gold_classes(labels: Tensor, num_classes: int) -> Tensor:
    """Returns [B, C] bool, True at the gold classes of each example.

    `labels` are [B] long, or [B, C] if multi-label.

    Example:
        >>> gold_classes(torch.tensor([1]), 2), gold_classes(torch.tensor([[1.0, 0.0]]), 2)
        (tensor([[False,  True]]), tensor([[ True, False]]))
    """
    if labels.dim() == 1:
        return torch.nn.functional.one_hot(labels, num_classes).bool()
    return labels > 0.5


def gold_pairs(labels: Tensor, targets: Tensor) -> Tensor:
    """Returns [B, K] bool, True where the class in `targets` [B, K] is a gold class of the example.

    `labels` are [B] long, or [B, C] if multi-label.

    Example:
        >>> gold_pairs(torch.tensor([2]), torch.tensor([[2, 0]]))
        tensor([[ True, False]])
    """
    if labels.dim() == 1:
        return targets == labels.unsqueeze(1)
    return labels.gather(1, targets) > 0.5


def select_targets(
    policy: TargetPolicy, probs: Tensor, labels: Tensor, decision_threshold: float = 0.5, topk: int = 1
) -> tuple[Tensor, Tensor]:
    """Returns the classes to explain: targets [B, K] long, and target_mask [B, K] bool, which is False at padding.

    K is the largest number of classes chosen for an example, and at least 1. Rows with fewer classes are padded with 0.
    The classes of an example are sorted by id, except that "topk" sorts them by descending probability.

    Args:
        policy: which classes are chosen: "gold", "predicted", "gold_or_predicted" (the union), "all", or "topk" for the
            `topk` most probable classes.
        probs: [B, C] probabilities.
        labels: [B] long, or [B, C] if multi-label.
        decision_threshold: probability above which a multi-label class counts as predicted.
        topk: number of classes for "topk".

    Raises:
        ValueError: `policy` is unknown, or `topk` is outside 1..C.

    Example:
        >>> probs, labels = torch.tensor([[0.1, 0.7, 0.2]]), torch.tensor([2])
        >>> select_targets("gold_or_predicted", probs, labels)
        (tensor([[1, 2]]), tensor([[True, True]]))
    """
    num_classes = probs.shape[1]
    if policy == "topk":
        if not 1 <= topk <= num_classes:
            raise ValueError(f"topk is {topk}: give a number from 1 to {num_classes}, the model's number of classes")
        targets = probs.argsort(dim=1, descending=True, stable=True)[:, :topk]
        return targets, torch.ones_like(targets, dtype=torch.bool)
    if policy == "all":
        chosen = torch.ones_like(probs, dtype=torch.bool)
    elif policy == "gold":
        chosen = gold_classes(labels, num_classes)
    elif policy in ("predicted", "gold_or_predicted"):
        chosen = predicted_classes(probs, multilabel=labels.dim() == 2, decision_threshold=decision_threshold)
        if policy == "gold_or_predicted":
            chosen = chosen | gold_classes(labels, num_classes)
    else:
        raise ValueError(f"policy is {policy!r}: choose gold, predicted, gold_or_predicted, all or topk")
    width = max(int(chosen.sum(dim=1).max()), 1) if len(chosen) else 1
    targets = chosen.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :width]
    target_mask = chosen.gather(1, targets)
    return targets.masked_fill(~target_mask, 0), target_mask


def gold_targets(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the ids [B, K] long of the gold classes, and target_mask [B, K] bool, which is False at padding.

    K is the largest number of gold classes of an example, and at least 1. Rows with fewer classes are padded with 0.

    `labels` are [B] long, or [B, C] if multi-label.

    Example:
        >>> gold_targets(torch.tensor([1, 0]))
        (tensor([[1],
                [0]]), tensor([[True],
                [True]]))
    """
    if labels.dim() == 1:
        return labels.unsqueeze(1), torch.ones_like(labels, dtype=torch.bool).unsqueeze(1)
    return select_targets("gold", labels, labels)
