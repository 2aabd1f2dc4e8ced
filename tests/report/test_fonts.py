"""The font of each character."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFont

from lightning_xai.report import fonts
from lightning_xai.report.fonts import font_file, glyph_runs, length, without_glyph

UNASSIGNED = "\U0010fffe"


def test_letters_of_many_scripts_have_a_font():
    assert without_glyph("caf\u00e9 \u03b1 \u0416 \u05e9 \u0645") == []


def test_characters_without_a_font_are_named_once():
    assert without_glyph(f"a{UNASSIGNED}b{UNASSIGNED}") == [UNASSIGNED]


def test_joiners_and_spaces_need_no_glyph():
    assert font_file("\u200d") == font_file("a") == font_file(" ")


def test_runs_hold_the_whole_text_and_its_width():
    text = f"good {UNASSIGNED} plot"
    runs = list(glyph_runs(text, 16))
    assert "".join(run.text for run in runs) == text
    assert length(text, 16) == sum(run.width for run in runs)


def test_a_file_that_is_no_font_is_left_out(monkeypatch, tmp_path):
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr("lightning_xai.report.fonts.font_files", lambda: (str(broken), str(Path(font_file("a") or ""))))
    assert font_file("\u01c4") != str(broken)


@pytest.fixture
def only_pictures(monkeypatch):
    """Lets every font have its glyphs in one size only, as fonts of colored emoji have."""
    truetype = ImageFont.truetype

    def load(file, size):
        if size != 109:
            raise OSError("invalid pixel size")
        return truetype(file, size)

    fonts._font.cache_clear()
    monkeypatch.setattr(ImageFont, "truetype", load)
    yield
    fonts._font.cache_clear()


def test_a_font_in_one_size_is_scaled_to_the_size_of_the_text(only_pictures):
    (run,) = glyph_runs("good", 16)
    assert run.width == pytest.approx(run.font.getlength("good") * 16 / 109)
    canvas = Image.new("RGB", (100, 40), "white")
    run.draw(canvas, 10, 30, (0, 0, 0))
    rows, columns = np.nonzero(np.asarray(canvas).min(axis=2) < 128)
    assert 10 <= columns.min() and columns.max() <= 10 + run.width + 1
    assert 15 <= rows.min() and rows.max() <= 30 + 6  # above the baseline, but for the g


def test_a_font_whose_sizes_are_unknown_is_left_out(monkeypatch):
    def load(file, size):
        raise OSError("invalid pixel size")

    monkeypatch.setattr(ImageFont, "truetype", load)
    with pytest.raises(OSError, match="in any of the sizes"):
        fonts._font("other.ttf", 16)
