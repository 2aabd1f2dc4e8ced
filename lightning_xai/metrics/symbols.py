"""The share of tokens without an ASCII letter or digit, separately for all tokens, evidence tokens and top tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from lightning_xai.functional.scores.ranking import Ties, top_mask
from lightning_xai.functional.scores.signs import Sign, with_sign
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.evidence import evidence_cut_of, evidence_of
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.reads_symbols import ReadsSymbols
from lightning_xai.types import Attribution, Batch


class SymbolShare(ReadsSymbols, AttributionMetric):
    """Three shares of symbols in [0, 1]: among all tokens, among evidence tokens and among top tokens.

    A symbol is a token without an ASCII letter or digit. The share among all tokens counts each text once. The other
    two shares count a text once for each explained class. Special tokens of the tokenizer do not count.

    Args:
        k: number of top tokens of each row. A row is a text with one explained class.
        evidence_only: whether to skip rows whose class has no evidence in the text.
        ties: which of two tokens with equal scores ranks higher, the "first" or the "last" in the text.
        sign: sign of the scores that are ranked; `with_sign` describes the options.
        **kwargs: see AttributionMetric.

    Example:
        >>> from lightning_xai.types import TextInputs
        >>> inputs = TextInputs.of_ids([[5, 2, 6, 2]])
        >>> attribution = Attribution.of_scores([[[1.0, 4.0, 3.0, 2.0]]], inputs.token_mask)
        >>> metric = SymbolShare(k=3)
        >>> metric.take_symbols(torch.arange(9) == 2)
        >>> metric.update(attribution, Batch(inputs, torch.tensor([0])), predict=None)
        >>> values = metric.compute()  # no class has evidence here, so symbol_share/evidence is NaN
        >>> float(values["symbol_share/all"]), round(float(values["symbol_share/top_3"]), 4)
        (0.5, 0.6667)

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, section 5. The paper calls symbols "special tokens".
    """

    columns = ("symbols", "tokens", "evidence_symbols", "evidence_tokens", "top_symbols", "top_tokens")

    def __init__(
        self, *, k: int = 5, evidence_only: bool = False, ties: Ties = "first", sign: Sign = "absolute", **kwargs
    ) -> None:
        super().__init__(**kwargs)
        if k < 1:
            raise ValueError(f"k is {k}: give at least 1 token")
        self.k, self.evidence_only, self.ties, self.sign = k, evidence_only, ties, sign

    def measure(self, attribution: Attribution, batch: Batch, predict: PredictOnce) -> Tensor:
        evidence = evidence_of(attribution, batch)  # [B, K, T]
        rows = attribution.target_mask & attribution.token_mask.any(dim=1, keepdim=True)
        if self.evidence_only:
            rows = rows & evidence.any(dim=-1)
        symbols = self.symbols_of(batch.inputs).unsqueeze(1)  # [B, 1, T]
        tokens = attribution.token_mask.unsqueeze(1)
        scores = with_sign(attribution.scores.double(), self.sign)
        top = top_mask(scores, tokens.expand_as(evidence), torch.full_like(attribution.targets, self.k), ties=self.ties)
        # a row is a text with one explained class. The counts over all tokens of a text are divided equally among its
        # rows, so that the sum over rows counts each text once
        num_rows = rows.sum(dim=1, keepdim=True).clamp(min=1)
        counts = [
            (tokens & symbols).sum(dim=-1) / num_rows,
            tokens.sum(dim=-1) / num_rows,
            *((part & mask).sum(dim=-1) for part in (evidence, top) for mask in (symbols, tokens)),
        ]
        return torch.stack([count.double().expand(rows.shape) for count in counts], dim=-1).masked_fill(
            ~rows.unsqueeze(-1), torch.nan
        )

    def aggregate(self, records: Tensor) -> dict[str, Tensor]:
        sums = records.nansum(dim=0)
        return {name: sums[2 * i] / sums[2 * i + 1] for i, name in enumerate(("all", "evidence", f"top_{self.k}"))}

    def cut_rows(self, attribution: Attribution, batch: Batch) -> Tensor:
        return evidence_cut_of(attribution, batch) > 0 if self.evidence_only else super().cut_rows(attribution, batch)
