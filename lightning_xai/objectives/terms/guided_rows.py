"""Chooses the pairs (example, class) of a batch whose scores are compared with a rationale. A pair is called a row."""

from __future__ import annotations

from typing import Literal, NamedTuple

from torch import Tensor

from lightning_xai.functional.classes.targets import gold_pairs
from lightning_xai.types import Batch

Unannotated = Literal["leave_out", "empty_target"]


class GuidedRows(NamedTuple):
    """The rows of a batch. A row is a pair (example, class) whose scores are compared with a rationale.

    Each of the B examples has at most K rows.

    Example:
        >>> import torch
        >>> from lightning_xai.types import Attribution, TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])
        >>> rationale = Attribution.of_scores([[[0.0, 1.0, 0.0]]], inputs.token_mask)
        >>> guided_rows(Batch(inputs, torch.tensor([0]), rationale), unannotated="leave_out").evidence.tolist()
        [[[False, True, False]]]
    """

    targets: Tensor  # [B, K] long, classes; those where `mask` is True are gold classes
    mask: Tensor  # [B, K] bool, True for each (example, class) pair that is included in the loss
    evidence: Tensor  # [B, K, T] bool, True at evidence tokens


def guided_rows(batch: Batch, *, unannotated: Unannotated) -> GuidedRows:
    """Returns the rows, which are pairs (example, class) whose scores are compared with a rationale.

    In single-label data, a text has one row, for its gold class. In multi-label data, a text has a row for each gold
    class with evidence. In a batch without rationales, no row is included in the loss.

    Args:
        batch: the examples.
        unannotated: what to do with single-label texts without evidence for the gold class. "leave_out" leaves them out
            of the loss. "empty_target" compares their scores with an empty rationale. A text that lost all its evidence
            to truncation is always left out.

    Example:
        >>> import torch
        >>> from lightning_xai.types import Attribution, TextInputs
        >>> inputs = TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2])
        >>> batch = Batch(inputs, torch.tensor([1]), Attribution.of_scores([[[0.0, 1.0, 0.0]]], inputs.token_mask))
        >>> [guided_rows(batch, unannotated=how).mask.tolist() for how in ("leave_out", "empty_target")]
        [[[False]], [[True]]]
    """
    mask, labels, rationale = batch.inputs.attention_mask, batch.labels, batch.rationale
    single = labels.dim() == 1
    if rationale is None:
        targets = labels.new_zeros(len(batch), 1).long() if not single else labels.unsqueeze(1)
        return GuidedRows(targets, targets < 0, targets.unsqueeze(-1).expand(-1, -1, mask.shape[1]) < 0)
    evidence = (rationale.scores > 0) & rationale.token_mask.unsqueeze(1)
    gold = rationale.target_mask & gold_pairs(labels, rationale.targets)
    evidence = evidence & gold.unsqueeze(-1)
    if not single:
        return GuidedRows(rationale.targets, evidence.any(dim=-1), evidence)
    evidence = evidence.any(dim=1, keepdim=True)
    counts = evidence.any(dim=-1)
    if unannotated == "empty_target":
        cut = batch.evidence_cut
        counts = counts | (~counts if cut is None else cut.gather(1, labels.unsqueeze(1)) == 0)
    return GuidedRows(labels.unsqueeze(1), counts, evidence)
