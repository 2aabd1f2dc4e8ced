"""The warning about scores that violate completeness."""

import warnings

import torch

from lightning_xai.functional.scores.completeness import CompletenessCheck


def messages(tolerance, *deltas):
    check = CompletenessCheck("deep lift", tolerance, "choose another baseline")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for delta in deltas:
            check(torch.tensor(delta))
    return [str(warning.message) for warning in caught]


def test_the_largest_magnitude_counts_whatever_its_sign():
    (message,) = messages(0.05, [[0.01, -0.5], [0.2, 0.0]])
    assert message.startswith(
        "the scores of deep lift violate completeness by up to 0.5 logits, more than 0.05: choose"
    )


def test_errors_up_to_the_tolerance_and_empty_batches_cause_no_warning():
    assert messages(0.5, [0.5, -0.5], []) == []


def test_a_warning_is_given_once():
    assert len(messages(0.05, [0.01], [1.0], [2.0])) == 1


def test_without_a_tolerance_nothing_is_checked():
    assert messages(None, [100.0]) == []
