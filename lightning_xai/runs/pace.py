"""Decides when the next progress line is due, and estimates the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_LINE, EVERY = 10.0, 30.0  # seconds until the first line, and from one line to the next


def duration(seconds: float) -> str:
    """Returns a duration as text, rounded to minutes.

    Example:
        >>> duration(20), duration(170), duration(7500)
        ('under 1 min', 'about 3 min', 'about 2 h 5 min')
    """
    minutes = round(seconds / 60)
    if seconds < 60:
        return "under 1 min"
    return f"about {minutes} min" if minutes < 60 else f"about {minutes // 60} h {minutes % 60} min"


def time_left(seconds: float | None) -> str:
    """Returns the end of a progress line, such as ", about 3 min left"; "" if the time is unknown.

    Example:
        >>> time_left(170), time_left(None)
        (', about 3 min left', '')
    """
    return "" if seconds is None else f", {duration(seconds)} left"


class Pace:
    """Decides when the next progress line is due, and estimates the remaining time from this process's speed so far.

    Args:
        first: seconds until the first line is due.
        every: seconds from one line to the next.
        clock: function that returns the time in seconds.

    Example:
        >>> now = [0.0]
        >>> pace = Pace(clock=lambda: now[0])
        >>> now[0] = 12.0
        >>> pace.is_due(), pace.is_due(), pace.seconds_left(done=3, total=10)
        (True, False, 28.0)
    """

    def __init__(
        self, *, first: float = FIRST_LINE, every: float = EVERY, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._every = clock, every
        self._began = clock()
        self._next = self._began + first

    def is_due(self) -> bool:
        """Returns whether a line is due. If so, the next line is due `every` seconds later."""
        due = self._clock() >= self._next
        if due:
            self.has_spoken()
        return due

    def has_spoken(self) -> None:
        """Records that a line was printed, so that the next line is due `every` seconds later."""
        self._next = self._clock() + self._every

    def seconds_left(self, *, done: float, total: float) -> float | None:
        """Returns the estimated remaining seconds; None if no work is done yet or `total` is infinite.

        Args:
            done: work that this process has done so far, without the work of an earlier, killed process.
            total: all work of this process.
        """
        if done <= 0 or total == float("inf"):
            return None
        return (self._clock() - self._began) / done * max(0.0, total - done)
