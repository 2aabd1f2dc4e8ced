"""Rankings of evidence against scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from lightning_xai.metrics.rationale_ranking import RationaleRanking
from tests.metrics.conftest import bag_of_words, explained_batch, rationale_of


@pytest.mark.parametrize("rank_special", [False, True])
def test_values_are_scikit_learns_averaged_over_rows(rank_special):
    attribution, batch = explained_batch([20, 11, 30])
    metric = RationaleRanking(rank_special=rank_special, name="r")
    metric.update(attribution, batch, bag_of_words)
    areas, precisions = [], []
    for b, k in attribution.target_mask.nonzero().tolist():
        match = (rationale_of(batch).targets[b] == attribution.targets[b, k]).nonzero().flatten().tolist()
        mask = batch.inputs.attention_mask[b] if rank_special else batch.inputs.token_mask[b]
        if match:
            truth = rationale_of(batch).scores[b, match[0]][mask].numpy() > 0.5
            scores = attribution.scores[b, k][mask].numpy()
            areas.append(roc_auc_score(truth, scores))
            precisions.append(average_precision_score(truth, scores))
    values = metric.compute()
    assert float(values["r/auroc"]) == pytest.approx(np.mean(areas))
    assert float(values["r/average_precision"]) == pytest.approx(np.mean(precisions))
    assert int(values["num_examples"]) == len(areas)
    assert int(values["num_skipped"]) == int(attribution.target_mask.sum()) - len(areas)


def test_a_text_that_is_all_evidence_leaves_only_auroc_undefined():
    attribution, batch = explained_batch([6], num_targets=1)
    rationale_of(batch).scores.fill_(1)
    rationale_of(batch).targets[:] = attribution.targets[:, :1]
    attribution.target_mask.fill_(True)
    metric = RationaleRanking(name="r")
    metric.update(attribution, batch, bag_of_words)
    values = metric.compute()
    assert values["r/auroc"].isnan() and values["r/recall_at_annotated"] == 1
    assert int(values["num_skipped"]) == 1
    assert int(values["num_examples/r/auroc"]) == 0 and int(values["num_examples/r/average_precision"]) == 1


def test_tokens_left_out_of_the_attribution_do_not_take_part_with_the_special_ones():
    attribution, batch = explained_batch([20], num_targets=1)
    rationale_of(batch).targets[:] = attribution.targets
    attribution.target_mask.fill_(True)
    narrow = attribution.token_mask.clone()
    narrow[:, 10:] = False  # as where the second text of a pair is not explained
    metrics = [RationaleRanking(rank_special=True) for _ in range(2)]
    for metric, width in zip(metrics, (0.0, 9.0), strict=True):
        scores = attribution.scores.clone()
        scores[..., 10:19] = width
        metric.update(replace(attribution, scores=scores, token_mask=narrow), batch, bag_of_words)
    assert metrics[0].table()[1].tolist() == metrics[1].table()[1].tolist()
