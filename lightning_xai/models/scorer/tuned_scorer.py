"""A scorer whose weights are tuned for several texts at once, with separate weights for each text."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import functional_call

from lightning_xai.models.scorer.token_scorer import TokenScorer
from lightning_xai.models.scorer.tuned_rows import LowRankRows, StackedRows, TunedRows
from lightning_xai.types import TextInputs


def tuned_rows(scorer: TokenScorer, tuned: str, rows: int) -> TunedRows:
    """Returns copies of a scorer's weights, which can be tuned separately for each of `rows` texts.

    Args:
        scorer: the scorer.
        tuned: "all", "last:K" for the last K layers and the head, or "lora:R" for changes of rank R to the encoder's
            matrices.
        rows: number of texts.

    Raises:
        ValueError: `tuned` has another form, or K or R is out of range.

    Example:
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> scorer = TokenScorer(config={"model_type": "bert", "intermediate_size": 4} | sizes)
        >>> tuned_rows(scorer, "lora:1", rows=3).leaves[0].shape
        torch.Size([3, 4, 1])
    """
    if tuned.startswith("lora:") and tuned.removeprefix("lora:").isdigit():
        names = [name for name in scorer.trained_names() if name.startswith("encoder.")]
        return LowRankRows(scorer.reader, names, rows, rank=int(tuned.removeprefix("lora:")))
    return StackedRows(scorer.reader, scorer.trained_names(tuned), rows)


def row_logits(scorer: TokenScorer, inputs: TextInputs, y: Tensor, rows: TunedRows) -> Tensor:
    """Returns logits [B, T], computed for each text with the weights tuned for this text; 0 at padding.

    Args:
        scorer: the scorer, which supplies all weights that are not tuned.
        inputs: B texts with padding on the right.
        y: [B, C] predictions, as in `TokenScorer.forward`.
        rows: tuned weights of the scorer's reader for B texts.

    Example:
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> scorer = TokenScorer(config={"model_type": "bert", "intermediate_size": 4} | sizes).eval()
        >>> inputs, y = TextInputs.of_ids([[1, 5, 6, 2], [1, 7, 2]]), torch.eye(2)
        >>> logits = row_logits(scorer, inputs, y, tuned_rows(scorer, "all", rows=2))
        >>> torch.allclose(logits, scorer(inputs, y) * inputs.attention_mask, atol=1e-6)
        True
    """
    length = inputs.input_ids.shape[1]
    logits = []
    for row, weights in enumerate(rows.weights()):
        text = inputs[row : row + 1].trim()
        with torch.no_grad():  # the embeddings of the words and of the prediction `y` are not tuned
            arguments = scorer.reader_arguments(text, y[row : row + 1])
        scored = functional_call(scorer.reader, weights, kwargs=arguments)[0, :-1]
        logits.append(torch.nn.functional.pad(scored, (0, length - len(scored))))
    return torch.stack(logits)
