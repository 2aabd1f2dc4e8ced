"""Mixin for metrics that deal with symbol tokens: tokens without an ASCII letter or digit, such as punctuation."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.types import TextInputs


class ReadsSymbols:
    """Mixin for metrics that must know which tokens are symbols (tokens without an ASCII letter or digit).

    AttributionEvaluation supplies a mask over the token ids, see `take_symbols`.

    Example:
        >>> import torch
        >>> class Count(ReadsSymbols):
        ...     def __call__(self, inputs):
        ...         return self.symbols_of(inputs).sum(dim=1)
        >>> count = Count()
        >>> count.take_symbols(torch.tensor([False, False, True]))
        >>> count(TextInputs.of_ids([[2, 1, 2]])).tolist()
        [2]
    """

    symbol_mask: Tensor | None = None  # [V] bool, True for the ids of symbols

    @property
    def needs_symbols(self) -> bool:
        """Whether the metric must know which tokens are symbols; True by default."""
        return True

    def take_symbols(self, symbol_mask: Tensor) -> None:
        """Stores the encoder's mask [V] bool: True for ids whose vocabulary entry has no ASCII letter or digit."""
        self.symbol_mask = symbol_mask

    def symbols_of(self, inputs: TextInputs) -> Tensor:
        """Returns [B, T] bool: True at tokens without an ASCII letter or digit.

        Padding is included if the vocabulary entry of the padding id has no ASCII letter or digit.

        Raises:
            ValueError: `take_symbols` was not called.
        """
        if self.symbol_mask is None:
            raise ValueError(
                f"{type(self).__name__} does not know which token ids are symbols: evaluate with a TextDataModule, or "
                "call take_symbols with the symbol_mask of the encoder"
            )
        return self.symbol_mask.to(inputs.device)[inputs.input_ids]
