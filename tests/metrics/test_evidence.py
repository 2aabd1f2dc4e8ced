"""Which rows have evidence, and which tokens count as evidence."""

from dataclasses import replace

import torch

from lightning_xai.metrics.evidence import EvidenceMetric, evidence_of
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


def test_tokens_that_the_attribution_leaves_out_are_no_evidence():
    attribution, batch = explained_batch([20, 11])
    narrow = attribution.token_mask.clone()
    narrow[:, 5:] = False
    evidence = evidence_of(replace(attribution, token_mask=narrow), batch)
    assert evidence[..., :5].any() and not evidence[..., 5:].any()


def test_a_batch_without_rationales_has_no_evidence():
    attribution, batch = explained_batch([20, 11])
    assert not evidence_of(attribution, replace(batch, rationale=None)).any()
