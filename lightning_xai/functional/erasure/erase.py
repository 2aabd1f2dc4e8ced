"""Erases tokens of inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.types import TextInputs

Erasure = Literal["delete", "mask", "pad", "embed_zero"]


def erase(inputs: TextInputs, keep: Tensor, erasure: Erasure, *, pad_id: int = 0) -> tuple[TextInputs, Tensor | None]:
    """Returns the inputs with tokens outside `keep` erased, and an embed_mask [B, T] for "embed_zero" (else None).

    Only tokens inside `token_mask` can be erased, so special tokens stay. The remaining tokens keep their order.

    Args:
        inputs: the unerased inputs.
        keep: [B, T] bool, True where a token stays.
        erasure: "delete" removes tokens, closes the gaps and pads on the right. "mask" replaces a token by the fill
            token in `baseline_ids`. "pad" replaces a token by `pad_id` and leaves the attention mask unchanged.
            "embed_zero" leaves the ids unchanged; the embed_mask is False where embeddings must be set to zero.
        pad_id: id of the padding token.

    Raises:
        ValueError: `erasure` is not "delete", "mask", "pad" or "embed_zero".

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> keep = torch.tensor([[False, False, True]])  # the special token is never erased
        >>> erase(inputs, keep, "delete")[0].input_ids, erase(inputs, keep, "mask")[0].input_ids
        (tensor([[1, 6, 0]]), tensor([[1, 0, 6]]))
        >>> erase(inputs, keep, "embed_zero")[1]
        tensor([[ True, False,  True]])
    """
    erased = inputs.token_mask & ~keep
    if erasure == "delete":
        return _compact(inputs, inputs.attention_mask & ~erased, pad_id), None
    if erasure == "mask":
        return replace(inputs, input_ids=inputs.baseline_ids.where(erased, inputs.input_ids)), None
    if erasure == "pad":
        return replace(inputs, input_ids=inputs.input_ids.masked_fill(erased, pad_id)), None
    if erasure == "embed_zero":
        return inputs, ~erased
    raise ValueError(f"erasure is {erasure!r}: choose delete, mask, pad or embed_zero")


def _compact(inputs: TextInputs, retained: Tensor, pad_id: int) -> TextInputs:
    """Returns the inputs with only the retained tokens, moved to the left, as if the texts had no other tokens."""
    order = (~retained).to(torch.uint8).argsort(dim=1, stable=True)
    places = torch.arange(retained.shape[1], device=retained.device)
    padding = places >= retained.sum(dim=1, keepdim=True)
    fill = {
        "input_ids": pad_id, "attention_mask": False, "token_mask": False, "special_tokens_mask": True,
        "baseline_ids": pad_id, "token_type_ids": 0, "word_ids": -1, "prompt_mask": False,
    }  # fmt: skip
    moved = {}
    for name, value in fill.items():
        tensor = getattr(inputs, name)
        if tensor is not None:
            moved[name] = tensor.gather(1, order).masked_fill(padding, value)
    return replace(inputs, **moved)
