"""Scores that an earlier run stored."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.models.base import Classifier
from lightning_xai.runs.store import RaggedStore
from lightning_xai.types import Passes, TextInputs


def stored_scores(store: RaggedStore, inputs: TextInputs, targets: Tensor) -> Tensor:
    """Returns stored scores [B, K, T] of the rows' real tokens.

    Raises:
        ValueError: an example and class are not stored, their length is another, or `inputs.index` is None.
    """
    if inputs.index is None:
        raise ValueError("inputs.index is None: stored scores are found by it, so set it to the rows of the split")
    mask = inputs.attention_mask.cpu()
    scores = torch.zeros(*targets.shape, mask.shape[1])
    for row, (index, classes) in enumerate(zip(inputs.index.tolist(), targets.tolist(), strict=True)):
        length = int(mask[row].sum())
        for column, target in enumerate(classes):
            try:
                values = torch.tensor(store.get(index, target))  # a copy: the memory map is read-only
            except KeyError:
                raise ValueError(
                    f"no scores are stored for example {index} and class {target}: write the cache with the same split "
                    "and targets"
                ) from None
            if len(values) != length:
                raise ValueError(
                    f"example {index} has {length} tokens, but {len(values)} scores are stored for class {target}: "
                    "write the cache with the same tokenizer and max_length"
                )
            scores[row, column, mask[row]] = values
    return scores.to(inputs.device)


class Cached(AttributionMethod):
    """Scores tokens by what an earlier run stored for the same split, without a pass through the network.

    Args:
        path: folder of a store of token scores, keyed by example and class; "{split}" in it stands for the name of the
            split that is evaluated, as in "runs/tm/seed0/attributions/{split}/att_in_grad".

    Raises:
        ValueError: there is no store, it holds another split's scores, or it lacks an example.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.split: str | None = None  # set by the callback
        self._stores: dict[str, RaggedStore] = {}
        if "{split}" not in path:
            self._stores[path] = RaggedStore(path)

    @property
    def store(self) -> RaggedStore:
        """The store of the current split."""
        path = self.path if self.split is None else self.path.replace("{split}", self.split)
        if path not in self._stores:
            self._stores[path] = RaggedStore(path)
        found = self._stores[path].metadata.get("split", self.split)
        if self.split is not None and found != self.split:
            raise ValueError(
                f"{path} has scores of split {found!r}, not of {self.split!r}: write {{split}} in the path"
            )
        return self._stores[path]

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        return stored_scores(self.store, inputs, targets)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=0, backward=0)
