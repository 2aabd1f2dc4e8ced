"""The font of each character."""

from pathlib import Path

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
    assert length(text, 16) == sum(run.font.getlength(run.text) for run in runs)


def test_a_file_that_is_no_font_is_left_out(monkeypatch, tmp_path):
    broken = tmp_path / "broken.ttf"
    broken.write_bytes(b"no font")
    monkeypatch.setattr("lightning_xai.report.fonts.font_files", lambda: (str(broken), str(Path(font_file("a") or ""))))
    assert font_file("\u01c4") != str(broken)
