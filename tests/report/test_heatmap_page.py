"""The page of heatmaps: nothing becomes markup, and it holds what Python cut and colored."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from lightning_xai.report.heatmap import ExplainedDocument, background_color
from lightning_xai.report.heatmap_page import html_page
from tests.report.test_heatmap import document

ATTACK = "</script><img src=x onerror=alert(1)>&lt;"


def payload(page: str) -> dict:
    """Returns the data of a page as a browser reads it: everything up to the next closing tag."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    return json.loads(data.group(1))


@pytest.mark.parametrize("place", ["text", "class", "title", "note", "document", "method"])
def test_no_text_becomes_markup(place):
    text, name = ATTACK if place == "text" else "a", ATTACK if place == "class" else "class"
    shown = document(text, [[0, len(text)]], [1.0], name=name)
    if place == "method":
        shown.classes[0].scores[ATTACK] = np.array([1.0])
    if place == "document":
        shown = ExplainedDocument(ATTACK, shown.text, shown.offsets, shown.classes)
    page = html_page(ATTACK if place == "title" else "t", [shown], ATTACK if place == "note" else "")
    assert "<img" not in page
    assert page.count("</script>") == 2  # of the data and of the program
    assert ATTACK in json.dumps(payload(page), ensure_ascii=False)


def test_page_holds_pieces_cut_at_code_points():
    page = html_page("t", [document("\U0001f600 good", [[0, 1], [2, 6]], [0.0, 1.0], spans=[(2, 6)])])
    (shown,) = payload(page)["documents"]
    assert shown["pieces"] == ["\U0001f600", " ", "good"]
    assert shown["classes"][0]["evidence"] == [2]


def test_page_holds_scores_in_percent_and_none_between_tokens():
    (shown,) = payload(html_page("t", [document("not good", [[0, 3], [4, 8]], [-0.5, 2.0])]))["documents"]
    assert shown["classes"][0]["percents"] == {"method": [-25, None, 100]}


@pytest.mark.parametrize("percent", [-100, -25, 0, 100])
@pytest.mark.parametrize("palette", ["signed", "magnitudes"])
def test_palette_holds_the_translucent_color_of_each_percent(palette, percent):
    colors = payload(html_page("t", []))["palettes"][palette]
    *pure, alpha = (float(number) for number in re.findall(r"[\d.]+", colors[percent + 100]))
    on_white = tuple(round(255 + (channel - 255) * alpha) for channel in pure)
    assert on_white == background_color(percent / 100, has_sign=palette == "signed") and len(colors) == 201


def test_page_tells_magnitudes_from_signed_scores_and_the_largest_of_each():
    shown = document("not good", [[0, 3], [4, 8]], [-0.5, 2.0])
    (explained,) = shown.classes
    explained.scores["attention"] = np.array([0.25, 0.5])
    named = replace(shown, classes=[replace(explained, magnitudes=frozenset(["attention"]))])
    (shown_class,) = payload(html_page("t", [named]))["documents"][0]["classes"]
    assert shown_class["magnitudes"] == ["attention"]
    assert shown_class["largest"] == {"method": 2.0, "attention": 0.5}


def test_page_computes_no_color_itself():
    template = html_page("t", []).replace(json.dumps(payload(html_page("t", []))), "")
    assert "rgb" not in template.lower()


def test_page_needs_no_other_file():
    page = html_page("t", [document("a", [[0, 1]], [1.0])])
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)


def test_page_shows_its_note():
    assert payload(html_page("t", [], "The evidence is weak"))["note"] == "The evidence is weak"


def test_page_says_how_many_tokens_of_a_text_are_unknown():
    shown = document("not good", [[0, 3], [4, 8]], [-0.5, 2.0])
    notes = [
        page["note"] for page in payload(html_page("t", [shown, replace(shown, num_unknown_tokens=2)]))["documents"]
    ]
    assert notes == ["", "2 of 2 tokens are unknown to the network's vocabulary"]


def test_page_tells_the_largest_score_of_a_token_from_the_sums_of_words():
    page = html_page("t", [])
    assert "largest score of a token" in page and "strongest words, each with the sum of its tokens' scores" in page


def test_page_lists_the_strongest_words_and_the_probability_without_them():
    shown = document("not good", [[0, 3], [4, 8]], [-0.5, 2.0])
    shown.classes[0].probability_without["method"] = 0.25
    (explained,) = payload(html_page("t", [shown]))["documents"][0]["classes"]
    assert explained["strongest"] == {"method": [["good", 2.0], ["not", -0.5]]} and explained["without"] == {
        "method": 0.25
    }
