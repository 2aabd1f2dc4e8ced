"""Shows the progress of a long loop: on a terminal, as one line that changes; in a file, as a new line every 30 s."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from lightning_xai.runs.pace import Pace, time_left
from lightning_xai.runs.progress import say
from lightning_xai.runs.ranks import rank

Item = TypeVar("Item")

ERASE_LINE = "\r\x1b[K"


class Counted:
    """Counts the items that this process has finished. Only the first process shows its count.

    Args:
        title: description of the loop; each line starts with it.
        total: number of items that this process handles.
        pace: decides when the next line is due. None means a line every 30 s in a file, and two updates per second on a
            terminal.

    Example:
        >>> counted = Counted("encoding train", total=3, pace=Pace(first=0, every=0))
        >>> for texts in counted.over([["good", "bad"], ["fine"]], len):
        ...     pass
        encoding train: 2 of 3, under 1 min left
        encoding train: 3 of 3
    """

    def __init__(self, title: str, total: float, pace: Pace | None = None) -> None:
        self.title, self.total = title, total
        self.done = 0.0
        self._is_terminal = sys.stdout.isatty()
        self._pace = pace or (Pace(first=1.0, every=0.5) if self._is_terminal else Pace())
        self._has_line = False

    def over(self, items: Iterable[Item], size: Callable[[Item], float]) -> Iterator[Item]:
        """Yields the items. After the loop has handled an item, `size(item)` is added to the count."""
        try:
            for item in items:
                yield item
                self.add(size(item))
        finally:
            self._erase()

    def add(self, amount: float) -> None:
        """Counts `amount` more items as finished."""
        self.done += amount
        if rank() != 0 or not self._pace.is_due():
            return
        left = None if self.done >= self.total else self._pace.seconds_left(done=self.done, total=self.total)
        line = f"{self.title}: {min(self.done, self.total):,.0f} of {self.total:,.0f}{time_left(left)}"
        if self._is_terminal:
            sys.stdout.write(ERASE_LINE + line[: shutil.get_terminal_size().columns - 1])
            sys.stdout.flush()
            self._has_line = True
        else:
            say(line)

    def _erase(self) -> None:
        """Erases the progress line on the terminal."""
        if self._has_line:
            sys.stdout.write(ERASE_LINE)
            sys.stdout.flush()
