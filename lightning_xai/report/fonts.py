"""Chooses fonts for images: for each character, the first installed font that has a glyph for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from PIL import ImageFont

from lightning_xai.report.characters import cluster_bounds

_WITHOUT_SHAPE = frozenset("\u200c\u200d\ufe0e\ufe0f")  # joiners and variation selectors, which need no glyph
# font families that cover many scripts, tried before other installed fonts
_PREFERRED = ("NotoSans", "NotoSansCJK", "SourceHanSans", "WenQuanYi", "DroidSansFallback", "Unifont", "NotoEmoji")


class GlyphRun(NamedTuple):
    """A part of a text that is drawn in one font.

    Attributes:
        text: the characters of the part.
        font: the font. Characters that no font has are drawn in the first font, as boxes.

    Example:
        >>> (run,) = glyph_runs("good", 16)
        >>> run.text, run.font.size
        ('good', 16)
    """

    text: str
    font: ImageFont.FreeTypeFont


@cache
def font_files() -> tuple[str, ...]:
    """Returns the available font files: DejaVu Sans, which comes with matplotlib, then the installed fonts.

    Example:
        >>> Path(font_files()[0]).name
        'DejaVuSans.ttf'
    """
    first = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")

    def rank(file: str) -> tuple[int, str]:
        name = Path(file).name
        return next((i for i, family in enumerate(_PREFERRED) if name.startswith(family)), len(_PREFERRED)), name

    return first, *sorted(font_manager.findSystemFonts(), key=rank)


@cache
def _characters_of(file: str) -> frozenset[int]:
    try:
        return frozenset(FT2Font(file).get_charmap())
    except (RuntimeError, OSError):  # for example a bitmap font, which has no scalable outlines
        return frozenset()


@cache
def font_file(cluster: str) -> str | None:
    """Returns the first font file that has all characters of a grapheme cluster, or None if no font has them.

    Example:
        >>> Path(font_file("a") or "").name, font_file(chr(0x10FFFE))
        ('DejaVuSans.ttf', None)
    """
    needed = {ord(character) for character in cluster if character not in _WITHOUT_SHAPE and not character.isspace()}
    return next((file for file in font_files() if needed <= _characters_of(file)), None)


@cache
def _font(file: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(file, size)


def glyph_runs(text: str, size: int) -> Iterator[GlyphRun]:
    """Yields the consecutive parts of a text, each with its font.

    Args:
        text: one line.
        size: font size in pixels.

    Example:
        >>> [run.text for run in glyph_runs("one font", 16)]
        ['one font']
    """
    run, current = "", font_files()[0]
    bounds = cluster_bounds(text)
    for begin, end in zip(bounds, bounds[1:], strict=False):
        file = font_file(text[begin:end]) or font_files()[0]
        if file != current and run:
            yield GlyphRun(run, _font(current, size))
            run = ""
        run, current = run + text[begin:end], file
    if run:
        yield GlyphRun(run, _font(current, size))


def length(text: str, size: int) -> float:
    """Returns the width of a text in pixels.

    Example:
        >>> length("", 16), length("wide", 16) > length("i", 16)
        (0.0, True)
    """
    return sum((run.font.getlength(run.text) for run in glyph_runs(text, size)), 0.0)


def without_glyph(text: str) -> list[str]:
    """Returns the distinct grapheme clusters of a text that no font can draw, in order.

    Example:
        >>> without_glyph("a" + chr(0x10FFFE)) == [chr(0x10FFFE)]
        True
    """
    bounds = cluster_bounds(text)
    clusters = (text[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False))
    return list(dict.fromkeys(cluster for cluster in clusters if font_file(cluster) is None))
