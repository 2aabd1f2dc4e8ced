"""Lines about progress with a clock that the tests move."""

import io
import sys

import pytest

from lightning_xai.runs.counted import Counted
from lightning_xai.runs.pace import Pace, duration, time_left


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "under 1 min"),
        (59.9, "under 1 min"),
        (60, "about 1 min"),
        (3590, "about 1 h 0 min"),
        (9000, "about 2 h 30 min"),
    ],
)
def test_durations_are_rounded_to_minutes(seconds, words):
    assert duration(seconds) == words


def test_unknown_time_is_left_out():
    assert time_left(None) == ""


def test_first_line_comes_early_and_others_at_equal_intervals(clock):
    pace, spoken = Pace(first=10, every=30, clock=clock), []
    for second in range(100):
        clock.now = 100.0 + second
        if pace.is_due():
            spoken.append(second)
    assert spoken == [10, 40, 70]


def test_other_line_postpones_the_next(clock):
    pace = Pace(first=10, every=30, clock=clock)
    clock.now += 9
    pace.has_spoken()
    clock.now += 29
    assert not pace.is_due()
    clock.now += 1
    assert pace.is_due()


def test_time_left_follows_the_mean_speed(clock):
    pace = Pace(clock=clock)
    assert pace.seconds_left(done=0, total=10) is None
    clock.now += 20
    assert pace.seconds_left(done=4, total=10) == pytest.approx(30)
    assert pace.seconds_left(done=4, total=float("inf")) is None
    assert pace.seconds_left(done=12, total=10) == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_has_one_line_that_is_erased_at_the_end(monkeypatch, clock):
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    counted = Counted("encoding train", 4, Pace(first=0, every=1, clock=clock))
    for _ in counted.over(range(4), lambda _: 1):
        clock.now += 2
    written = terminal.getvalue()
    assert "\n" not in written and written.count("encoding train: ") == 4
    assert "encoding train: 2 of 4, under 1 min left" in written and written.endswith("\r\x1b[K")


def test_file_has_whole_lines_and_a_short_loop_has_none(capsys, clock):
    for seconds in (1, 20):
        for _ in Counted("encoding train", 3000, Pace(clock=clock)).over([1000, 2000], lambda size: size):
            clock.now += seconds
    assert capsys.readouterr().out == "encoding train: 1,000 of 3,000, under 1 min left\n"


def test_only_the_first_process_counts_aloud(capsys, monkeypatch, clock):
    monkeypatch.setenv("RANK", "1")
    list(Counted("encoding train", 2, Pace(first=0, every=0, clock=clock)).over([1, 2], float))
    assert capsys.readouterr().out == ""
