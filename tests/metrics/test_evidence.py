"""Which rows have evidence, and which tokens count as evidence."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.evidence import EvidenceMetric, evidence_cut_of, evidence_of
from tests.metrics.conftest import bag_of_words, explained_batch, rationale_of


class NumEvidence(EvidenceMetric):
    columns = ("",)

    def compare(self, scores, evidence, mask):
        assert scores.dtype == torch.float64 and (scores >= 0).all()
        assert evidence.any(dim=1).all() and not (evidence & ~mask).any()
        return evidence.sum(dim=1, keepdim=True).double()


def test_records_of_rows_with_evidence_count_it_and_others_are_skipped():
    attribution, batch = explained_batch([20, 11])
    attribution = replace(attribution, scores=attribution.scores - 0.5)
    metric = NumEvidence(sign="absolute", name="n")
    metric.update(attribution, batch, bag_of_words)
    rationale = rationale_of(batch)
    for (example, target), record in zip(metric.table()[0].tolist(), metric.table()[1][:, 0].tolist(), strict=True):
        annotated = rationale.targets[example] == target
        marked = rationale.scores[example][annotated] >= 0.5
        assert record == marked.sum() if marked.any() else record != record


@pytest.mark.parametrize(
    ("match", "expected"),
    [("class", [[0, 5, 0]]), ("gold", [[0, 0, 0]]), ("any", [[0, 0, 0]])],
)
def test_cut_evidence_is_counted_for_its_class_and_only_where_no_other_is_left(match, expected):
    attribution, batch = explained_batch([9])
    rationale = rationale_of(batch)
    rationale.targets[:], attribution.targets[:] = torch.tensor([[0, 3]]), torch.tensor([[0, 1, 2]])
    rationale.scores[0, 0, 1] = 1.0  # class 0 has evidence
    labels = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    batch = replace(batch, labels=labels, evidence_cut=torch.tensor([[3, 5, 0, 0]]))
    assert evidence_cut_of(attribution, batch, match=match).tolist() == expected
    rationale.scores[:] = 0.0
    nothing_left = {"class": [[3, 5, 0]], "gold": [[8] * 3], "any": [[8] * 3]}
    assert evidence_cut_of(attribution, batch, match=match).tolist() == nothing_left[match]


@pytest.mark.parametrize("make", [NumEvidence, partial(Entropy, evidence_only=True)], ids=["evidence", "entropy"])
def test_rows_without_evidence_are_counted_by_their_reason(make):
    attribution, batch = explained_batch([9, 14, 6], num_targets=2)
    attribution.target_mask.fill_(True)
    rationale_of(batch).scores.zero_()
    cut = torch.zeros(3, 4, dtype=torch.int)
    cut[0, attribution.targets[0, 0]] = cut[2, attribution.targets[2, 1]] = 2
    metric = make()
    for rows in ([0, 1, 2], [0]):  # a sampler repeats the first example
        metric.update(attribution[rows], replace(batch, evidence_cut=cut)[rows], bag_of_words)
    values = metric.compute()
    assert (int(values["num_skipped"]), int(values["num_evidence_cut"])) == (6, 2)


def test_tokens_that_the_attribution_leaves_out_are_no_evidence():
    attribution, batch = explained_batch([20, 11])
    narrow = attribution.token_mask.clone()
    narrow[:, 5:] = False
    evidence = evidence_of(replace(attribution, token_mask=narrow), batch)
    assert evidence[..., :5].any() and not evidence[..., 5:].any()


def test_a_batch_without_rationales_has_no_evidence():
    attribution, batch = explained_batch([20, 11])
    assert not evidence_of(attribution, replace(batch, rationale=None)).any()
