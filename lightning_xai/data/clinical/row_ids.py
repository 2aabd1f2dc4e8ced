"""A small set of the ROW_IDs of a table, which finds repeated rows."""

from __future__ import annotations

PAGE = 2**16  # ids in a page, which is a bitmap of 8 kB


class RowIds:
    """A set of whole numbers, stored as bitmaps for blocks of 65,536 numbers.

    MIMIC-III numbers the rows of a table from 1. So its 2.08 million notes take 32 pages, 0.26 MB in total. A Python
    set would take over 100 MB.

    Example:
        >>> seen = RowIds()
        >>> seen.add(7), seen.add(8), seen.add(7)
        (True, True, False)
    """

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}

    def add(self, row_id: int) -> bool:
        """Adds a number, and returns whether it is new."""
        number, place = divmod(row_id, PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = bytearray(PAGE // 8)
        byte, bit = place // 8, 1 << place % 8
        is_new = not page[byte] & bit
        page[byte] |= bit
        return is_new
