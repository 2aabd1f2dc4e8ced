"""Taking tokens away from inputs, and predicting what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lightning_xai.types import Predict, TextInputs

Erasure = Literal["delete", "mask", "pad", "embed_zero"]

_INPUT_ELEMENTS = 2**20  # tokens of erased inputs held at once


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


def distinct_rows(masks: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the places [U] of the distinct rows of masks [R, T], and the place [R] of each row among these."""
    packed = np.ascontiguousarray(np.packbits(masks.cpu().numpy(), axis=1))
    rows = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return torch.from_numpy(first), torch.from_numpy(inverse.reshape(-1))


def predict_erased(
    predict: Predict,
    inputs: TextInputs,
    example: Tensor,
    erased: Tensor,
    targets: Tensor,
    whole: Tensor,
    *,
    how: Erasure,
    pad_id: int = 0,
) -> Tensor:
    """Returns probabilities [R, J] in float64 of R rows, each in J versions, predicting every distinct version once.

    Args:
        predict: the model.
        inputs: B whole inputs.
        example: [R] the example of each row, on the CPU like all that follows.
        erased: [R, J, T] bool, the tokens that each version lacks.
        targets: [R] the class of each row.
        whole: [B, C] probabilities of the whole inputs, the answer for versions that lack nothing.
        how: see `erase`.
        pad_id: see `erase`.
    """
    num_versions, num_tokens = erased.shape[1:]
    flat = erased.reshape(-1, num_tokens)
    source = example.repeat_interleave(num_versions)
    # the example's number, in bits, keeps equal masks of different examples apart
    bits = (source.unsqueeze(1) >> torch.arange(32)) & 1
    distinct, inverse = distinct_rows(torch.cat([bits.bool(), flat], dim=1))
    source, flat = source[distinct], flat[distinct]
    probs = whole[source].clone()
    changed = flat.any(dim=1).nonzero().flatten()
    # similar lengths side by side: what deletion leaves of a text is then not padded to its whole length
    lengths = inputs.attention_mask.cpu().sum(dim=1)[source] - flat.sum(dim=1)
    changed = changed[lengths[changed].argsort(descending=True, stable=True)]
    # an empty tensor splits into one empty part, and a batch of no example breaks many networks
    for rows in changed.split(max(64, _INPUT_ELEMENTS // num_tokens)) if len(changed) else ():
        copies = inputs[source[rows].to(inputs.device)]
        shortened, embed_mask = erase(copies, ~flat[rows].to(inputs.device), how, pad_id=pad_id)
        probs[rows] = predict(shortened, embed_mask).to(probs)
    return _of_targets(probs, inverse, targets, num_versions)


def predict_zeros(
    predict: Predict,
    inputs: TextInputs,
    example: Tensor,
    erased: Tensor,
    targets: Tensor,
    *,
    how: Erasure,
    pad_id: int = 0,
) -> Tensor:
    """Returns probabilities [R, J] in float64 of embeddings of zeros, as many as each version has tokens.

    Arguments as in `predict_erased`.
    """
    num_versions, num_tokens = erased.shape[1:]
    flat = erased.reshape(-1, num_tokens)
    source = example.repeat_interleave(num_versions)
    lengths = inputs.attention_mask.cpu().sum(dim=1)[source]
    if how == "delete":
        lengths = lengths - flat.sum(dim=1)
    distinguishing = [source, lengths]
    if how == "delete" and inputs.token_type_ids is not None:
        # types are not zeroed with the words: what is left of each text of a pair shows
        in_pair = inputs.token_type_ids.cpu() > 0
        distinguishing.append((flat & in_pair[source]).sum(dim=1))
    distinct, inverse = torch.stack(distinguishing, dim=1).unique(dim=0, return_inverse=True)
    places = torch.arange(len(inverse))
    first = torch.full((len(distinct),), len(inverse)).scatter_reduce(0, inverse, places, "amin")
    probs = []
    for rows in first.split(max(64, _INPUT_ELEMENTS // num_tokens)):
        copies = inputs[source[rows].to(inputs.device)]
        shortened, _ = erase(copies, ~flat[rows].to(inputs.device), how, pad_id=pad_id)
        probs.append(predict(shortened, torch.zeros_like(shortened.attention_mask)).cpu())
    return _of_targets(torch.cat(probs), inverse, targets, num_versions)


def _of_targets(probs: Tensor, inverse: Tensor, targets: Tensor, num_versions: int) -> Tensor:
    """Returns [R, J] in float64 from probabilities [U, C] of distinct versions and each version's place [R * J]."""
    classes = targets.repeat_interleave(num_versions)
    return probs[inverse, classes].double().view(-1, num_versions)
