"""Heatmaps as one self-contained HTML page, whose template is heatmap.html."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

import numpy as np

from lightning_xai.report.heatmap import (
    EVIDENCE,
    MAX_STRENGTH,
    ExplainedClass,
    ExplainedDocument,
    class_status,
    cut_text,
    largest_score,
    method_pieces,
    pure_color,
    reading_notes,
)
from lightning_xai.report.strongest import strongest_words

LEGEND_SCORE = 0.7  # the legend shows the colors of this relative score


def html_page(title: str, documents: Sequence[ExplainedDocument], note: str = "") -> str:
    """Returns a self-contained page with a class selector, methods side by side, and underlined evidence.

    The page contains, as JSON, the pieces of the texts, their relative scores in percent, and a color for each
    percentage. Colors are translucent, so that they suit light and dark pages. The page's script inserts texts and
    names through `textContent`, so that no text can become markup.

    Example:
        >>> page = html_page("Attributions on test", [], note="A <b>note")
        >>> page.startswith("<!doctype html>"), "<b>note" in page
        (True, False)
    """
    payload = {
        "title": title,
        "note": note,
        "colors": {
            "supports": _css(LEGEND_SCORE, has_sign=True),
            "opposes": _css(-LEGEND_SCORE, has_sign=True),
            "magnitude": _css(LEGEND_SCORE, has_sign=False),
            "evidence": "rgb({} {} {})".format(*EVIDENCE),
        },
        "palettes": {
            "signed": [_css(percent / 100, has_sign=True) for percent in range(-100, 101)],
            "magnitudes": [_css(percent / 100, has_sign=False) for percent in range(-100, 101)],
        },
        "documents": [_document_payload(document) for document in documents],
    }
    # "<" is escaped, because "</script>" inside a text would end the script element that contains the data
    data = json.dumps(payload, ensure_ascii=False).replace("&", "\\u0026").replace("<", "\\u003c")
    template = resources.files("lightning_xai.report").joinpath("heatmap.html").read_text(encoding="utf-8")
    return template.replace("__DATA__", data)


def _document_payload(document: ExplainedDocument) -> dict:
    no_scores = np.zeros(len(document.offsets))
    return {
        "name": document.name,
        "note": "; ".join(reading_notes(document)),
        "pieces": [piece.text for piece in cut_text(document.text, document.offsets, no_scores)],
        "classes": [_class_payload(document, explained) for explained in document.classes],
    }


def _class_payload(document: ExplainedDocument, explained: ExplainedClass) -> dict:
    pieces = cut_text(document.text, document.offsets, np.zeros(len(document.offsets)), explained.spans)
    return {
        "name": explained.name,
        "probability": round(explained.probability, 4),
        "status": class_status(explained),
        "magnitudes": sorted(explained.magnitudes),
        "largest": {
            method: float(largest_score(scores, document.offsets)) for method, scores in explained.scores.items()
        },
        "strongest": {
            method: [[word.text, word.score] for word in strongest_words(document, scores)]
            for method, scores in explained.scores.items()
        },
        "without": explained.probability_without,
        "evidence": [place for place, piece in enumerate(pieces) if piece.evidence],
        "percents": {
            method: [
                None if piece.score is None else round(100 * piece.score)
                for piece in method_pieces(document, explained, method)
            ]
            for method in explained.scores
        },
    }


def _css(score: float, *, has_sign: bool) -> str:
    """Returns a translucent CSS color that looks like `background_color(score)` on a white page."""
    red, green, blue = pure_color(score, has_sign=has_sign)
    return f"rgb({red} {green} {blue} / {abs(score) * MAX_STRENGTH:.4g})"
