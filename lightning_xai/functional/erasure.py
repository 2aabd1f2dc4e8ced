"""Taking tokens away from inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from lightning_xai.types import TextInputs

Erasure = Literal["delete", "mask", "pad", "embed_zero"]


def erase(inputs: TextInputs, keep: Tensor, how: Erasure, *, pad_id: int = 0) -> tuple[TextInputs, Tensor | None]:
    """Returns inputs without the tokens outside `keep`, and the embed_mask [B, T] to predict with, if one is needed.

    Only tokens of `token_mask` are ever erased; special tokens and the order of the rest stay. `index` is carried.

    Args:
        inputs: the whole inputs.
        keep: [B, T] bool.
        how: "delete" moves the rest together and pads on the right; "mask" takes the fill token of `baseline_ids`;
            "pad" writes `pad_id` and leaves the attention mask as it was; "embed_zero" leaves the ids and asks for
            embeddings of zeros.
        pad_id: id of the padding token.

    Raises:
        ValueError: an unknown `how`.
    """
    erased = inputs.token_mask & ~keep
    if how == "delete":
        return _compact(inputs, inputs.attention_mask & ~erased, pad_id), None
    if how == "mask":
        return replace(inputs, input_ids=inputs.baseline_ids.where(erased, inputs.input_ids)), None
    if how == "pad":
        return replace(inputs, input_ids=inputs.input_ids.masked_fill(erased, pad_id)), None
    if how == "embed_zero":
        return inputs, ~erased
    raise ValueError(f"erasure is {how!r}: choose delete, mask, pad or embed_zero")


def _compact(inputs: TextInputs, retained: Tensor, pad_id: int) -> TextInputs:
    """Returns inputs of the retained tokens, moved to the left, as if the text had been encoded without the others."""
    order = (~retained).to(torch.uint8).argsort(dim=1, stable=True)
    places = torch.arange(retained.shape[1], device=retained.device)
    padding = places >= retained.sum(dim=1, keepdim=True)
    fill = {
        "input_ids": pad_id, "attention_mask": False, "token_mask": False, "special_tokens_mask": True,
        "baseline_ids": pad_id, "token_type_ids": 0, "word_ids": -1,
    }  # fmt: skip
    moved = {}
    for name, value in fill.items():
        tensor = getattr(inputs, name)
        if tensor is not None:
            moved[name] = tensor.gather(1, order).masked_fill(padding, value)
    return replace(inputs, **moved)
