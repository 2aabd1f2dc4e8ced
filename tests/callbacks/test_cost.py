import math
import mmap

import torch

from lightning_xai.callbacks.cost import Cost, resident_memory, start_peak_memory


def peak_of(megabytes: int) -> float:
    """Returns the measured peak while so many megabytes are taken and freed."""
    peak = start_peak_memory(torch.device("cpu"))
    with mmap.mmap(-1, megabytes * 2**20) as pages:  # fresh pages, not what earlier tests freed into the heap
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1
    return peak()


def test_peak_memory_on_the_cpu_is_what_was_taken_and_freed(memory_is_measured):
    assert 60 < peak_of(64) < 80


def test_peak_memory_starts_again_for_every_method(memory_is_measured):
    peak_of(256)
    assert peak_of(64) < 80


def test_a_device_without_a_counter_has_no_peak_memory():
    assert math.isnan(start_peak_memory(torch.device("meta"))())


def test_memory_now_is_at_most_its_peak(memory_is_measured):
    now, peak = resident_memory()
    assert 0 < now < peak + 4


def test_an_example_has_the_mean_of_passes_and_seconds_and_the_largest_memory():
    cost = Cost()
    cost.add(1, forward=4, backward=2, seconds=0.5, peak_memory_mb=10)
    cost.add(3, forward=0, backward=2, seconds=1.5, peak_memory_mb=7)
    cost.add(0, forward=0, backward=0, seconds=0, peak_memory_mb=math.nan)  # a batch whose memory is unknown
    cost.add(0, forward=0, backward=0, seconds=0, peak_memory_mb=2)
    assert list(cost.per_example().values()) == [1, 1, 0.5, 10]
