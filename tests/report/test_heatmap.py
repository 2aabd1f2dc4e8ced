"""Cut texts, colors and the terminal."""

import numpy as np
import pytest

from lightning_xai.report.heatmap import (
    ExplainedClass,
    ExplainedDocument,
    ansi,
    background_color,
    cut_text,
    relative_scores,
)


def document(text: str, offsets: list[list[int]], scores: list[float], *, name="class", spans=()) -> ExplainedDocument:
    explained = ExplainedClass(name, 0.75, True, True, {"method": np.array(scores)}, list(spans))
    return ExplainedDocument("document", text, np.array(offsets).reshape(-1, 2), [explained])


def test_scores_are_relative_to_the_largest_magnitude():
    offsets = np.array([[0, 1], [1, 2], [2, 3]])
    assert relative_scores(np.array([1.0, -4.0, 2.0]), offsets).tolist() == [0.25, -1.0, 0.5]


def test_special_tokens_do_not_pale_the_words():
    offsets = np.array([[0, 0], [0, 1], [1, 2], [0, 0]])
    assert relative_scores(np.array([90.0, 1.0, -2.0, 80.0]), offsets).tolist() == [0.0, 0.5, -1.0, 0.0]


def test_scores_that_are_all_zero_stay_zero():
    assert relative_scores(np.zeros(3), np.array([[0, 1]] * 3)).tolist() == [0.0, 0.0, 0.0]


def test_segments_hold_the_whole_text_and_mark_evidence():
    found = cut_text("a bc d", np.array([[0, 1], [2, 4]]), np.array([0.5, -1.0]), [(3, 4)])
    assert found == [("a", 0.5, False), (" ", None, False), ("bc", -1.0, True), (" d", None, False)]


def test_characters_that_tokens_share_are_shown_once():
    found = cut_text("\U0001f600x", np.array([[0, 1], [0, 1], [1, 2]]), np.array([1.0, 0.5, 0.1]), [])
    assert "".join(piece for piece, _, _ in found) == "\U0001f600x"


def test_special_tokens_without_characters_are_not_shown():
    assert cut_text("a", np.array([[0, 0], [0, 1], [0, 0]]), np.array([9.0, 1.0, 9.0]), []) == [("a", 1.0, False)]


def test_terminal_text_is_the_source_text_with_colors():
    shown = document("good bad", [[0, 4], [5, 8]], [1.0, -0.01])
    printed = ansi(shown, shown.classes[0], "method")
    assert printed == "\x1b[48;2;221;110;71m\x1b[38;2;0;0;0mgood\x1b[0m bad"


def test_weak_tokens_have_colored_letters_and_no_background_in_the_terminal():
    shown = document("good bad", [[0, 4], [5, 8]], [1.0, -0.2])
    printed = ansi(shown, shown.classes[0], "method")
    assert printed.endswith(" \x1b[38;2;49;104;189mbad\x1b[0m")


def test_text_cannot_steer_the_terminal():
    shown = document("a\x1b[2Jb", [[0, 6]], [0.0])
    assert "\x1b" not in ansi(shown, shown.classes[0], "method")


@pytest.mark.parametrize("score", [1.0, 0.3, -1.0])
def test_color_is_white_at_zero_and_stronger_away_from_it(score):
    assert background_color(0.0) == (255, 255, 255)
    assert sum(background_color(score)) < sum(background_color(score / 2)) < 765


def test_an_accent_and_the_parts_of_an_emoji_stay_in_one_piece():
    text = "e\u0301 \U0001f469\u200d\U0001f467!"
    offsets = np.array([[0, 1], [1, 2], [3, 4], [4, 6], [6, 7]])
    pieces = [piece.text for piece in cut_text(text, offsets, np.ones(5))]
    assert pieces == ["e\u0301", " ", "\U0001f469\u200d\U0001f467", "!"]


def test_magnitudes_have_a_color_of_their_own():
    strong = [background_color(score, has_sign=has_sign) for score, has_sign in ((1, True), (-1, True), (1, False))]
    assert len(set(strong)) == 3 and background_color(-1, has_sign=False) == strong[2]


def test_text_cannot_turn_the_direction_of_the_terminal():
    shown = document("a \u202eb \u2066c", [[0, 7]], [0.0])
    assert ansi(shown, shown.classes[0], "method") == "a  b  c"
