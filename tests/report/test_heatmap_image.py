"""The image of a heatmap."""

import numpy as np

from lightning_xai.report.heatmap import EVIDENCE, Piece, background_color
from lightning_xai.report.heatmap_image import image, placed_lines
from tests.report.test_heatmap import document


def test_image_is_rgb_and_colors_the_scored_token():
    picture = image(document("good bad", [[0, 4], [5, 8]], [1.0, -1.0], spans=[(0, 4)]))
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    colors = {tuple(color) for color in picture.reshape(-1, 3).tolist()}
    assert {background_color(1.0), background_color(-1.0), EVIDENCE} <= colors  # for, against, evidence


def test_image_of_a_long_line_breaks_it():
    word = "word " * 200
    offsets = [[5 * i, 5 * i + 4] for i in range(200)]
    short, long = image(document("word", [[0, 4]], [1.0])), image(document(word, offsets, [1.0] * 200))
    assert long.shape[1] == short.shape[1] and long.shape[0] > short.shape[0]


def test_image_of_a_text_without_tokens_is_drawn():
    assert image(document("", [], [])).ndim == 3


def shown(texts: list[str], width: float = 500) -> list[list[str]]:
    lines = placed_lines([Piece(text, 0.0, False) for text in texts], width)
    return [[placed.piece.text for placed in sorted(line)] for line in lines]


def test_arabic_is_laid_out_from_right_to_left():
    first, second = "\u0645\u0631", "\u062d\u0628"
    assert shown([first, " ", second]) == [[second, " ", first]]
    (line,) = placed_lines([Piece(first, 0.0, False)], 500)
    assert line[0].x + line[0].width == 500


def test_arabic_words_in_an_english_sentence_keep_their_order():
    assert shown(["say ", "\u0645", " ", "\u062d", " now"]) == [["say ", "\u062d", " ", "\u0645", " now"]]


def test_parts_of_an_arabic_word_keep_the_forms_of_the_word():
    (line,) = placed_lines([Piece("\u0633", 0.0, False), Piece("\u0644", 0.0, False)], 500)
    assert [placed.shown for placed in sorted(line, reverse=True)] == ["\u0633\u200d", "\u200d\u0644"]


def test_brackets_in_a_text_from_right_to_left_are_mirrored():
    (line,) = placed_lines([Piece(text, 0.0, False) for text in ["\u05d0", " ", "(", "good", ")"]], 500)
    assert [placed.shown for placed in sorted(line)] == ["(", "good", ")", " ", "\u05d0"]


def test_a_piece_that_is_wider_than_a_line_is_cut():
    lines = list(placed_lines([Piece("e\u0301" * 100, 1.0, True)], width=200))
    assert "".join(placed.piece.text for line in lines for placed in line) == "e\u0301" * 100
    assert all(placed.x + placed.width <= 200 and placed.piece.evidence for line in lines for placed in line)
    assert not any(placed.shown.startswith("\u0301") for line in lines for placed in line)


def test_image_says_which_characters_no_font_has(monkeypatch):
    shown = document("a\U00017000", [[0, 2]], [1.0])
    monkeypatch.setattr("lightning_xai.report.heatmap_image.without_glyph", lambda text: [])
    plain = image(shown)
    monkeypatch.setattr("lightning_xai.report.heatmap_image.without_glyph", lambda text: ["\U00017000"])
    assert len(image(shown)) == len(plain) + 24
