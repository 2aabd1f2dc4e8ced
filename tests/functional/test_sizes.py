"""Sizes in options that leave nothing are refused by name."""

import pytest

from lightning_xai.functional.sizes import max_examples_of, require_max_examples, require_sizes, require_workers


def test_a_size_below_one_is_named_and_none_is_no_limit():
    require_sizes(batch_size=1, max_tokens_per_batch=None)
    with pytest.raises(ValueError, match="max_tokens_per_batch is 0: give a number of at least 1"):
        require_sizes(batch_size=8, max_tokens_per_batch=0)


@pytest.mark.parametrize(
    ("limit", "name"), [(0, "max_examples is 0"), ({"train": 8, "test": -1}, "max_examples.test is -1")]
)
def test_a_limit_of_no_examples_is_refused_with_its_split(limit, name):
    with pytest.raises(ValueError, match=name):
        require_max_examples(limit)


def test_a_split_without_a_limit_has_all_its_examples():
    assert [max_examples_of({"train": 8}, split) for split in ("train", "test")] == [8, None]
    assert [max_examples_of(5, split) for split in ("train", "test")] == [5, 5]


def test_no_worker_is_allowed_and_fewer_are_refused():
    require_workers(0)
    with pytest.raises(ValueError, match="num_workers is -1: give 0 to load data in the main process"):
        require_workers(-1)
