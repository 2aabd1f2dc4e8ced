"""Draws heatmaps as images, for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from lightning_xai.report.characters import (
    cluster_bounds,
    direction,
    joined_ends,
    mirrored,
    piece_directions,
    piece_levels,
    printable,
    visual_order,
)
from lightning_xai.report.fonts import glyph_runs, length, without_glyph
from lightning_xai.report.heatmap import (
    EVIDENCE,
    Color,
    ExplainedDocument,
    Piece,
    background_color,
    class_status,
    method_pieces,
)

MARGIN, TEXT_SIZE, SMALL_SIZE, LINE_HEIGHT = 20, 16, 13, 24
GRAY = (110, 110, 110)


class PlacedPiece(NamedTuple):
    """A piece of a text with its position in a line.

    Attributes:
        x: distance in pixels from the left end of the line.
        width: width in pixels.
        shown: the characters to draw, with a joiner at each end where the piece continues a cursive word.
        piece: the characters of the source text, with their score and evidence.

    Example:
        >>> PlacedPiece(0.0, 30.0, "good", Piece("good", score=1.0, evidence=False)).shown
        'good'
    """

    x: float
    width: float
    shown: str
    piece: Piece


def image(document: ExplainedDocument, class_position: int = 0, width: int = 1000) -> np.ndarray:
    """Returns an RGB image [height, width, 3] uint8 for one explained class. It shows the text once for each method.

    If no installed font has a glyph for some of the characters, the last line of the image says so.

    Args:
        document: a text with scores.
        class_position: index of the class in `document.classes`.
        width: width of the image in pixels.

    Example:
        >>> from lightning_xai.report.heatmap import ExplainedClass
        >>> positive = ExplainedClass("positive", 0.75, gold=True, predicted=True, scores={"ig": np.array([4.0])})
        >>> image(ExplainedDocument("text 0", "good", np.array([[0, 4]]), [positive]), width=300).shape
        (104, 300, 3)
    """
    explained = document.classes[class_position]
    status = class_status(explained)
    header = f"{document.name}   class: {explained.name}   p = {explained.probability:.3f}"
    blocks = {
        method: list(placed_lines(method_pieces(document, explained, method), width - 2 * MARGIN))
        for method in explained.scores
    }
    missing = without_glyph(printable(document.text))
    height = 44 + sum(36 + LINE_HEIGHT * len(lines) for lines in blocks.values()) + (LINE_HEIGHT if missing else 0)
    canvas = Image.new("RGB", (width, height), "white")
    _write(canvas, 12, printable(header + (f"   ({status})" if status else "")), TEXT_SIZE, (20, 20, 20))
    y = 44
    for method, lines in blocks.items():
        has_sign = method not in explained.magnitudes
        _write(canvas, y, method if has_sign else f"{method}, without a sign", SMALL_SIZE, GRAY)
        y += 22
        for line in lines:
            for placed in line:
                _draw_piece(canvas, y, placed, has_sign=has_sign)
            y += LINE_HEIGHT
        y += 14
    if missing:
        named = ", ".join(f"U+{ord(character[0]):04X}" for character in missing[:3])
        note = f"no installed font has glyphs for {len(missing)} characters ({named}): install a font such as Noto Sans"
        _write(canvas, y - 6, note, SMALL_SIZE, GRAY)
    return np.asarray(canvas)


def placed_lines(pieces: Sequence[Piece], width: float) -> Iterator[list[PlacedPiece]]:
    """Yields the lines of a text as pieces with positions. The text's first letter decides the writing direction.

    A line ends at a line feed, or before a piece that does not fit in `width`. A piece wider than a line is cut.

    Example:
        >>> pieces = [Piece("good", 1.0, False), Piece(" ", None, False), Piece("plot", 0.5, False)]
        >>> [[placed.shown for placed in line] for line in placed_lines(pieces, width=50)]
        [['good', ' '], ['plot']]
    """
    base = direction("".join(piece.text for piece in pieces)) or "left"
    for line in _lines(pieces, width):
        directions = piece_directions([placed.piece.text for placed in line])
        levels = piece_levels(directions, base)
        x = 0.0 if base == "left" else width - sum(placed.width for placed in line)
        arranged = []
        for place in visual_order(levels):
            # brackets in right-to-left text are shown mirrored. In a piece with letters, they are mirrored when the
            # piece is drawn. In other pieces, they are mirrored here
            is_mirrored = levels[place] % 2 == 1 and directions[place] is None
            shown = mirrored(line[place].shown) if is_mirrored else line[place].shown
            arranged.append(line[place]._replace(x=x, shown=shown))
            x += line[place].width
        yield arranged


def _lines(pieces: Sequence[Piece], width: float) -> Iterator[list[PlacedPiece]]:
    """Yields the lines of a text as pieces in reading order. The positions `x` of the pieces are not set yet."""
    line: list[PlacedPiece] = []
    used = 0.0
    pieces = [part for piece in pieces for part in _parts_within(piece, width)]
    for number, piece in enumerate(pieces):
        before = pieces[number - 1].text if number else ""
        after = pieces[number + 1].text if number + 1 < len(pieces) else ""
        for position, part in enumerate(piece.text.split("\n")):
            shown = joined_ends(before, printable(part), after)
            if position or (line and used + length(shown, TEXT_SIZE) > width):
                yield line
                line, used, part = [], 0.0, part.lstrip()
                shown = joined_ends(before, printable(part), after)
            if part:
                needed = length(shown, TEXT_SIZE)
                line.append(PlacedPiece(0.0, needed, shown, piece._replace(text=part)))
                used += needed
    yield line


def _parts_within(piece: Piece, width: float) -> Iterator[Piece]:
    """Yields the parts into which a piece is cut; a piece that fits in `width` stays whole."""
    if all(length(printable(part), TEXT_SIZE) <= width for part in piece.text.split("\n")):
        yield piece
        return
    bounds = cluster_bounds(piece.text)
    start, used = 0, 0.0
    for begin, end in zip(bounds, bounds[1:], strict=False):
        needed = length(printable(piece.text[begin:end]).strip("\n"), TEXT_SIZE)
        if used + needed > width and begin > start:
            yield piece._replace(text=piece.text[start:begin])
            start, used = begin, 0.0
        used += needed
    yield piece._replace(text=piece.text[start:])


def _draw_piece(canvas: Image.Image, y: int, placed: PlacedPiece, *, has_sign: bool) -> None:
    draw = ImageDraw.Draw(canvas)
    x, end = MARGIN + placed.x, MARGIN + placed.x + placed.width
    if placed.piece.score is not None:
        draw.rectangle((x, y, end, y + 20), fill=background_color(placed.piece.score, has_sign=has_sign))
    _write(canvas, y, placed.shown, TEXT_SIZE, (0, 0, 0), x)
    if placed.piece.evidence:
        draw.line((x, y + 21, end, y + 21), fill=EVIDENCE, width=2)


def _write(canvas: Image.Image, y: float, text: str, size: int, color: Color, x: float = MARGIN) -> None:
    runs = list(glyph_runs(text, size))
    if direction(text) == "right":
        runs.reverse()
    for run in runs:
        run.draw(canvas, x, y + size, color)  # all fonts share one baseline
        x += run.width
