"""Chooses fonts for texts in images. Each grapheme cluster gets the first available font with all its characters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont

from lightning_xai.report.characters import cluster_bounds

_WITHOUT_SHAPE = frozenset("\u200c\u200d\ufe0e\ufe0f")  # joiners and variation selectors, which need no glyph
# font families that cover many scripts, tried before other installed fonts
_PREFERRED = ("NotoColorEmoji", "NotoSans", "NotoSansCJK", "SourceHanSans", "WenQuanYi", "DroidSansFallback", "Unifont")
_STYLES = ("Bold", "Black", "Light", "Thin", "Italic", "Oblique", "Medium")  # tried after a family's regular fonts
_BITMAP_SIZES = (109, 160, 128, 96, 64)  # possible pixel sizes of fonts whose glyphs are colored pictures


class GlyphRun(NamedTuple):
    """A part of a text that is drawn in one font.

    Attributes:
        text: the characters of the part.
        font: the font. Characters that no font has are drawn in the first font, as boxes.
        scale: factor by which the glyphs are scaled: 1, except for a font whose glyphs are pictures of one fixed size,
            such as colored emoji.

    Example:
        >>> (run,) = glyph_runs("good", 16)
        >>> run.text, run.font.size, run.scale
        ('good', 16, 1.0)
    """

    text: str
    font: ImageFont.FreeTypeFont
    scale: float = 1.0

    @property
    def width(self) -> float:
        """Width in pixels."""
        return self.scale * self.font.getlength(self.text)

    def draw(self, canvas: Image.Image, x: float, baseline: float, color: tuple[int, int, int]) -> None:
        """Draws this part of the text on an image, from `x` to the right."""
        if self.scale == 1.0:
            ImageDraw.Draw(canvas).text((x, baseline), self.text, fill=color, font=self.font, anchor="ls")
            return
        left, top, right, bottom = (round(side) for side in self.font.getbbox(self.text, anchor="ls"))
        picture = Image.new("RGBA", (max(right - left, 1), max(bottom - top, 1)))
        ImageDraw.Draw(picture).text(
            (-left, -top), self.text, fill=color, font=self.font, anchor="ls", embedded_color=True
        )
        small = picture.resize([max(round(self.scale * side), 1) for side in picture.size])
        canvas.paste(small, (round(x + self.scale * left), round(baseline + self.scale * top)), small)


@cache
def font_files() -> tuple[str, ...]:
    """Returns the available font files: DejaVu Sans, which comes with matplotlib, then the installed fonts.

    Example:
        >>> Path(font_files()[0]).name
        'DejaVuSans.ttf'
    """
    first = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")

    def rank(file: str) -> tuple[int, bool, str]:
        name = Path(file).name
        place = next((i for i, family in enumerate(_PREFERRED) if name.startswith(family)), len(_PREFERRED))
        return place, any(style in name for style in _STYLES), name

    return first, *sorted(font_manager.findSystemFonts(), key=rank)


@cache
def _characters_of(file: str) -> frozenset[int]:
    try:
        _font(file, _BITMAP_SIZES[0])
        return frozenset(FT2Font(file).get_charmap())
    except (RuntimeError, OSError):  # for example, a bitmap font that Pillow cannot read
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
def _font(file: str, size: int) -> tuple[ImageFont.FreeTypeFont, float]:
    """Returns a font, and the factor by which its glyphs must be scaled to have the font size `size`.

    Raises:
        OSError: the file is not a font, or its glyphs are pictures whose sizes are neither `size` nor in
            `_BITMAP_SIZES`.
    """
    for tried in (size, *_BITMAP_SIZES):
        try:
            return ImageFont.truetype(file, tried), size / tried
        except OSError as error:
            if "pixel size" not in str(error):
                raise
    raise OSError(f"{file} has no glyphs in any of the sizes {_BITMAP_SIZES}")


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
            yield GlyphRun(run, *_font(current, size))
            run = ""
        run, current = run + text[begin:end], file
    if run:
        yield GlyphRun(run, *_font(current, size))


def length(text: str, size: int) -> float:
    """Returns the width of a text in pixels.

    Example:
        >>> length("", 16), length("wide", 16) > length("i", 16)
        (0.0, True)
    """
    return sum((run.width for run in glyph_runs(text, size)), 0.0)


def without_glyph(text: str) -> list[str]:
    """Returns those grapheme clusters of a text that no font can draw, each only once, in order.

    Example:
        >>> without_glyph("a" + chr(0x10FFFE)) == [chr(0x10FFFE)]
        True
    """
    bounds = cluster_bounds(text)
    clusters = (text[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False))
    return list(dict.fromkeys(cluster for cluster in clusters if font_file(cluster) is None))
