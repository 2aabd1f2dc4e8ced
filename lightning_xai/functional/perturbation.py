"""Evaluating texts without some of their tokens: one engine for attribution methods and erasure metrics."""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor

from lightning_xai.functional.chunking import packed_rows
from lightning_xai.functional.duplicates import distinct_rows
from lightning_xai.functional.erasure import Erasure, erase
from lightning_xai.functional.gradients import EmbeddingModel
from lightning_xai.types import Predict, TextInputs

Output = Literal["logit", "probability"]


class Evaluate(Protocol):
    """A function of erased inputs, such as a network's logits or a metric's `Predict`."""

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns [B, C]; embeddings are zeroed where `embed_mask` [B, T] is False."""
        ...


class ExplainedModel(EmbeddingModel, Protocol):
    """The part of a classifier that perturbations need."""

    def probabilities(self, logits: Tensor) -> Tensor: ...


def logits_of(model: EmbeddingModel) -> Evaluate:
    """Returns the function that gives the logits [B, C] of erased inputs."""

    def evaluate(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        embeds = None if embed_mask is None else model.embed(inputs) * embed_mask.unsqueeze(-1)
        return model(inputs, embeds).logits

    return evaluate


def outputs_of(model: ExplainedModel, output: Output) -> Evaluate:
    """Returns the function that gives the logits or the probabilities [B, C] of erased inputs."""
    logits = logits_of(model)
    if output == "logit":
        return logits
    return lambda inputs, embed_mask=None: model.probabilities(logits(inputs, embed_mask))


@torch.no_grad()
def perturbed_outputs(
    evaluate: Evaluate,
    inputs: TextInputs,
    example: Tensor,
    keep: Tensor,
    *,
    how: Erasure,
    pad_id: int = 0,
    chunk_size: int | None = None,
) -> Tensor:
    """Returns the outputs [R, C] of R versions of texts, evaluating every distinct version once, without a gradient.

    Versions of all examples share forward passes with others of similar length, so that deletion saves what it
    deletes. Outputs are on the device of `evaluate`'s; without a version they are [0, 0].

    Args:
        evaluate: the function of erased inputs; it also gets the examples' `index`, whatever that holds.
        inputs: B whole inputs.
        example: [R] long, the example of each version.
        keep: [R, T] bool, what is left of it; tokens outside `token_mask` stay in any case.
        how: see `erase`.
        pad_id: see `erase`.
        chunk_size: most versions in one forward pass, see `rows_per_forward`; results do not depend on it.
    """
    example, keep = example.cpu(), keep.cpu()
    erased = inputs.token_mask.cpu()[example] & ~keep
    # the example's number, in bits, keeps equal masks of different examples apart
    bits = (example.unsqueeze(1) >> torch.arange(32)) & 1
    distinct, inverse = distinct_rows(torch.cat([bits.bool(), erased], dim=1))
    example, erased = example[distinct], erased[distinct]
    lengths = inputs.attention_mask.cpu().sum(dim=1)[example]
    if how == "delete":
        lengths = lengths - erased.sum(dim=1)
    outputs = None
    longest_first = lengths.argsort(descending=True, stable=True)
    for some in packed_rows(lengths[longest_first], chunk_size, inputs.device, differentiated=False):
        rows = longest_first[some]
        copies = inputs[example[rows].to(inputs.device)]
        shortened, embed_mask = erase(copies, ~erased[rows].to(inputs.device), how, pad_id=pad_id)
        shortened = shortened.trim()
        if embed_mask is not None:
            embed_mask = embed_mask[:, : shortened.input_ids.shape[1]]
        values = evaluate(shortened, embed_mask)
        if outputs is None:
            outputs = values.new_zeros(len(distinct), values.shape[1])
        outputs[rows.to(outputs.device)] = values
    return torch.zeros(0, 0) if outputs is None else outputs[inverse.to(outputs.device)]


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
    source, classes = (values.repeat_interleave(num_versions) for values in (example, targets))
    probs = whole[source, classes].double()
    changed = flat.any(dim=1).nonzero().flatten()
    if len(changed):
        outputs = perturbed_outputs(predict, inputs, source[changed], ~flat[changed], how=how, pad_id=pad_id)
        probs[changed] = outputs.cpu().gather(1, classes[changed].unsqueeze(1)).squeeze(1).double()
    return probs.view(-1, num_versions)


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
    first, inverse = distinct_rows(torch.stack(distinguishing, dim=1))

    def of_zeros(shortened: TextInputs, _: Tensor | None = None) -> Tensor:
        return predict(shortened, torch.zeros_like(shortened.attention_mask))

    probs = perturbed_outputs(of_zeros, inputs, source[first], ~flat[first], how=how, pad_id=pad_id).cpu()
    return probs[inverse, targets.repeat_interleave(num_versions)].double().view(-1, num_versions)
