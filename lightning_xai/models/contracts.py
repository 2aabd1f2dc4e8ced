"""Checks, with two short random texts, that a classifier has the properties (contracts) on which attributions rely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lightning_xai.functional.network.modes import eager_attention, evaluation_mode
from lightning_xai.models.base import Classifier
from lightning_xai.types import TextInputs

# largest accepted change of a logit, as a fraction of (largest absolute logit + _FLOOR). Rounding errors of float32 are
# a hundred times smaller. _FLOOR keeps the accepted change above 0 if all logits are 0
TOLERANCE = 1e-4
_FLOOR = 1e-2
_LENGTHS = (7, 4)  # numbers of tokens in the two texts


def random_inputs(model: Classifier, lengths: Sequence[int]) -> TextInputs:
    """Returns texts of random token ids, padded on the right. The global random state does not change.

    Args:
        model: the classifier, whose vocabulary contains the ids. Tokens of the texts never have the pad id.
        lengths: number of tokens of each text.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> random_inputs(random_bert(), [3, 1]).input_ids.tolist()
        [[19, 14, 13], [5, 0, 0]]
    """
    device, vocabulary = model.embedding_matrix.device, model.embedding_matrix.shape[0]
    generator = torch.Generator().manual_seed(0)
    input_ids = torch.randint(min(5, vocabulary - 1), vocabulary, (len(lengths), max(lengths)), generator=generator)
    input_ids = torch.where(input_ids == model.pad_id, (input_ids + 1) % vocabulary, input_ids).to(device)
    mask = torch.arange(max(lengths), device=device) < torch.tensor(lengths, device=device).unsqueeze(1)
    input_ids = input_ids.masked_fill(~mask, model.pad_id)
    return TextInputs(
        input_ids=input_ids,
        attention_mask=mask,
        token_mask=mask,
        special_tokens_mask=~mask,
        baseline_ids=input_ids,
        token_type_ids=torch.zeros_like(input_ids),
    )


def contract_violations(model: Classifier, *, special_ids: Sequence[int] = (), segmented: bool = False) -> list[str]:
    """Returns one sentence, with the size of the error, for each contract that `model` breaks.

    A contract is a property on which attributions rely, for example that padding does not change the logits.
    The model's train and eval modes, its attention kernel and the global random state are the same afterwards.

    Args:
        model: classifier with attention between tokens.
        special_ids: ids of special tokens. Inside a text, the model must treat them like other tokens.
        segmented: whether the model divides texts into segments, so that attentions may have fewer columns than a text
            has tokens.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> contract_violations(random_bert(), special_ids=[1, 2])
        []
    """
    inputs = random_inputs(model, _LENGTHS)
    with evaluation_mode(model):
        violations = _changed_logits(model, inputs, special_ids)
        with eager_attention(model):
            violations += _unread_states(model, inputs)
            violations += _unusable_attentions(model, inputs, segmented=segmented)
    return violations


@torch.no_grad()
def _changed_logits(model: Classifier, inputs: TextInputs, special_ids: Sequence[int]) -> list[str]:
    """Changes the inputs in ways that must not change the logits, and returns a message for each way that does."""
    long, short = _LENGTHS
    padded, alone = inputs[1:], inputs[1:].trim()
    padded_left = padded.map(lambda tensor: tensor.roll(long - short, dims=1))
    other_padding = replace(
        inputs, input_ids=torch.where(inputs.attention_mask, inputs.input_ids, inputs.input_ids[:1])
    )
    ids = inputs.input_ids.clone()
    ids[:, 1 : long - 1] = torch.tensor([model.pad_id, *special_ids], device=ids.device).repeat(long)[: long - 2]
    special = replace(inputs, input_ids=ids)

    logits = model(inputs).logits
    pairs = {
        "logits from embeddings differ from logits from ids": (model(inputs, model.embed(inputs)).logits, logits),
        "padding on the right changes logits": (model(alone).logits, model(padded).logits),
        "padding on the left changes logits": (model(padded_left).logits, logits[1:]),
        "a neighbor in the batch changes logits": (model(padded).logits, logits[1:]),
        "ids at padding positions alter logits": (model(other_padding).logits, logits),
        "with the same embeddings, pad or special ids inside the text alter logits": (
            model(special).logits,
            model(inputs, model.embed(special)).logits,
        ),
    }
    tolerance = TOLERANCE * (float(logits.abs().max()) + _FLOOR)
    gaps = {message: float((changed - expected).abs().max()) for message, (changed, expected) in pairs.items()}
    # `not gap <= tolerance` is also True if the gap is NaN
    return [f"{message} by {gap:.2g}" for message, gap in gaps.items() if not gap <= tolerance]


@torch.enable_grad()
def _unread_states(model: Classifier, inputs: TextInputs) -> list[str]:
    """Returns a message if the head does not read the last hidden state, or reads tokens with weight 0 in the readout.

    The readout is a part of the model's output: the weights with which the head reads the tokens' hidden states.
    """
    output = model(inputs, model.embed(inputs).detach().requires_grad_(), output_hidden_states=True)
    assert output.hidden_states is not None
    class_weights = torch.arange(1.0, output.logits.shape[1] + 1, device=inputs.device)
    gradient: Tensor | None = torch.autograd.grad(
        (output.logits * class_weights).sum(), output.hidden_states[-1], allow_unused=True
    )[0]
    if gradient is None:
        return ["the head does not read the last hidden state"]
    share = gradient.norm(dim=-1)  # [B, T]
    share = share / share.sum(dim=1, keepdim=True).clamp(min=1e-30)
    unread = float((share * (output.readout.sum(dim=1) == 0)).sum(dim=1).max())
    return [f"{unread:.0%} of the head's gradient is at tokens with weight 0 in the readout"] if unread > 1e-6 else []


@torch.no_grad()
def _unusable_attentions(model: Classifier, inputs: TextInputs, *, segmented: bool) -> list[str]:
    """Returns a message if eager attentions have another shape than [B * N, H, S, S], or rows that do not sum to 1.

    Each text consists of N segments of S tokens. A model that does not divide texts has N = 1 and S = T.
    """
    attentions = model(inputs, output_attentions=True).attentions
    assert attentions is not None
    shapes = {tuple(attention.shape) for attention in attentions}
    square = all(len(shape) == 4 and shape[2] == shape[3] >= 1 for shape in shapes)
    if not square or (not segmented and {shape[2] for shape in shapes} != {inputs.input_ids.shape[1]}):
        return [f"attentions have shapes {sorted(shapes)}, not one row and one column for each token"]
    gap = max(float((attention.sum(dim=-1) - 1).abs().max()) for attention in attentions)
    return [f"sums of the attentions' rows differ from 1 by up to {gap:.2g}"] if gap > 1e-3 else []
