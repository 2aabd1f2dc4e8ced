"""The sampler: partitions, budgets, determinism, and shares of processes."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from lightning_xai.data.batches.sampler import LengthBucketSampler, bucket_rows, evaluation_batches, padding_fraction

LENGTHS = np.random.default_rng(0).integers(3, 200, size=997)


def sampler(lengths: np.ndarray = LENGTHS, **options: Any) -> LengthBucketSampler:
    defaults: dict[str, Any] = {"batch_size": 16, "max_tokens": 1024, "shuffle": True}
    return LengthBucketSampler(TensorDataset(torch.from_numpy(lengths)), lengths, **(defaults | options))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("num_rows", [1, 2, 15, 16, 17, 997])
def test_batches_partition_the_rows(shuffle, num_rows):
    rows = [row for batch in sampler(LENGTHS[:num_rows], shuffle=shuffle) for row in batch]
    assert sorted(rows) == list(range(num_rows))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("max_tokens", [200, 1024, None])
def test_every_batch_obeys_both_limits(shuffle, max_tokens):
    for batch in sampler(shuffle=shuffle, max_tokens=max_tokens):
        assert 1 <= len(batch) <= 16
        assert max_tokens is None or len(batch) * LENGTHS[batch].max() <= max_tokens


def test_number_of_batches_is_the_same_every_epoch():
    one = sampler()
    for epoch in range(5):
        one.set_epoch(epoch)
        assert len(list(one)) == len(one)


def test_epochs_differ_and_repeat_exactly():
    one, other = sampler(), sampler()
    first = list(one)
    one.set_epoch(1)
    assert list(one) != first
    other.set_epoch(1)
    assert list(one) == list(other)


def test_batches_are_arrays_of_4_bytes_a_row():
    batches = sampler().batches()
    assert batches.rows.dtype == np.int32 and batches.rows.shape == (len(LENGTHS),)
    assert batches.order is not None and batches.order.shape == (len(batches),) and batches.bounds.ndim == 1


def test_the_width_of_row_numbers_does_not_change_the_shuffling():
    narrow, wide = (np.random.default_rng(3).permutation(np.arange(997, dtype=kind)) for kind in ("i4", "i8"))
    assert np.array_equal(narrow, wide)


def test_seeds_differ():
    assert list(sampler(seed=0)) != list(sampler(seed=1))


def test_companions_of_a_row_change_between_epochs():
    one = sampler()
    companions = []
    for epoch in range(2):
        one.set_epoch(epoch)
        companions.append(next(set(batch) for batch in one if 0 in batch))
    assert companions[0] != companions[1]


def test_evaluation_goes_from_long_to_short_and_ignores_the_epoch():
    one = sampler(shuffle=False)
    first = list(one)
    one.set_epoch(3)
    assert list(one) == first
    assert (np.diff([LENGTHS[row] for batch in first for row in batch]) <= 0).all()


def test_row_over_the_budget_is_a_batch_of_its_own():
    assert list(evaluation_batches(np.array([5, 100, 5]), 16, 50)) == [[1], [0, 2]]


def test_buckets_partition_the_rows():
    rows = np.concatenate([rows for rows, _ in bucket_rows(LENGTHS, 16, 1024)])
    assert sorted(rows) == list(range(len(LENGTHS)))


def test_padding_fraction_by_hand():
    # 4 + 2 tokens in 2 x 4 places, 3 in 3
    assert padding_fraction(np.array([4, 2, 3]), [[0, 1], [2]]) == pytest.approx(2 / 11)


def test_bucketing_pads_far_less_than_chance():
    order = np.random.default_rng(0).permutation(len(LENGTHS))
    random = padding_fraction(LENGTHS, [order[i : i + 16].tolist() for i in range(0, len(order), 16)])
    assert random > 0.4
    assert padding_fraction(LENGTHS, list(sampler())) < 0.1


def share(rank, world_size, folder):
    init = f"file://{folder}/init"
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world_size, init_method=init)
    batches_of: dict[tuple[int, bool], list[list[int]]] = {}
    for num_rows in (1, 17, 997):
        for shuffle in (True, False):
            one = sampler(LENGTHS[:num_rows], shuffle=shuffle)
            batches = list(one)
            assert len(batches) == len(one)
            batches_of[num_rows, shuffle] = batches
    torch.save(batches_of, f"{folder}/{rank}")
    torch.distributed.barrier()  # a process that ends early would break the other's connection
    torch.distributed.destroy_process_group()


def test_two_processes_share_all_rows_in_equally_many_batches(tmp_path):
    torch.multiprocessing.start_processes(share, (2, str(tmp_path)), nprocs=2, start_method="fork")
    first, second = (torch.load(tmp_path / str(rank)) for rank in range(2))
    for (num_rows, shuffle), batches in first.items():
        others = second[num_rows, shuffle]
        assert len(batches) == len(others)
        assert {row for batch in batches + others for row in batch} == set(range(num_rows))
        repeated = sum(map(len, batches + others)) - num_rows
        assert repeated <= len(batches[0])
