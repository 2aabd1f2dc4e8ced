"""Agreement of top tokens with a rationale, on ERASER's numbers and worked out by hand."""

import numpy as np
import pytest
import torch

from lightning_xai.metrics.discrete_rationale import (
    DiscreteRationale,
    Percentage,
    count_matches,
    macro_scores,
    micro_scores,
)
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs
from tests.metrics.conftest import bag_of_words

# three documents, whose expected scores ERASER's own functions gave
TRUTH = [[[0, 4], [10, 12]], [[3, 6]], []]
PREDICTED = [[[1, 5], [10, 12], [20, 21]], [], [[0, 2]]]


def spans(rows):
    return [np.array(row, dtype=np.int64).reshape(-1, 2) for row in rows]


def counts(count):
    pairs = list(zip(spans(PREDICTED), spans(TRUTH), strict=True))
    columns = [[count(p, t) for p, t in pairs], [len(p) for p, _ in pairs], [len(t) for _, t in pairs]]
    return torch.tensor(columns, dtype=torch.float64)


@pytest.mark.parametrize(
    "threshold, micro, macro",
    [
        (0.1, (0.5, 0.666667, 0.571429), (0.333333, 0.5, 0.4)),
        (0.5, (0.5, 0.666667, 0.571429), (0.333333, 0.5, 0.4)),
        (0.6, (0.5, 0.666667, 0.571429), (0.333333, 0.5, 0.4)),  # the first pair overlaps by exactly .6
        (1.0, (0.25, 0.333333, 0.285714), (0.166667, 0.25, 0.2)),
    ],
)
def test_span_scores_equal_eraser(threshold, micro, macro):
    pooled = counts(lambda predicted, truth: count_matches(predicted, truth, threshold))
    assert [float(value) for value in micro_scores(*pooled)] == pytest.approx(micro, abs=1e-6)
    assert [float(value) for value in macro_scores(*pooled)] == pytest.approx(macro, abs=1e-6)


def one_text(**arguments):
    """Returns the metric of a text of ten tokens: evidence is 0-3 and 7, the scores rank 0, 1, 7, 8, 2 first."""
    inputs = text_inputs([12])
    scores, marked = torch.zeros(1, 1, 12), torch.zeros(1, 1, 12)
    scores[0, 0, torch.tensor([0, 1, 7, 8, 2]) + 1] = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])
    marked[0, 0, torch.tensor([0, 1, 2, 3, 7]) + 1] = 1
    targets, target_mask = torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool)
    attribution = Attribution(scores, targets, target_mask, inputs.token_mask)
    rationale = Attribution(marked, targets, target_mask, inputs.token_mask)
    batch = Batch(inputs, torch.zeros(1, dtype=torch.long), rationale)
    metric = DiscreteRationale(name="r", **arguments)
    metric.update(attribution, batch, bag_of_words)
    return metric


@pytest.mark.parametrize("arguments", [{"size": 4}, {"size": Percentage(40)}, {"size": Percentage(31)}])
def test_top_tokens_form_spans_that_are_compared_with_the_evidence(arguments):
    values = {name: float(value) for name, value in one_text(**arguments).compute().items()}
    # tokens 0, 1, 7, 8 are selected: spans [0, 2) and [7, 9) overlap [0, 4) and [7, 8) by a half each
    assert values["r/iou_f1"] == 1
    assert values["r/token_precision"] == 0.75 and values["r/token_recall"] == pytest.approx(0.6)
    assert [values["r/token_f1"], values["r/token_micro_f1"]] == pytest.approx([2 / 3, 2 / 3])


def test_untuned_size_is_the_mean_share_of_evidence_in_validation():
    metric, validation = one_text(), one_text()
    with pytest.raises(ValueError, match="validation split first"):
        metric.compute()
    metric.tune_from(validation)
    assert metric.tuned == {"percentage": 50.0}
    assert float(metric.compute()["r/token_f1"]) == float(one_text(size=5).compute()["r/token_f1"])
