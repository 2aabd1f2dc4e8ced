"""Counts the texts whose predicted classes in the run's precision differ from those in float32."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from lightning_xai.functional.classes.targets import predicted_classes


class ChangedClasses:
    """Compares the classes predicted in the run's precision and in float32, for each split and example.

    Under mixed precision, the classification table is computed in the run's precision. Explanations, the choice of
    explained classes, and attribution metrics use float32.

    Example:
        >>> import torch
        >>> changed, index = ChangedClasses(), torch.tensor([3, 4])
        >>> mixed, full = torch.tensor([[0.5, 0.5], [0.2, 0.8]]), torch.tensor([[0.499, 0.501], [0.2, 0.8]])
        >>> changed.add("test", index, mixed, full, multilabel=False, decision_threshold=0.5)
        >>> print(*ChangedClasses.total([changed, changed]).lines("bf16-mixed"))  # each example counts once
        test: for 1 of 2 explained texts, the predicted classes differ between float32 (for explanations) and bf1...
    """

    def __init__(self) -> None:
        # split -> index of the example -> whether the classes predicted in the two precisions differ
        self._differs: dict[str, dict[int, bool]] = {}

    def add(
        self,
        split: str,
        index: Tensor,
        run_probs: Tensor,
        exact_probs: Tensor,
        *,
        multilabel: bool,
        decision_threshold: float,
    ) -> None:
        """Compares the predicted classes of B examples.

        Args:
            split: the split of the examples.
            index: [B] long, index of each example in the split.
            run_probs: [B, C] probabilities in the run's precision.
            exact_probs: [B, C] probabilities in float32.
            multilabel: whether an example may have any number of classes.
            decision_threshold: probability above which a multi-label class counts as predicted.
        """
        in_run, exact = (
            predicted_classes(probs, multilabel=multilabel, decision_threshold=decision_threshold)
            for probs in (run_probs, exact_probs)
        )
        differs = (in_run != exact).any(dim=1)
        self._differs.setdefault(split, {}).update(zip(index.tolist(), differs.tolist(), strict=True))

    @classmethod
    def total(cls, parts: Iterable[ChangedClasses]) -> ChangedClasses:
        """Merges the comparisons of all processes. An example that several processes compared counts once."""
        total = cls()
        for part in parts:
            for split, differs in part._differs.items():
                total._differs.setdefault(split, {}).update(differs)
        return total

    def lines(self, precision: str) -> list[str]:
        """Returns a message for each split in which predicted classes differ. `precision` is the run's precision."""
        return [
            f"{split}: for {number} of {len(differs)} explained texts, the predicted classes differ between float32 "
            f"(for explanations) and {precision} (for the classification table)"
            for split, differs in self._differs.items()
            if (number := sum(differs.values()))
        ]
