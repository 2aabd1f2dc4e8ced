"""The contracts on which attributions rest, checked on a network with two short random texts."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from lightning_xai.functional.modes import eager_attention, evaluation_mode
from lightning_xai.types import TextInputs

TOLERANCE = 1e-4  # of the largest logit plus the floor below; float32 noise stays two orders under it
_FLOOR = 1e-2


def random_text(model: nn.Module, lengths: list[int]) -> TextInputs:
    """Returns rows of random ids, none of them the pad id, padded on the right; the global RNG stays untouched.

    Args:
        model: a classifier; its `embedding_matrix` gives the vocabulary, its `pad_id` the padding.
        lengths: number of tokens of each row.
    """
    device, vocabulary = model.embedding_matrix.device, model.embedding_matrix.shape[0]
    generator = torch.Generator().manual_seed(0)
    input_ids = torch.randint(min(5, vocabulary - 1), vocabulary, (len(lengths), max(lengths)), generator=generator)
    input_ids = torch.where(input_ids == model.pad_id, (input_ids + 1) % vocabulary, input_ids).to(device)
    mask = torch.arange(max(lengths), device=device) < torch.tensor(lengths, device=device).unsqueeze(1)
    input_ids = input_ids.masked_fill(~mask, model.pad_id)
    return TextInputs(input_ids, mask, mask, ~mask, input_ids, torch.zeros_like(input_ids))


def _roll(inputs: TextInputs, columns: int) -> TextInputs:
    return inputs.map(lambda tensor: tensor.roll(columns, dims=1))


def contract_violations(model: nn.Module) -> list[str]:
    """Returns what `model` breaks of the contracts of a classifier, each with a number; [] if nothing.

    The model's modes, attention kernel and the RNG are as before afterwards.

    Args:
        model: a classifier with `embed`, `embedding_matrix`, `pad_id`, `special_ids` and `set_attention`.
    """
    long, short = 7, 4
    both = random_text(model, [long, short])
    alone = both[1:].trim()
    at_padding = torch.where(both.attention_mask, both.input_ids, both.input_ids[:1])
    special_ids = torch.tensor([model.pad_id, *model.special_ids], device=both.device)
    erased = both.input_ids.clone()
    erased[:, 1 : long - 1] = special_ids.repeat(long)[: long - 2]
    erased = replace(both, input_ids=erased)

    found = []
    with evaluation_mode(model):
        with torch.no_grad():
            logits = model(both).logits
            row = logits[1:]
            pairs = {
                "logits from embeddings differ from logits from ids": (model(both, model.embed(both)).logits, logits),
                "padding on the right changes logits": (model(alone).logits, model(both[1:]).logits),
                "padding on the left changes logits": (model(_roll(both[1:], long - short)).logits, row),
                "a neighbor in the batch changes logits": (model(both[1:]).logits, row),
                "ids at padding change logits": (model(replace(both, input_ids=at_padding)).logits, logits),
                "pad or special ids inside the text do more than their embeddings": (
                    model(erased).logits,
                    model(both, model.embed(erased)).logits,
                ),
            }  # fmt: skip
        scale = TOLERANCE * (float(logits.abs().max()) + _FLOOR)
        for message, (one, other) in pairs.items():
            gap = float((one - other).abs().max())
            if not gap <= scale:
                found.append(f"{message} by {gap:.2g}")
        with eager_attention(model):
            found += _unread_states(model, both)
            found += _unusable_attentions(model, both)
    return found


def _unread_states(model: nn.Module, inputs: TextInputs) -> list[str]:
    """Returns a message if logits depend on other tokens' last states than the readout says."""
    with torch.enable_grad():
        output = model(inputs, model.embed(inputs).detach().requires_grad_(), output_hidden_states=True)
        last = output.hidden_states[-1]
        weights = torch.arange(1.0, output.logits.shape[1] + 1, device=inputs.device)
        gradient: Tensor | None = torch.autograd.grad((output.logits * weights).sum(), last, allow_unused=True)[0]
    if gradient is None:
        return ["the last hidden state is not what the head reads"]
    share = gradient.norm(dim=-1)  # [B, T]
    share = share / share.sum(dim=1, keepdim=True).clamp(min=1e-30)
    unread = float((share * (output.readout.sum(dim=1) == 0)).sum(dim=1).max())
    return [f"the head reads {unread:.0%} from other tokens than its pooling says"] if unread > 1e-6 else []


@torch.no_grad()
def _unusable_attentions(model: nn.Module, inputs: TextInputs) -> list[str]:
    """Returns a message if eager attentions are missing or not [B * N, H, S, S]."""
    attentions = model(inputs, output_attentions=True).attentions
    shapes = {tuple(attention.shape) for attention in attentions}
    square = all(len(shape) == 4 and shape[2] == shape[3] >= 1 for shape in shapes)
    if not square or (
        getattr(model, "segment_length", None) is None and {s[2] for s in shapes} != {inputs.input_ids.shape[1]}
    ):
        return [f"attentions have shapes {sorted(shapes)}, not one row and column for each token"]
    gap = max(float((attention.sum(dim=-1) - 1).abs().max()) for attention in attentions)
    return [f"rows of attentions miss 1 by {gap:.2g}"] if gap > 1e-3 else []
