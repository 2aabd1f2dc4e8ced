"""Formats tables as text. A table that is too wide is split into blocks of columns, one below the other."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

GAP = 2  # spaces before a column
INDENT = "  "  # indentation of the second and later lines of a row name that is wrapped
HEADER_WIDTH = 10  # headers are wrapped at this width, or at the width of the widest cell or word if that is larger


def terminal_width() -> int:
    """Returns the number of characters in a line of the terminal; 80 if the output goes to a file or pipe.

    Example:
        >>> terminal_width() > 0
        True
    """
    return shutil.get_terminal_size((80, 24)).columns


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        header: name of the column. It may contain line feeds.
        cells: one text for each row.
        group: neighboring columns with the same group are kept in one block if they fit; "" for no group.

    Example:
        >>> Column("passes", ["50", "100"], group="cost").cells
        ['50', '100']
    """

    header: str
    cells: Sequence[str]
    group: str = ""


def text_table(rows: Sequence[str], columns: Sequence[Column], *, title: str = "", width: int = 80) -> str:
    """Returns a table as text, split into blocks of columns if `width` is too small for all of them.

    The blocks are about equally wide, and a blank line separates them.

    Args:
        rows: names of the rows, repeated at the left of every block. Names wider than half of `width` are wrapped.
        columns: columns with a cell for every row. Cells are never wrapped.
        title: text above the first block, wrapped at `width`.
        width: number of characters in a line.

    Example:
        >>> columns = [Column("0", ["90.0", "90.0"]), Column("100", ["50.0", "-"])]
        >>> print(text_table(["random", "gradient"], columns, title="macro_f1 in percent"))
        macro_f1 in percent
                     0   100
        random    90.0  50.0
        gradient  90.0     -
    """
    names = [_wrapped_name(name, width // 2) for name in rows]
    label_width = max((len(line) for lines in names for line in lines), default=0)
    printed = [_PrintedColumn(column, width // 2 - GAP) for column in columns]
    blocks = [_block_text(names, label_width, block) for block in _even_blocks(printed, width - label_width)]
    return "\n".join([*(wrap(title, width) if title else []), "\n\n".join(blocks)])


def wrap(text: str, width: int) -> list[str]:
    """Returns the lines of a text. Lines longer than `width` characters are broken.

    A line is broken after a space or one of the characters / _ . and -, but not after hyphens at the start of a word. A
    part without these is broken only if it is longer than a line.

    Example:
        >>> wrap("token_precision/integrated_gradients", 12)
        ['token_', 'precision/', 'integrated_', 'gradients']
        >>> wrap("integrated", 6)
        ['integr', 'ated']
        >>> wrap("give --preset", 9)
        ['give', '--preset']
    """
    lines = []
    for paragraph in text.split("\n"):
        line = ""
        for part in _unbroken_parts(paragraph):
            for start in range(0, len(part), width):
                piece = part[start : start + width]
                if line and len(line + piece.rstrip()) > width:
                    lines.append(line.rstrip())
                    line = ""
                line += piece
        lines.append(line.rstrip())
    return lines


def _wrapped_name(name: str, width: int) -> list[str]:
    first, *others = wrap(name, width - len(INDENT))
    return [first, *(INDENT + line for line in others)]


def _unbroken_parts(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[ /_.])(?![ /_.])|(?<=[^ -]-)(?![ /_.-])", text) if part]


class _PrintedColumn:
    """A column with its wrapped header, and its width, which includes the gap before the column."""

    def __init__(self, column: Column, max_header_width: int) -> None:
        self.cells, self.group = column.cells, column.group
        cell_width = max(map(len, column.cells), default=0)
        part_width = max((len(part.strip()) for part in _unbroken_parts(column.header)), default=0)
        self.header = wrap(column.header, min(max(HEADER_WIDTH, cell_width, part_width), max_header_width))
        self.width = GAP + max(cell_width, *map(len, self.header))


def _even_blocks(columns: Sequence[_PrintedColumn], width: int) -> list[list[_PrintedColumn]]:
    """Splits columns into the fewest blocks that fit in `width`, and makes the widest block as narrow as possible."""
    groups: list[list[_PrintedColumn]] = []
    for name, members in groupby(columns, key=lambda column: column.group):
        group = list(members)
        together = name and _total_width(group) <= width
        groups += [group] if together else [[column] for column in group]
    blocks = _fill_blocks(groups, width)
    for narrower in range(width - 1, 0, -1):
        narrower_blocks = _fill_blocks(groups, narrower)
        if len(narrower_blocks) > len(blocks):
            break
        blocks = narrower_blocks
    return blocks


def _fill_blocks(groups: Sequence[list[_PrintedColumn]], width: int) -> list[list[_PrintedColumn]]:
    """Puts groups of columns into blocks, in order. A group that does not fit in the last block starts a new block."""
    blocks: list[list[_PrintedColumn]] = []
    for group in groups:
        if blocks and _total_width(blocks[-1] + group) <= width:
            blocks[-1] = blocks[-1] + group
        else:
            blocks.append(list(group))
    return blocks


def _total_width(columns: Sequence[_PrintedColumn]) -> int:
    return sum(column.width for column in columns)


def _block_text(names: Sequence[list[str]], label_width: int, columns: Sequence[_PrintedColumn]) -> str:
    height = max((len(column.header) for column in columns), default=0)
    headers = [[""] * (height - len(column.header)) + column.header for column in columns]  # padded at the top
    lines = [("", [header[line] for header in headers]) for line in range(height)]
    for row, (*above, last) in enumerate(names):
        lines += [(part, [""] * len(columns)) for part in above]
        lines.append((last, [column.cells[row] for column in columns]))
    return "\n".join(_line(label.ljust(label_width), cells, columns) for label, cells in lines)


def _line(label: str, cells: Sequence[str], columns: Sequence[_PrintedColumn]) -> str:
    shown = (cell.rjust(column.width) for cell, column in zip(cells, columns, strict=True))
    return (label + "".join(shown)).rstrip()
