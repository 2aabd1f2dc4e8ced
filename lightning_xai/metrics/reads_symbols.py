"""Mixin for metrics of symbols, which are tokens without an ASCII letter or digit, such as punctuation."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.types import TextInputs


class ReadsSymbols:
    """Mixin of metrics that need the mask of the token ids that are symbols. AttributionEvaluation supplies the mask.

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

    symbol_mask: Tensor | None = None  # [V] bool

    @property
    def needs_symbols(self) -> bool:
        """Whether the metric reads the mask; by default it does."""
        return True

    def take_symbols(self, symbol_mask: Tensor) -> None:
        """Takes the mask [V] bool of the encoder, True for ids whose vocabulary entry has no ASCII letter or digit."""
        self.symbol_mask = symbol_mask

    def symbols_of(self, inputs: TextInputs) -> Tensor:
        """Returns [B, T] bool: True at symbols. Padding counts as a symbol if its id does.

        Raises:
            ValueError: the mask was not given.
        """
        if self.symbol_mask is None:
            raise ValueError(
                f"{type(self).__name__} does not know which token ids are symbols: evaluate with a TextDataModule, or "
                "call take_symbols with the symbol_mask of the encoder"
            )
        return self.symbol_mask.to(inputs.device)[inputs.input_ids]
