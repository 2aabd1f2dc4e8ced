"""Evaluates texts without some of their tokens, for attribution methods and for erasure metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.erasure.duplicates import distinct_rows
from lightning_xai.functional.erasure.erase import Erasure, erase
from lightning_xai.functional.erasure.evaluate import Evaluate as Evaluate
from lightning_xai.functional.erasure.evaluate import ExplainedModel as ExplainedModel
from lightning_xai.functional.erasure.evaluate import Output as Output
from lightning_xai.functional.erasure.evaluate import Versions as Versions
from lightning_xai.functional.erasure.evaluate import for_versions_of
from lightning_xai.functional.erasure.evaluate import logits_of as logits_of
from lightning_xai.functional.erasure.evaluate import outputs_of as outputs_of
from lightning_xai.functional.network.chunking import packed_rows
from lightning_xai.types import Predict, TextInputs


@torch.no_grad()
def perturbed_outputs(
    evaluate: Evaluate | Predict,
    inputs: TextInputs,
    versions: Versions,
    *,
    erasure: Erasure,
    pad_id: int = 0,
    chunk_size: int | None = None,
) -> Tensor:
    """Returns the outputs [R, C] for R versions of texts, with gradients off. Equal versions are evaluated only once.

    Versions of similar length share a forward pass, even if they belong to different texts. Therefore, versions that
    are short because tokens were deleted take less time. The outputs are on the device on which `evaluate` returns
    them. If there are no versions, the result has shape [0, 0].

    Args:
        evaluate: maps erased inputs to outputs. The erased inputs have the `index` of the unerased inputs.
        inputs: B unerased inputs.
        versions: R versions.
        erasure: how tokens are erased, see `erase`.
        pad_id: id of the padding token.
        chunk_size: largest number of versions per forward pass; None lets the device decide. The outputs do not depend
            on `chunk_size`.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6, 7]])
        >>> versions = Versions(torch.tensor([0, 0]), torch.tensor([[True, True, True], [True, False, True]]))
        >>> sum_of_ids = lambda erased, embed_mask: erased.input_ids.sum(dim=1, keepdim=True)
        >>> perturbed_outputs(sum_of_ids, inputs, versions, erasure="delete")
        tensor([[18],
                [12]])
    """
    example, keep = versions.example.cpu(), versions.keep.cpu()
    erased = inputs.token_mask.cpu()[example] & ~keep
    # each row begins with the bits of the example's index, so that equal masks of different examples stay distinct
    bits = (example.unsqueeze(1) >> torch.arange(32)) & 1
    distinct, inverse = distinct_rows(torch.cat([bits.bool(), erased], dim=1))
    example, erased = example[distinct], erased[distinct]
    lengths = inputs.attention_mask.cpu().sum(dim=1)[example]
    if erasure == "delete":
        lengths = lengths - erased.sum(dim=1)
    outputs = None
    longest_first = lengths.argsort(descending=True, stable=True)
    for chunk in packed_rows(lengths[longest_first], chunk_size, inputs.device, differentiated=False):
        rows = longest_first[chunk]
        copies = inputs[example[rows].to(inputs.device)]
        shortened, embed_mask = erase(copies, ~erased[rows].to(inputs.device), erasure, pad_id=pad_id)
        shortened = shortened.trim()
        if embed_mask is not None:
            embed_mask = embed_mask[:, : shortened.input_ids.shape[1]]
        values = evaluate(shortened, embed_mask)
        if outputs is None:
            outputs = values.new_zeros(len(distinct), values.shape[1])
        outputs[rows.to(outputs.device)] = values
    return torch.zeros(0, 0) if outputs is None else outputs[inverse.to(outputs.device)]


def version_outputs(
    evaluate: Evaluate | Predict,
    inputs: TextInputs,
    versions: Versions,
    classes: Tensor,
    *,
    erasure: Erasure,
    pad_id: int = 0,
    chunk_size: int | None = None,
) -> Tensor:
    """Returns the outputs [R, K] of R versions of texts for K classes per version, in float64 on the CPU.

    If `evaluate` has a function `for_versions` that can evaluate the versions together, this function is called.
    Otherwise, each version is evaluated as a separate text.

    Args:
        evaluate: maps erased inputs to outputs.
        inputs: B unerased inputs.
        versions: R versions.
        classes: [R, K] long, the classes of each version, on the CPU.
        erasure: how tokens are erased, see `erase`.
        pad_id: id of the padding token.
        chunk_size: largest number of versions per forward pass; None lets the device decide.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6, 7]])
        >>> versions = Versions(torch.tensor([0, 0]), torch.tensor([[False, True, True], [True, True, True]]))
        >>> ids = lambda erased, _: erased.input_ids
        >>> version_outputs(ids, inputs, versions, torch.tensor([[1], [2]]), erasure="mask").tolist()
        [[6.0], [7.0]]
    """
    options: Any = {"erasure": erasure, "pad_id": pad_id, "chunk_size": chunk_size}
    together = _outputs_together(evaluate, inputs, versions, classes, **options)
    if together is not None:
        return together
    return perturbed_outputs(evaluate, inputs, versions, **options).cpu().gather(1, classes).double()


def _outputs_together(
    evaluate: Evaluate | Predict, inputs: TextInputs, versions: Versions, classes: Tensor, **options: Any
) -> Tensor | None:
    """Returns the outputs [R, K] of `evaluate.for_versions` in float64 on the CPU.

    Returns None if `evaluate` has no such function, if this function returns None, or if there are no versions.
    """
    entry = for_versions_of(evaluate)
    if entry is None or not len(versions.example):
        return None
    outputs = entry(inputs, versions, classes, **options)
    return None if outputs is None else outputs.cpu().double()


def target_outputs(
    evaluate: Evaluate,
    inputs: TextInputs,
    targets: Tensor,
    versions: Versions,
    *,
    erasure: Erasure,
    pad_id: int = 0,
    chunk_size: int | None = None,
) -> Tensor:
    """Returns the outputs [R, K] of R versions for the explained classes of each version's text, in float64 on the CPU.

    Args:
        evaluate: maps erased inputs to outputs.
        inputs: B unerased inputs.
        targets: [B, K] long, the explained classes of each text.
        versions: R versions.
        erasure: how tokens are erased, see `erase`.
        pad_id: id of the padding token.
        chunk_size: largest number of versions per forward pass; None lets the device decide.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6, 7]])
        >>> versions = Versions(torch.tensor([0]), torch.tensor([[False, True, True]]))
        >>> target_outputs(lambda erased, _: erased.input_ids, inputs, torch.tensor([[1]]), versions, erasure="delete")
        tensor([[7.]], dtype=torch.float64)
    """

    options: Any = {"erasure": erasure, "pad_id": pad_id, "chunk_size": chunk_size}
    classes = targets.cpu()[versions.example.cpu()]
    together = _outputs_together(evaluate, inputs, versions, classes, **options)
    if together is not None:
        return together

    def of_targets(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        outputs = evaluate(inputs, embed_mask)
        return outputs.gather(1, targets[inputs.index].to(outputs.device)).cpu().double()

    # sets each text's index to its row in `targets`. Versions keep this index, by which `of_targets` finds the row
    numbered = replace(inputs, index=torch.arange(len(inputs), device=inputs.device))
    return perturbed_outputs(of_targets, numbered, versions, **options).cpu()


def predict_erased(
    predict: Predict,
    inputs: TextInputs,
    versions: Versions,
    targets: Tensor,
    unerased_probs: Tensor,
    *,
    erasure: Erasure,
    pad_id: int = 0,
) -> Tensor:
    """Returns [R, J] float64: entry [r, j] is the probability of row r's class, given version j of row r.

    Equal versions are evaluated only once. Versions that keep every token are not evaluated: their probabilities are
    taken from `unerased_probs`.

    Args:
        predict: returns the model's probabilities.
        inputs: B unerased inputs.
        versions: R rows of J versions. `versions.example` gives the text of each row, and several rows may have the
            same text. `versions`, `targets` and `unerased_probs` are on the CPU.
        targets: [R] long, the class of each row.
        unerased_probs: [B, C] probabilities of `inputs`.
        erasure: how tokens are erased, see `erase`.
        pad_id: id of the padding token.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6]])
        >>> predict = lambda erased, _=None: erased.input_ids / 10  # "probabilities" of two classes
        >>> versions = Versions(torch.tensor([0]), torch.tensor([[[True, True], [False, True]]]))
        >>> predict_erased(predict, inputs, versions, torch.tensor([0]), predict(inputs), erasure="mask").tolist()
        [[0.5, 0.0]]
    """
    num_versions, num_tokens = versions.keep.shape[1:]
    keep = versions.keep.reshape(-1, num_tokens)
    example, classes = (values.repeat_interleave(num_versions) for values in (versions.example, targets))
    probs = unerased_probs[example, classes].double()
    changed = (inputs.token_mask.cpu()[example] & ~keep).any(dim=1).nonzero().flatten()
    if len(changed):
        changed_versions = Versions(example[changed], keep[changed])
        changed_classes = classes[changed].unsqueeze(1)
        outputs = version_outputs(predict, inputs, changed_versions, changed_classes, erasure=erasure, pad_id=pad_id)
        probs[changed] = outputs.squeeze(1)
    return probs.view(-1, num_versions)


def predict_zero_embeddings(
    predict: Predict, inputs: TextInputs, versions: Versions, targets: Tensor, *, erasure: Erasure, pad_id: int = 0
) -> Tensor:
    """Returns [R, J] float64: the probability of row r's class, given version j of row r with zero embeddings.

    All embeddings of a version are set to zero, except those of a prompt. The arguments are those of `predict_erased`,
    without `unerased_probs`.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6, 7]])
        >>> predict = lambda erased, embed_mask: erased.attention_mask.sum(dim=1, keepdim=True) / 4
        >>> versions = Versions(torch.tensor([0]), torch.tensor([[[True, True, True], [True, False, False]]]))
        >>> predict_zero_embeddings(predict, inputs, versions, torch.tensor([0]), erasure="delete").tolist()
        [[0.75, 0.25]]
    """
    num_versions, num_tokens = versions.keep.shape[1:]
    keep = versions.keep.reshape(-1, num_tokens)
    example = versions.example.repeat_interleave(num_versions)
    erased = inputs.token_mask.cpu()[example] & ~keep
    lengths = inputs.attention_mask.cpu().sum(dim=1)[example]
    if erasure == "delete":
        lengths = lengths - erased.sum(dim=1)
    distinguishing = [example, lengths]
    if erasure == "delete" and inputs.token_type_ids is not None:
        # with zero embeddings, versions of a text differ only in length. But token type embeddings are not set to zero,
        # so these versions also differ if different numbers of tokens of the second text are deleted
        in_second_text = inputs.token_type_ids.cpu() > 0
        distinguishing.append((erased & in_second_text[example]).sum(dim=1))
    first, inverse = distinct_rows(torch.stack(distinguishing, dim=1))

    def of_zeros(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        prompt = inputs.prompt_mask
        return predict(inputs, torch.zeros_like(inputs.attention_mask) if prompt is None else prompt)

    distinct = Versions(example[first], keep[first])
    probs = perturbed_outputs(of_zeros, inputs, distinct, erasure=erasure, pad_id=pad_id).cpu()
    return probs[inverse, targets.repeat_interleave(num_versions)].double().view(-1, num_versions)
