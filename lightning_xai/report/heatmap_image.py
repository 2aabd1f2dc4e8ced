"""Heatmaps as images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import cast

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lightning_xai.report.heatmap import (
    EVIDENCE,
    ExplainedDocument,
    Piece,
    background_color,
    class_status,
    method_pieces,
)


def image(document: ExplainedDocument, class_position: int = 0, width: int = 1000) -> np.ndarray:
    """Returns an RGB picture [height, width, 3] uint8 of one explained class, with a block of text for each method.

    Args:
        document: a text with scores.
        class_position: index of the class in `document.classes`.
        width: width of the picture in pixels.

    Example:
        >>> from lightning_xai.report.heatmap import ExplainedClass
        >>> positive = ExplainedClass("positive", 0.75, gold=True, predicted=True, scores={"ig": np.array([4.0])})
        >>> image(ExplainedDocument("text 0", "good", np.array([[0, 4]]), [positive]), width=300).shape
        (104, 300, 3)
    """
    explained = document.classes[class_position]
    font, small_font = _font(16), _font(13)
    status = class_status(explained)
    header = f"{document.name}   class: {explained.name}   p = {explained.probability:.3f}"
    blocks = [
        (method, _wrapped_pieces(method_pieces(document, explained, method), font, width - 40))
        for method in explained.scores
    ]
    height = 44 + sum(26 + 24 * len(lines) + 10 for _, lines in blocks)
    canvas = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(canvas)
    draw.text((20, 12), header + (f"   ({status})" if status else ""), fill=(20, 20, 20), font=font)
    y = 44
    for method, lines in blocks:
        draw.text((20, y), method, fill=(110, 110, 110), font=small_font)
        y += 22
        for line in lines:
            for x, piece in line:
                end = 20 + x + font.getlength(piece.text)
                if piece.score is not None:
                    draw.rectangle((20 + x, y, end, y + 20), fill=background_color(piece.score))
                draw.text((20 + x, y), piece.text, fill=(0, 0, 0), font=font)
                if piece.evidence:
                    draw.line((20 + x, y + 21, end, y + 21), fill=EVIDENCE, width=2)
            y += 24
        y += 14
    return np.asarray(canvas)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    return cast(ImageFont.FreeTypeFont, ImageFont.load_default(size))  # without a size, Pillow loads a bitmap font


def _wrapped_pieces(
    pieces: Sequence[Piece], font: ImageFont.FreeTypeFont, width: int
) -> list[list[tuple[float, Piece]]]:
    """Returns lines of (x, piece), x in pixels; a line ends at a line feed or before a piece that exceeds `width`."""
    lines: list[list[tuple[float, Piece]]] = []
    line: list[tuple[float, Piece]] = []
    x = 0.0
    for piece in pieces:
        for position, part in enumerate(piece.text.split("\n")):
            if position or (x and x + font.getlength(part) > width):
                lines.append(line)
                line, x = [], 0.0
                part = part.lstrip()
            if part:
                line.append((x, piece._replace(text=part)))
                x += font.getlength(part)
    return [*lines, line]
