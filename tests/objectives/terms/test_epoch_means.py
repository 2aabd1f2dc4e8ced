"""Means of losses over an epoch, and the smallest of them."""

import math

import torch

from lightning_xai.objectives.terms.epoch_means import EpochMeans, smaller


def test_means_weigh_examples_over_all_batches():
    means = EpochMeans()
    means.begin()
    means.add("igr", torch.tensor([4.0]), torch.tensor([1.0]))
    means.add("igr", torch.tensor([1.0, 100.0]), torch.tensor([3.0, 0.0]))
    means.add("vat", torch.tensor([2.0], requires_grad=True), torch.tensor([1.0]))
    assert means.means() == {"igr": 1.75, "vat": 2.0}
    means.begin()
    assert means.means() == {}


def test_nothing_is_summed_in_an_epoch_whose_beginning_is_unknown():
    means = EpochMeans()
    means.add("igr", torch.tensor([4.0]), torch.tensor([1.0]))
    assert means.sums is None and means.means() == {}


def test_sums_are_reduced_before_they_are_divided():
    means = EpochMeans()
    means.begin()
    means.add("igr", torch.tensor([4.0]), torch.tensor([1.0]))
    other_process = torch.tensor([1.0 * 3, 3.0], dtype=torch.float64)  # value 1 with weight 3
    assert means.means(lambda sums: sums + other_process) == {"igr": 1.75}


def test_an_epoch_in_which_no_example_counted_is_nan_and_no_minimum():
    means = EpochMeans()
    means.begin()
    means.add("igr", torch.tensor([4.0]), torch.tensor([0.0]))
    assert math.isnan(means.means()["igr"])
    assert smaller({"igr": 2.0}, means.means()) == {"igr": 2.0} and smaller({}, means.means()) == {}
    assert smaller({"igr": 2.0}, {"igr": 3.0, "vat": 1.0}) == {"igr": 2.0, "vat": 1.0}
