import json
import re

import numpy as np
import pytest

from lightning_xai.report.heatmap import (
    ExplainedClass,
    ExplainedDocument,
    ansi,
    blend,
    html_page,
    image,
    relative_scores,
    segments,
)

ATTACK = "</script><img src=x onerror=alert(1)>&lt;"


def document(text: str, offsets: list[list[int]], scores: list[float], *, name="class", spans=()) -> ExplainedDocument:
    explained = ExplainedClass(name, 0.75, True, True, {"method": np.array(scores)}, list(spans))
    return ExplainedDocument("document", text, np.array(offsets).reshape(-1, 2), [explained])


def payload(page: str) -> dict:
    """Returns the data of a page as a browser reads it: everything up to the next closing tag."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1))


def test_scores_are_relative_to_the_largest_magnitude():
    offsets = np.array([[0, 1], [1, 2], [2, 3]])
    assert relative_scores(np.array([1.0, -4.0, 2.0]), offsets).tolist() == [0.25, -1.0, 0.5]


def test_special_tokens_do_not_pale_the_words():
    offsets = np.array([[0, 0], [0, 1], [1, 2], [0, 0]])
    assert relative_scores(np.array([90.0, 1.0, -2.0, 80.0]), offsets).tolist() == [0.0, 0.5, -1.0, 0.0]


def test_scores_that_are_all_zero_stay_zero():
    assert relative_scores(np.zeros(3), np.array([[0, 1]] * 3)).tolist() == [0.0, 0.0, 0.0]


def test_segments_hold_the_whole_text_and_mark_evidence():
    found = segments("a bc d", np.array([[0, 1], [2, 4]]), np.array([0.5, -1.0]), [(3, 4)])
    assert found == [("a", 0.5, False), (" ", None, False), ("bc", -1.0, True), (" d", None, False)]


def test_characters_that_tokens_share_are_shown_once():
    found = segments("\U0001f600x", np.array([[0, 1], [0, 1], [1, 2]]), np.array([1.0, 0.5, 0.1]), [])
    assert "".join(piece for piece, _, _ in found) == "\U0001f600x"


def test_special_tokens_without_characters_are_not_shown():
    assert segments("a", np.array([[0, 0], [0, 1], [0, 0]]), np.array([9.0, 1.0, 9.0]), []) == [("a", 1.0, False)]


@pytest.mark.parametrize("place", ["text", "class", "title", "note", "document", "method"])
def test_no_text_becomes_markup(place):
    shown = document(ATTACK if place == "text" else "a", [[0, 1]], [1.0], name=ATTACK if place == "class" else "class")
    if place == "method":
        shown.classes[0].scores[ATTACK] = np.array([1.0])
    if place == "document":
        shown = ExplainedDocument(ATTACK, shown.text, shown.offsets, shown.classes)
    page = html_page(ATTACK if place == "title" else "t", [shown], ATTACK if place == "note" else "")
    assert "<img" not in page
    assert page.count("</script>") == 2  # of the data and of the program
    assert ATTACK in json.dumps(payload(page), ensure_ascii=False)


def test_page_keeps_offsets_in_characters_and_splits_text_by_code_points():
    page = html_page("t", [document("\U0001f600 good", [[0, 1], [2, 6]], [0.0, 1.0], spans=[(2, 6)])])
    (shown,) = payload(page)["documents"]
    characters = list(shown["text"])  # as Array.from does in the page
    assert ["".join(characters[begin:end]) for begin, end in shown["offsets"]] == ["\U0001f600", "good"]
    assert shown["classes"][0]["spans"] == [[2, 6]]
    assert "Array.from(doc.text)" in page


def test_page_needs_no_other_file():
    page = html_page("t", [document("a", [[0, 1]], [1.0])])
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)


def test_page_shows_its_note():
    assert payload(html_page("t", [], "The evidence is weak"))["note"] == "The evidence is weak"


def test_image_is_rgb_and_colors_the_scored_token():
    picture = image(document("good bad", [[0, 4], [5, 8]], [1.0, -1.0], spans=[(0, 4)]))
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    colors = {tuple(color) for color in picture.reshape(-1, 3).tolist()}
    assert {blend(1.0), blend(-1.0), (0, 128, 60)} <= colors  # for, against, evidence


def test_image_of_a_long_line_breaks_it():
    word = "word " * 200
    offsets = [[5 * i, 5 * i + 4] for i in range(200)]
    short, long = image(document("word", [[0, 4]], [1.0])), image(document(word, offsets, [1.0] * 200))
    assert long.shape[1] == short.shape[1] and long.shape[0] > short.shape[0]


def test_image_of_a_text_without_tokens_is_drawn():
    assert image(document("", [], [])).ndim == 3


def test_terminal_text_is_the_source_text_with_colors():
    shown = document("good bad", [[0, 4], [5, 8]], [1.0, -0.01])
    printed = ansi(shown, shown.classes[0], "method")
    assert printed == "\x1b[48;2;221;110;71m\x1b[38;2;0;0;0mgood\x1b[0m bad"


def test_text_cannot_steer_the_terminal():
    shown = document("a\x1b[2Jb", [[0, 6]], [0.0])
    assert "\x1b" not in ansi(shown, shown.classes[0], "method")


@pytest.mark.parametrize("score", [1.0, 0.3, -1.0])
def test_color_is_white_at_zero_and_stronger_away_from_it(score):
    assert blend(0.0) == (255, 255, 255)
    assert sum(blend(score)) < sum(blend(score / 2)) < 765
