"""Cuts texts to a few tokens, so that a preflight of a method or metric is fast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.classes.targets import gold_classes, gold_pairs
from lightning_xai.types import Attribution, Batch, TextInputs


def evidence_tokens(batch: Batch) -> Tensor:
    """Returns a mask [B, T] of the evidence for gold classes. If a text has none, evidence for other classes counts.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6, 7]])
        >>> rationale = Attribution.of_scores([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]], inputs.token_mask)
        >>> evidence_tokens(Batch(inputs, torch.tensor([1]), rationale)).tolist()
        [[False, False, True]]
    """
    if batch.rationale is None:
        return torch.zeros_like(batch.inputs.token_mask)
    rationale = batch.rationale
    evidence = (rationale.scores > 0) & rationale.target_mask.unsqueeze(-1)  # [B, K, T]
    gold = (evidence & gold_pairs(batch.labels, rationale.targets).unsqueeze(-1)).any(dim=1)
    return torch.where(gold.any(dim=1, keepdim=True), gold, evidence.any(dim=1))


def confident_probs(batch: Batch, num_classes: int) -> Tensor:
    """Returns made-up probabilities [B, C] that are high for gold classes and for classes with evidence.

    A preflight uses them instead of the network's predictions if the network is untrained, or if the scores are made
    up, too. Metrics of predicted classes then have something to measure.

    In single-label tasks, the most probable class is the gold class. If only other classes have evidence, it is one of
    these classes instead.

    Example:
        >>> inputs = TextInputs.of_ids([[5, 6]])
        >>> rationale = Attribution.of_scores([[[0.0, 0.0], [0.0, 1.0]]], inputs.token_mask)
        >>> confident_probs(Batch(inputs, torch.tensor([0]), rationale), num_classes=2).argmax(dim=1).tolist()
        [1]
    """
    gold = gold_classes(batch.labels, num_classes)  # [B, C]
    has_evidence = torch.zeros_like(gold)
    if batch.rationale is not None:
        rationale = batch.rationale
        with_evidence = (rationale.scores > 0).any(dim=-1) & rationale.target_mask  # [B, K]
        has_evidence = has_evidence.long().scatter_add(1, rationale.targets, with_evidence.long()) > 0
    if batch.labels.dim() == 2:
        return torch.where(gold | has_evidence, 0.9, 0.1)
    preference = 2 * has_evidence.float() + gold.float()
    return (10 * preference).softmax(dim=-1)


def short_columns(inputs: TextInputs, evidence: Tensor, num_tokens: int) -> Tensor:
    """Returns a mask [B, T] bool of the tokens that remain if every text is cut to `num_tokens` explainable tokens.

    The explainable tokens that remain are consecutive. They include the first explainable token of the mask `evidence`
    [B, T]. In a text without such a token, they are the first explainable tokens. All special tokens remain, and so do
    the first `num_tokens` of the tokens that are neither special nor explainable.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7, 8, 2]], special_ids=[1, 2])
        >>> short_columns(inputs, inputs.input_ids == 7, 2).long().tolist()
        [[1, 0, 0, 1, 1, 1]]
        >>> short_columns(inputs, inputs.input_ids == 8, 2).long().tolist()
        [[1, 0, 0, 1, 1, 1]]
    """
    tokens = inputs.token_mask
    order = tokens.cumsum(dim=1) - 1  # [B, T] position among the explainable tokens
    evidence = evidence & tokens
    first = order.masked_fill(~evidence, tokens.shape[1]).amin(dim=1)
    last_start = (tokens.sum(dim=1) - num_tokens).clamp(min=0)
    start = torch.where(evidence.any(dim=1), torch.minimum(first, last_start), 0).unsqueeze(1)
    window = tokens & (order >= start) & (order < start + num_tokens)
    special = inputs.special_tokens_mask & inputs.attention_mask & ~tokens
    others = inputs.attention_mask & ~special & ~tokens
    return window | special | (others & (others.cumsum(dim=1) <= num_tokens))


def cut_inputs(inputs: TextInputs, keep: Tensor, pad_id: int) -> TextInputs:
    """Returns the texts with only the tokens in the mask `keep` [B, T], padded on the right.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6], [1, 7]], special_ids=[1])
        >>> cut_inputs(inputs, inputs.input_ids != 5, 0).input_ids.tolist()
        [[1, 6], [1, 7]]
    """
    keep = keep & inputs.attention_mask
    fills = {
        "input_ids": pad_id, "attention_mask": False, "token_mask": False, "special_tokens_mask": True,
        "baseline_ids": pad_id, "token_type_ids": 0, "word_ids": -1, "prompt_mask": False,
    }  # fmt: skip
    columns, valid = _columns(keep)
    changed = {
        name: getattr(inputs, name).gather(1, columns).masked_fill(~valid, fill)
        for name, fill in fills.items()
        if getattr(inputs, name) is not None
    }
    return replace(inputs, **changed)


def cut_attribution(attribution: Attribution, keep: Tensor) -> Attribution:
    """Returns the attribution with only the tokens in the mask `keep` [B, T], padded on the right with scores of 0.

    Example:
        >>> attribution = Attribution.of_scores([[[0.5, 2.0, 1.0]]], torch.ones(1, 3) > 0)
        >>> cut_attribution(attribution, torch.tensor([[True, False, True]])).scores.tolist()
        [[[0.5, 1.0]]]
    """
    columns, valid = _columns(keep)
    wide = columns.unsqueeze(1).expand(-1, attribution.scores.shape[1], -1)
    scores = attribution.scores.gather(2, wide).masked_fill(~valid.unsqueeze(1), 0)
    token_mask = attribution.token_mask.gather(1, columns) & valid
    return replace(attribution, scores=scores, token_mask=token_mask)


def cut_batch(batch: Batch, keep: Tensor, pad_id: int) -> Batch:
    """Returns the examples with only the tokens in the mask `keep` [B, T], padded on the right.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6]], special_ids=[1])
        >>> len(cut_batch(Batch(inputs, torch.tensor([0])), inputs.input_ids != 5, 0).inputs.input_ids[0])
        2
    """
    keep = keep & batch.inputs.attention_mask
    rationale = None if batch.rationale is None else cut_attribution(batch.rationale, keep)
    return replace(batch, inputs=cut_inputs(batch.inputs, keep, pad_id), rationale=rationale)


def text_forms(inputs: TextInputs) -> set[tuple[int, bool, bool]]:
    """Returns the distinct forms of B texts.

    A form is a tuple: the number of explainable tokens (2 stands for two or more), whether the text has tokens that are
    neither explainable nor special, and whether it is a pair: its token types mark a second text, or a special token
    stands between two explainable ones. A method that works on one text of a form should also work on all other texts
    of this form.

    Example:
        >>> text_forms(TextInputs.of_ids([[1, 5, 6], [1]], special_ids=[1])) == {(2, False, False), (0, False, False)}
        True
    """
    others = (inputs.attention_mask & ~inputs.special_tokens_mask & ~inputs.token_mask).any(dim=1)
    is_after, is_before = inputs.token_mask.cumsum(1) > 0, inputs.token_mask.flip(1).cumsum(1).flip(1) > 0
    marks = inputs.special_tokens_mask & is_after & is_before
    if inputs.token_type_ids is not None:
        marks = marks | (inputs.token_type_ids > 0)
    counts = inputs.token_mask.sum(dim=1).clamp(max=2)
    return set(zip(counts.tolist(), others.tolist(), marks.any(dim=1).tolist(), strict=True))


def typical_rows(rows: Any, limit: int) -> list[int]:
    """Returns the positions of two of the first `limit` examples, if possible one with evidence and one without.

    The first has evidence for its gold class. If there is no such example, the first has evidence for another class.
    The second has no evidence for any class. `rows` is an EncodedSplit.
    """
    with_evidence = rows.with_evidence()

    def has_evidence(position: int, *, gold: bool) -> bool:
        if not with_evidence[position]:
            return False
        example = rows.encoded[position]
        labels = rows.labels([position])[0] if gold else None
        classes = labels if isinstance(labels, list) else [labels]
        masks = [mask for label, mask in example.rationales.items() if not gold or label in classes]
        return any((mask.astype(bool) & example.token_mask).any() for mask in masks)

    positions = range(limit)
    gold, any_class, none = (  # these are generators, because a split may have a million rows
        (position for position in positions if has_evidence(position, gold=True)),
        (position for position in positions if has_evidence(position, gold=False)),
        (position for position in positions if not has_evidence(position, gold=False)),
    )
    evident = next(gold, next(any_class, None))
    chosen = [position for position in (evident, next(none, None)) if position is not None]
    return [*chosen, *(position for position in range(min(limit, 2)) if position not in chosen)][: min(2, limit)]


def _columns(keep: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the padded positions [B, T'] of each text's kept tokens, and a mask [B, T'] that is False at padding."""
    width = max(int(keep.sum(dim=1).max()), 1)
    columns = (~keep).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    return columns, keep.gather(1, columns)
