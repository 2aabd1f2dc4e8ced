import math
import mmap

import pytest
import torch

from lightning_xai.callbacks.cost import Cost, resident_memory, start_peak_memory
from lightning_xai.functional.erasure.segment_counts import SegmentCounts, SegmentsOfVersions
from lightning_xai.types import Passes


def peak_of(megabytes: int) -> float:
    """Returns the measured peak while so many megabytes are taken and freed."""
    peak = start_peak_memory(torch.device("cpu"))
    with mmap.mmap(-1, megabytes * 2**20) as pages:  # fresh pages, not what earlier tests freed into the heap
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1
    return peak()


def test_peak_memory_on_the_cpu_is_what_was_taken_and_freed(memory_is_measured):
    assert 60 < peak_of(64) < 80


@pytest.mark.slow
def test_peak_memory_starts_again_for_every_method(memory_is_measured):
    peak_of(256)
    assert peak_of(64) < 80


def test_a_device_without_a_counter_has_no_peak_memory():
    assert math.isnan(start_peak_memory(torch.device("meta"))())


def test_memory_now_is_at_most_its_peak(memory_is_measured):
    now, peak = resident_memory()
    assert 0 < now < peak + 4


def cost_of(batches: list[list[int]], split: str = "test") -> Cost:
    """Returns the cost of batches of examples; example i needs i forward passes, and every batch one second."""
    cost = Cost()
    for index in batches:
        cost.add(split, index, [Passes(i, 0.5) for i in index], seconds=1.0, peak_memory_mb=len(index))
    return cost


def test_an_example_has_the_mean_of_passes_and_seconds_and_the_largest_memory():
    cost = Cost()
    cost.add("test", [0], [Passes(4, 2)], seconds=0.5, peak_memory_mb=10)
    cost.add("test", [3, 1, 2], [Passes(0, 2), Passes(0, 0), Passes(0, 0)], seconds=1.5, peak_memory_mb=7)
    cost.add("test", [], [], seconds=0, peak_memory_mb=math.nan)  # a batch whose memory is unknown
    cost.add("test", [], [], seconds=0, peak_memory_mb=2)
    assert list(cost.per_example("test").values()) == [1, 1, 0.5, 10]


def test_every_split_has_its_own_cost():
    cost = cost_of([[0, 1]], "validation")
    cost.add("test", [0], [Passes(9, 9)], seconds=3.0, peak_memory_mb=5)
    assert list(cost.per_example("validation").values()) == [0.5, 0.5, 0.5, 2]
    assert list(cost.per_example("test").values()) == [9, 9, 3, 5]
    assert cost.num_examples("other") == 0 and math.isnan(cost.per_example("other")["peak_memory_mb"])


@pytest.mark.parametrize(
    "ranks",
    [
        [[[5, 4], [3, 2], [1, 0]]],
        [[[5, 4], [1, 0]], [[3, 2], [5, 4]]],  # the sampler repeats the first batch
        [[[5, 4]], [[3, 2]], [[1, 0]]],
        [[[5, 4], [1, 0]], [[3, 2], [5, 4]], []],
    ],
    ids=["one", "two", "three", "empty"],
)
def test_passes_are_equal_for_every_number_of_processes(ranks):
    total = Cost.total(cost_of(batches) for batches in ranks)
    assert total.num_examples("test") == 6
    cost = total.per_example("test")
    assert (cost["forward_passes"], cost["backward_passes"], cost["peak_memory_mb"]) == (2.5, 0.5, 2)
    assert cost["seconds"] == pytest.approx(3 / 6)  # three batches of one second; the repeated one does not count


def test_a_method_belongs_to_the_group_of_its_mean_passes():
    cost = Cost()
    cost.add("test", [0], [Passes(2, 0)], 1.0, 1, num_targets=[1], num_tokens=[9])
    assert cost.group("test") == "1 + K"
    cost.add("test", [1], [Passes(60, 0)], 1.0, 1, num_targets=[1], num_tokens=[99])
    assert cost.group("test") == "up to N"  # 31 passes, 54 tokens
    assert cost.group("validation") == "" and cost_of([[0, 1]]).group("test") == ""


def test_segments_of_versions_are_those_of_distinct_examples():
    def cost_of(*texts):
        cost, segments = Cost(), SegmentCounts()
        segments.add(texts, *[SegmentsOfVersions(10, 470, 10 + text) for text in texts])
        cost.add("test", texts, [Passes(10, 0)] * len(texts), seconds=1, peak_memory_mb=1, segments=segments)
        return cost

    total = Cost.total([cost_of(0, 2), cost_of(1, 0)]).per_example("test")  # two processes; text 0 counts once
    assert total["version_segments"] == 47 and total["encoded_segments"] == pytest.approx((10 + 11 + 12) / 30)


def test_a_method_without_versions_has_no_segments():
    cost = Cost()
    cost.add("test", [0], [Passes(1, 1)], seconds=1, peak_memory_mb=1, segments=SegmentCounts())
    assert "encoded_segments" not in cost.per_example("test")
