"""The inputs of a scorer (a network that scores tokens), and the tokens of the explained network that get the scores.

The scorer and the explained network may have different tokenizers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lightning_xai.functional.text.alignment import Pool, carry
from lightning_xai.types import TensorFields, TextInputs


@dataclass(frozen=True)
class ScorerInputs(TensorFields):
    """The inputs [B, S] of a scorer for B texts, and the tokens [B, T] of the explained network that get the scores.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])
        >>> ScorerInputs.same(inputs).keep(torch.zeros(1, 3)).tolist()
        [[0.5, 0.5, 0.5]]
        >>> letters = ScorerInputs(inputs, torch.tensor([[True]]), torch.tensor([[[0, 1]]]), "max")
        >>> letters.keep(torch.tensor([[0.0, 9.0, 0.0]]).mul(-1)).tolist()
        [[0.5]]
    """

    inputs: TextInputs  # [B, S], from the scorer's tokenizer
    token_mask: Tensor  # [B, T] bool, the tokens of the explained network that get a score
    # [B, T, W] long, for each token of the network, the positions of the scorer's tokens that overlap it, padded with
    # -1. None if the scorer has the same tokens as the network
    source_tokens: Tensor | None = None
    pool: Pool = "max"  # how the scores of the scorer's overlapping tokens become the score of the network's token
    # [B, T] bool, True at tokens of the network that get a score but overlap no token of the scorer. Each of them gets
    # the score of the scorer's nearest token
    nearest: Tensor | None = None

    @classmethod
    def same(cls, inputs: TextInputs) -> ScorerInputs:
        """Returns the inputs for a scorer that has the same tokens as the explained network."""
        return cls(inputs, inputs.token_mask)

    def keep(self, logits: Tensor) -> Tensor:
        """Returns the scorer's mask [B, T], with values in [0, 1], for the tokens of the explained network.

        Args:
            logits: [B, S], the scorer's output for its own tokens.
        """
        probs = logits.sigmoid()
        return probs if self.source_tokens is None else carry(probs, self.source_tokens, self.pool)

    def trim(self, length: int) -> ScorerInputs:
        """Returns the inputs for the first `length` tokens of the explained network."""
        if self.source_tokens is None:
            return ScorerInputs(self.inputs.trim(), self.token_mask[:, :length])
        nearest = None if self.nearest is None else self.nearest[:, :length]
        return ScorerInputs(
            self.inputs.trim(), self.token_mask[:, :length], self.source_tokens[:, :length], self.pool, nearest
        )

    @property
    def aligned_counts(self) -> dict[str, int]:
        """Token counts {"scored": ..., "nearest": ...} for the explained network; {} if `nearest` is None.

        "scored" counts the tokens that get a score. "nearest" counts the scored tokens that overlap no token of the
        scorer. Each of these tokens gets the score of the scorer's nearest token.
        """
        if self.nearest is None:
            return {}
        return {"scored": int(self.token_mask.sum()), "nearest": int(self.nearest.sum())}


def pad_source_tokens(source_tokens: list[Tensor], columns: list[Tensor], length: int) -> Tensor:
    """Combines the results of `overlaps` for B texts into one tensor [B, length, W], padded with -1.

    Args:
        source_tokens: B tensors [N, W], one per text, from `overlaps`. Each row belongs to one of the N tokens that get
            scores, and holds the positions of the scorer's tokens that overlap this token.
        columns: B tensors [N], the column of each of these N tokens in the result.
        length: number of columns in the result.

    Example:
        >>> pad_source_tokens([torch.tensor([[3], [4]])], [torch.tensor([0, 2])], 3).tolist()
        [[[3], [-1], [4]]]
    """
    width = max((part.shape[1] for part in source_tokens), default=1)
    padded = torch.full((len(source_tokens), length, width), -1, dtype=torch.long)
    for row, (part, positions) in enumerate(zip(source_tokens, columns, strict=True)):
        padded[row, positions, : part.shape[1]] = part
    return padded
