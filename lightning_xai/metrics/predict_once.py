"""Predicts the probabilities of a batch for several metrics, and computes what they share only once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch import Tensor

from lightning_xai.functional.erasure.evaluate import ForVersions, Versions, for_versions_of
from lightning_xai.types import Predict, TextInputs


class PredictOnce:
    """Predicts probabilities for the metrics of one batch. Results that several metrics need are computed only once.

    These results are the probabilities of the unchanged inputs, and the values that metrics store in `memo`. All
    attribution methods share them, so values in `memo` must not depend on attributions.

    Args:
        predict: function that returns the probabilities of inputs.
        inputs: the unchanged inputs of the batch.
        decision_threshold: probability above which a multi-label class counts as predicted.
        pad_id: id of the padding token, which some kinds of erasure write into the text.

    Example:
        >>> import torch
        >>> batch_sizes = []
        >>> def predict(inputs, embed_mask=None):
        ...     batch_sizes.append(len(inputs))
        ...     return torch.ones(len(inputs), 1)
        >>> inputs = TextInputs.of_ids([[5, 6], [7, 8]])
        >>> once = PredictOnce(predict, inputs)
        >>> torch.equal(once(inputs), once(inputs)), batch_sizes
        (True, [2])
    """

    def __init__(
        self, predict: Predict, inputs: TextInputs, *, decision_threshold: float = 0.5, pad_id: int = 0
    ) -> None:
        self.predict = predict
        self.inputs = inputs
        self.decision_threshold = decision_threshold
        self.pad_id = pad_id
        self.probs: Tensor | None = None
        self.memo: dict[Hashable, Any] = {}

    def for_inputs(self, inputs: TextInputs) -> PredictOnce:
        """Returns this object if it was made for `inputs`. Otherwise returns a new one with the same settings."""
        if inputs is self.inputs:
            return self
        return PredictOnce(self.predict, inputs, decision_threshold=self.decision_threshold, pad_id=self.pad_id)

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns probabilities [B, C]; embeddings are zeroed where `embed_mask` [B, T] is False.

        Raises:
            ValueError: a probability is not finite. Metrics would mistake a NaN for an undefined value.
        """
        if inputs is not self.inputs or embed_mask is not None:
            return self._finite(self.predict(inputs, embed_mask))
        if self.probs is None:
            self.probs = self._finite(self.predict(inputs))
        return self.probs

    @property
    def for_versions(self) -> ForVersions | None:
        """The method `predict.for_versions`, with a check for finite results. None if `predict` has no such method."""
        if (entry := for_versions_of(self.predict)) is None:
            return None

        def finite(inputs: TextInputs, versions: Versions, classes: Tensor, **options: Any) -> Tensor | None:
            probs = entry(inputs, versions, classes, **options)
            return None if probs is None else self._finite(probs)

        return finite

    def _finite(self, probs: Tensor) -> Tensor:
        if not probs.isfinite().all():
            examples = [] if self.inputs.index is None else self.inputs.index.tolist()
            raise ValueError(
                f"probabilities are not finite for the examples with indices {examples} or their erased versions: "
                "check the network's weights for overflow, or evaluate in float32"
            )
        return probs
