"""Agreement with evidence on the toy of Edin et al. and against scikit-learn."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lightning_xai.metrics.plausibility import EvidenceOverlap
from lightning_xai.metrics.precision_recall import PrecisionRecallCurve
from lightning_xai.metrics.thresholds import ThresholdGrid
from lightning_xai.types import Attribution, Batch, TextInputs
from tests.metrics.conftest import bag_of_words, explained_batch, rationale_of

# a toy of three texts, whose expected numbers the code of Edin et al. (2024) gave
SCORES = [[0.5, 0.3, 0.1, 0.06, 0.04, 0, 0, 0], [1 / 8] * 8, [0.02, 0.02, 0.9, 0.02, 0.02, 0.02, 0, 0]]
EVIDENCE = [{0, 1, 5}, {2, 3}, {2, 3, 6, 7}]
CODE: dict[str, Any] = dict(
    threshold=ThresholdGrid(101, maximum=0.1, spacing="linear"),
    curve=PrecisionRecallCurve(101, spacing="linear", area="trapezoid"),
    ties="last",
)


def toy() -> tuple[Attribution, Batch]:
    ones = torch.ones(3, 8, dtype=torch.bool)
    ids = torch.ones(3, 8, dtype=torch.long)
    inputs = TextInputs(ids, ones, ones, ~ones, ids, index=torch.arange(3))
    marked = torch.tensor([[float(place in tokens) for place in range(8)] for tokens in EVIDENCE]).unsqueeze(1)
    targets, target_mask = torch.zeros(3, 1, dtype=torch.long), torch.ones(3, 1, dtype=torch.bool)
    rationale = Attribution(marked, targets, target_mask, ones)
    scores = torch.tensor(SCORES, dtype=torch.float64).unsqueeze(1)
    return Attribution(scores, targets, target_mask, ones), Batch(inputs, torch.zeros(3, dtype=torch.long), rationale)


def toy_values(**arguments):
    metric = EvidenceOverlap(name="e", **{**CODE, **arguments})
    metric.update(*toy(), bag_of_words)
    return {name.removeprefix("e/"): float(value) for name, value in metric.compute().items()}


@pytest.mark.parametrize(
    "threshold, expected",
    [
        (0.05, {"precision": 5 / 13, "recall": 5 / 9, "f1": 0.454545, "span_cover": 0.833333, "span_recall": 0.666667}),
        (0.0, {"precision": 6 / 19, "recall": 6 / 9, "f1": 0.428571}),
        (0.2, {"precision": 1, "recall": 1 / 3, "f1": 0.5}),
    ],
)
def test_scores_at_a_threshold_equal_the_authors(threshold, expected):
    values = toy_values(threshold=threshold)
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_scores_without_a_threshold_equal_the_authors():
    values = toy_values(threshold=0.05)
    expected = {"iou": 0.277778, "auprc": 0.476779, "recall_at_5": 5 / 9, "precision_at_5": 5 / 15}
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert values["kl"] == pytest.approx((7.976573 + 1.386294 + 12.282270) / 3, abs=1e-6)


def test_empty_is_the_fraction_of_explanations_without_a_token():
    assert toy_values(threshold=0.2)["empty"] == pytest.approx(1 / 3)


def test_threshold_is_the_first_maximum_of_the_grid():
    metric = EvidenceOverlap(**CODE)
    metric.update(*toy(), bag_of_words)
    assert metric.tune() == {"threshold": 0.1}


def test_a_metric_tuned_on_validation_uses_its_threshold():
    validation, test = EvidenceOverlap(**CODE), EvidenceOverlap(**CODE)
    for metric in (validation, test):
        metric.update(*toy(), bag_of_words)
    test.tune_from(validation)
    assert float(test.compute()["evidence_overlap/threshold"]) == 0.1
    assert float(test.compute()["evidence_overlap/f1"]) == pytest.approx(toy_values(threshold=0.1)["f1"])


def test_an_untuned_metric_is_an_error():
    metric = EvidenceOverlap()
    metric.update(*toy(), bag_of_words)
    with pytest.raises(ValueError, match="evaluate the validation split first"):
        metric.compute()


def test_tuning_on_another_definition_is_an_error():
    with pytest.raises(ValueError, match="same metric"):
        EvidenceOverlap().tune_from(EvidenceOverlap(**CODE))


def test_rows_without_evidence_are_skipped_and_counted():
    attribution, batch = toy()
    marked = rationale_of(batch).scores.clone()
    marked[1] = 0
    rationale = replace(rationale_of(batch), scores=marked)
    metric = EvidenceOverlap(name="e", **{**CODE, "threshold": 0.05})
    metric.update(attribution, Batch(batch.inputs, batch.labels, rationale), bag_of_words)
    values = metric.compute()
    assert (int(values["num_examples"]), int(values["num_skipped"])) == (2, 1)
    assert float(values["e/recall"]) == pytest.approx(3 / 7)


def test_a_data_set_without_rationales_gives_no_number():
    attribution, batch = toy()
    metric = EvidenceOverlap(threshold=0.05, name="e")
    metric.update(attribution, Batch(batch.inputs, batch.labels), bag_of_words)
    values = metric.compute()
    assert int(values["num_skipped"]) == 3 and values["e/f1"].isnan() and values["e/precision"].isnan()


def test_step_curve_approaches_average_precision_of_the_pooled_tokens():
    from sklearn.metrics import average_precision_score

    attribution, batch = explained_batch([30, 25, 40], num_targets=4)
    attribution.scores.add_(0.05)  # a score of 0 is above no threshold
    metric = EvidenceOverlap(threshold=0.1, name="e", curve=PrecisionRecallCurve(20_001))
    metric.update(attribution, batch, bag_of_words)
    truth: list[bool] = []
    pooled: list[float] = []
    for b, k in attribution.target_mask.nonzero().tolist():
        match = (rationale_of(batch).targets[b] == attribution.targets[b, k]).nonzero().flatten().tolist()
        if match and rationale_of(batch).scores[b, match[0]].any():
            mask = attribution.token_mask[b]
            row = attribution.scores[b, k][mask]
            truth += (rationale_of(batch).scores[b, match[0]][mask] > 0.5).tolist()
            pooled += (row / row.sum()).tolist()
    assert float(metric.compute()["e/auprc"]) == pytest.approx(average_precision_score(truth, pooled), abs=2e-3)


def cut_toy() -> tuple[Attribution, Batch]:
    """Returns the toy with a fourth text, whose three evidence tokens were truncated, and a fifth without evidence."""
    attribution, batch = toy()
    assert batch.rationale is not None
    rows = torch.tensor([0, 1, 2, 0, 1])
    scores, marked = attribution.scores[rows], batch.rationale.scores[rows]
    scores[3], marked[3:] = torch.tensor([0.5, 0.5, 0, 0, 0, 0, 0, 0]), 0
    inputs = replace(batch.inputs[rows], index=torch.arange(5))
    cut = torch.zeros(5, 2, dtype=torch.int)
    cut[3, 0] = cut[4, 1] = 3  # the fifth text lost evidence of another class than the explained one
    rationale = replace(batch.rationale[rows], scores=marked)
    return replace(attribution[rows], scores=scores), Batch(inputs, batch.labels[rows], rationale, evidence_cut=cut)


def test_rows_whose_evidence_was_truncated_are_left_out_and_in_a_part_of_their_own_missed():
    metric = EvidenceOverlap(name="e", parts=["with_cut"], **CODE | {"threshold": 0.05})
    metric.update(*cut_toy(), bag_of_words)
    values = {name.removeprefix("e/"): float(value) for name, value in metric.compute().items()}
    alone = toy_values(threshold=0.05)
    names = [name for name in alone if not name.startswith("num_") and name != "threshold"]
    assert {name: values[name] for name in names} == {name: alone[name] for name in names}
    # the toy has 5 hits among 13 selected tokens and 9 evidence tokens; the fourth text selects 2 and has 3
    expected = {"precision": 5 / 15, "recall": 5 / 12, "f1": 10 / 27, "precision_at_5": 5 / 20, "recall_at_5": 5 / 12}
    expected |= {"span_recall": 2 / 4, "span_cover": 2.5 / 4, "iou": 0.277778 * 3 / 4, "empty": 0.0}
    expected["kl"] = (7.976573 + 1.386294 + 12.282270 + 24.229824) / 4  # -log(3 * 1e-11) is 24.229824
    assert {name: values[f"with_cut_{name}"] for name in expected} == pytest.approx(expected, abs=1e-6)
    counts = {name: values[name] for name in ("num_examples", "num_skipped", "num_evidence_cut")}
    assert counts == {"num_examples": 3, "num_skipped": 2, "num_evidence_cut": 1}
    assert (values["num_examples/e/f1"], values["num_examples/e/with_cut_f1"]) == (3, 4)


def test_truncated_evidence_changes_neither_the_threshold_nor_the_other_parts():
    with_cut = EvidenceOverlap(parts=["predicted", "missed", "with_cut"], **CODE)
    without = EvidenceOverlap(parts=["predicted", "missed"], **CODE)
    for metric in (with_cut, without):
        metric.update(*cut_toy(), bag_of_words)
        metric.tune_from(metric)
    assert with_cut.tuned == without.tuned == {"threshold": 0.1}
    expected = {name: float(value) for name, value in without.compute().items()}
    found = {name: float(value) for name, value in with_cut.compute().items()}
    assert {name: found[name] for name in expected} == pytest.approx(expected, nan_ok=True)


def test_scores_that_may_be_negative_are_refused():
    with pytest.raises(ValueError, match="sign is signed"):
        EvidenceOverlap(sign="signed")
