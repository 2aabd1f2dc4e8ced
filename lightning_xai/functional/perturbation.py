"""Evaluates texts without some of their tokens, for attribution methods and for erasure metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from lightning_xai.functional.chunking import packed_rows
from lightning_xai.functional.duplicates import distinct_rows
from lightning_xai.functional.erasure import Erasure, erase
from lightning_xai.functional.gradients import EmbeddingModel
from lightning_xai.types import Predict, TextInputs

Output = Literal["logit", "probability"]


class Evaluate(Protocol):
    """A function from erased inputs to outputs, such as a network's logits or the probabilities of a `Predict`.

    Example:
        >>> def number_of_tokens(inputs, embed_mask=None):
        ...     return inputs.attention_mask.sum(dim=1, keepdim=True)
        >>> number_of_tokens(TextInputs.of_ids([[5, 6, 7], [5]])).tolist()
        [[3], [1]]
    """

    def __call__(self, inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        """Returns outputs [B, C]. Embeddings are set to zero where `embed_mask` [B, T] is False."""
        ...


class ExplainedModel(EmbeddingModel, Protocol):
    """The part of a classifier that perturbations need: an `EmbeddingModel` with probabilities.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> random_bert().probabilities(torch.tensor([[0.0, 0.0]]))
        tensor([[0.5000, 0.5000]])
    """

    def probabilities(self, logits: Tensor) -> Tensor:
        """Returns the probabilities [B, C] of logits [B, C]."""
        ...


class Versions(NamedTuple):
    """R versions of B texts. Each version belongs to one text and keeps some of its tokens.

    Example:
        >>> versions = Versions(torch.tensor([0, 0]), torch.tensor([[True, False], [False, True]]))
        >>> versions.keep[1].tolist()  # the second version of text 0 keeps the second token
        [False, True]
    """

    example: Tensor  # [R] long, the batch row of the text that each version belongs to
    keep: Tensor  # [R, T] bool, or [R, J, T] for J versions per row; tokens outside `token_mask` are kept anyway


def logits_of(model: EmbeddingModel) -> Evaluate:
    """Returns the function that gives the logits [B, C] of erased inputs.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> model, inputs = random_bert(), TextInputs.of_ids([[5, 6]])
        >>> torch.equal(logits_of(model)(inputs), model(inputs).logits)
        True
    """

    def evaluate(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        embeds = None if embed_mask is None else model.embed(inputs) * embed_mask.unsqueeze(-1)
        return model(inputs, embeds).logits

    return evaluate


def outputs_of(model: ExplainedModel, output: Output) -> Evaluate:
    """Returns the function that gives the logits or the probabilities [B, C] of erased inputs.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> outputs_of(random_bert(), "probability")(TextInputs.of_ids([[5, 6]])).sum().round().item()
        1.0
    """
    logits = logits_of(model)
    if output == "logit":
        return logits
    return lambda inputs, embed_mask=None: model.probabilities(logits(inputs, embed_mask))


@torch.no_grad()
def perturbed_outputs(
    evaluate: Evaluate,
    inputs: TextInputs,
    versions: Versions,
    *,
    erasure: Erasure,
    pad_id: int = 0,
    chunk_size: int | None = None,
) -> Tensor:
    """Returns the outputs [R, C] of R versions of texts. Equal versions are evaluated once, without a gradient.

    Versions of similar length share a forward pass, even versions of different texts, so deleting tokens saves time.
    The outputs are on the device of the results of `evaluate`. If there are no versions, their shape is [0, 0].

    Args:
        evaluate: the function of erased inputs. Erased inputs have the `index` of the unerased inputs.
        inputs: B unerased inputs.
        versions: R versions.
        erasure: how tokens are erased, see `erase`.
        pad_id: id of the padding token.
        chunk_size: largest number of versions per forward pass; None lets the device decide. Results stay the same.

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
    # equal masks of different examples must stay distinct, so the bits of the example's number are added
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
    """Returns the outputs [R, K] of each version for the explained classes of its text, in float64 on the CPU.

    Args:
        evaluate: the function of erased inputs.
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

    def of_targets(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        outputs = evaluate(inputs, embed_mask)
        return outputs.gather(1, targets[inputs.index].to(outputs.device)).cpu().double()

    numbered = replace(inputs, index=torch.arange(len(inputs), device=inputs.device))  # to look up targets
    return perturbed_outputs(
        of_targets, numbered, versions, erasure=erasure, pad_id=pad_id, chunk_size=chunk_size
    ).cpu()


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
    """Returns the probability [R, J] of each version for the class of its row, in float64.

    Equal versions are predicted once, and versions that keep every token take their probability from `unerased_probs`.

    Args:
        predict: gives the model's probabilities.
        inputs: B unerased inputs.
        versions: R rows of J versions. Versions, `targets` and `unerased_probs` are on the CPU.
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
        outputs = perturbed_outputs(predict, inputs, changed_versions, erasure=erasure, pad_id=pad_id)
        probs[changed] = outputs.cpu().gather(1, classes[changed].unsqueeze(1)).squeeze(1).double()
    return probs.view(-1, num_versions)


def predict_zero_embeddings(
    predict: Predict, inputs: TextInputs, versions: Versions, targets: Tensor, *, erasure: Erasure, pad_id: int = 0
) -> Tensor:
    """Returns the probability [R, J] float64 of each version for the class of its row if all embeddings are zero.

    Embeddings of a prompt stay. The arguments are those of `predict_erased`, without `unerased_probs`.

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
        # token types are not set to zero, so the result depends on how many tokens of the second text are deleted
        in_second_text = inputs.token_type_ids.cpu() > 0
        distinguishing.append((erased & in_second_text[example]).sum(dim=1))
    first, inverse = distinct_rows(torch.stack(distinguishing, dim=1))

    def of_zeros(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        prompt = inputs.prompt_mask
        return predict(inputs, torch.zeros_like(inputs.attention_mask) if prompt is None else prompt)

    distinct = Versions(example[first], keep[first])
    probs = perturbed_outputs(of_zeros, inputs, distinct, erasure=erasure, pad_id=pad_id).cpu()
    return probs[inverse, targets.repeat_interleave(num_versions)].double().view(-1, num_versions)
