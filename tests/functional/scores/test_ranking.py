import pytest
import torch
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_auc_score

from lightning_xai.functional.scores.ranking import (
    auroc,
    average_precision,
    percent_of,
    precision_recall_area,
    ranks,
    token_ranks,
    top_mask,
)


# counts of the published metrics for texts of 5, 9, 23 and 100 units
@pytest.mark.parametrize(
    "percentages, rounding, minimum, expected",
    [
        ((1, 5, 10, 20, 50), "floor", 0, {5: "0 0 0 1 2", 9: "0 0 0 1 4", 23: "0 1 2 4 11", 100: "1 5 10 20 50"}),
        ((2, 10, 20, 50), "ceil", 0, {5: "1 1 1 3", 9: "1 1 2 5", 23: "1 3 5 12", 100: "2 10 20 50"}),
        (
            (1, 20, 40, 60, 80, 100), "floor", 1,
            {5: "1 1 2 3 4 5", 9: "1 1 3 5 7 9", 23: "1 4 9 13 18 23", 100: "1 20 40 60 80 100"},
        ),
        ((1, 5, 10, 20, 50), "ceil", 0, {5: "1 1 1 1 3", 9: "1 1 1 2 5", 23: "1 2 3 5 12", 100: "1 5 10 20 50"}),
    ],
)  # fmt: skip
def test_numbers_of_erased_tokens_equal_the_papers(percentages, rounding, minimum, expected):
    totals = torch.tensor(list(expected))
    counts = torch.stack([percent_of(totals, p, rounding=rounding, minimum=minimum) for p in percentages], dim=1)
    assert [" ".join(map(str, row)) for row in counts.tolist()] == list(expected.values())


@pytest.mark.parametrize("total", [90, 170, 180, 330])
def test_seventy_percent_is_exact_where_floats_fall_short(total):
    assert int(percent_of(torch.tensor([total]), 70)) == 7 * total // 10


@pytest.mark.parametrize("percentage", range(10, 101, 10))
def test_tenths_are_exact_for_every_length_to_10000(percentage):  # a product of floats is wrong for some at 70 %
    totals = torch.arange(1, 10_001)
    assert torch.equal(percent_of(totals, percentage), percentage * totals // 100)


def test_decimal_percentages_are_read_as_they_print():
    assert percent_of(torch.tensor([1000]), 0.1).tolist() == [1]
    assert percent_of(torch.tensor([1000]), 12.3, rounding="ceil").tolist() == [123]


def test_percentages_of_many_digits_do_not_overflow():
    assert percent_of(torch.tensor([6000, 6]), 100 / 3).tolist() == [2000, 2]


def test_round_takes_halves_to_even():
    assert percent_of(torch.tensor([5, 15, 7]), 10, rounding="round").tolist() == [0, 2, 1]


def test_minimum_never_exceeds_the_total():
    assert percent_of(torch.tensor([0, 1, 5]), 1, minimum=2).tolist() == [0, 1, 2]


def test_percentage_over_100_is_refused():
    with pytest.raises(ValueError, match="percentage is 120"):
        percent_of(torch.tensor([5]), 120)


def test_earlier_of_equal_scores_ranks_first():
    scores, mask = torch.tensor([0.0, 1.0, 1.0, 2.0]), torch.ones(4, dtype=torch.bool)
    assert ranks(scores, mask).tolist() == [3, 1, 2, 0]
    assert ranks(scores, mask, ties="last").tolist() == [3, 2, 1, 0]


def test_places_outside_the_mask_rank_last_whatever_their_score():
    scores, mask = torch.tensor([9.0, -torch.inf, 1.0]), torch.tensor([False, True, True])
    assert ranks(scores, mask).tolist() == [3, 1, 0]


def test_top_mask_takes_no_more_than_the_mask_has():
    mask = torch.tensor([True, False, True])
    assert top_mask(torch.tensor([1.0, 3.0, 2.0]), mask, torch.tensor(5)).tolist() == mask.tolist()


def test_a_word_ranks_by_the_sum_of_its_tokens():
    scores = torch.tensor([[[9.0, 2.0, 2.0, 3.0, 9.0]]])
    mask = torch.tensor([[False, True, True, True, False]])
    rank, num_units = token_ranks(scores, mask, torch.tensor([[-1, 0, 0, 1, -1]]))
    assert rank.tolist() == [[[5, 0, 0, 1, 5]]]
    assert num_units.tolist() == [2]


@pytest.mark.parametrize("decimals", [0, 1, 8])  # from many ties to none
def test_areas_equal_scikit_learn_row_by_row(decimals):
    generator = torch.Generator().manual_seed(decimals)
    scores = (3 * torch.randn(20, 30, generator=generator, dtype=torch.float64)).round(decimals=decimals)
    positives = torch.rand(20, 30, generator=generator) < 0.3
    mask = torch.rand(20, 30, generator=generator) < 0.8
    mask[:, :2], positives[:, 0], positives[:, 1] = True, True, False  # every row has a positive and a negative
    for row in range(20):
        kept = mask[row]
        truth, predicted = positives[row][kept].numpy(), scores[row][kept].numpy()
        precision, recall, _ = precision_recall_curve(truth, predicted)
        expected = average_precision_score(truth, predicted), roc_auc_score(truth, predicted), auc(recall, precision)
        areas = [f(scores, positives, mask)[row] for f in (average_precision, auroc, precision_recall_area)]
        assert [float(value) for value in areas] == pytest.approx(expected)


def test_areas_without_positives_are_undefined():
    scores, none = torch.rand(1, 4), torch.zeros(1, 4, dtype=torch.bool)
    assert average_precision(scores, none).isnan() and auroc(scores, none).isnan()
    assert auroc(scores, ~none).isnan() and average_precision(scores, ~none) == 1


def test_signed_large_scores_are_ranked_as_they_are():
    scores, positives = torch.tensor([-50.0, 200.0, 300.0]), torch.tensor([False, False, True])
    assert average_precision(scores, positives) == 1  # after a sigmoid the last two would be equal (torchmetrics #2329)
