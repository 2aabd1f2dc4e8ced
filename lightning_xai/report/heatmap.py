"""Texts with colored tokens: as an HTML page, as an image and for the terminal, always cut from the source text."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import numpy as np
from PIL import Image, ImageDraw, ImageFont

POSITIVE, NEGATIVE = (215, 84, 39), (49, 104, 189)  # speaks for the class, against it


@dataclass(frozen=True)
class ExplainedClass:
    """One class of a document with every method's scores."""

    name: str
    probability: float
    gold: bool | None  # None where the label is unknown
    predicted: bool
    scores: dict[str, np.ndarray]  # by method, [T] signed
    spans: list[tuple[int, int]] = field(default_factory=list)  # human evidence, character offsets


@dataclass(frozen=True)
class ExplainedDocument:
    """A text, its tokens' character offsets [T, 2], and the classes explained."""

    name: str
    text: str
    offsets: np.ndarray
    classes: list[ExplainedClass]


def relative_scores(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Returns scores [T] divided by the largest magnitude of a token that can be seen, in [-1, 1]; 0 for the others.

    Special tokens have no characters and often the largest scores, beside which the words would all look white.
    """
    seen = np.where(offsets[:, 1] > offsets[:, 0], scores, 0.0)
    largest = np.abs(seen).max(initial=0.0)
    return seen / largest if largest > 0 else np.zeros_like(seen)


def segments(
    text: str, offsets: np.ndarray, scores: np.ndarray, spans: list[tuple[int, int]]
) -> list[tuple[str, float | None, bool]]:
    """Returns the whole text as (piece, score or None between tokens, whether it is evidence), in reading order.

    Where tokens share characters (byte-level BPE), the first one shows them.
    """
    pieces: list[tuple[str, float | None, bool]] = []
    cursor = 0
    for (begin, end), score in zip(offsets.tolist(), scores.tolist(), strict=True):
        begin = max(begin, cursor)
        if end <= begin:
            continue
        if begin > cursor:
            pieces.append((text[cursor:begin], None, _in_spans(cursor, begin, spans)))
        pieces.append((text[begin:end], score, _in_spans(begin, end, spans)))
        cursor = end
    if cursor < len(text):
        pieces.append((text[cursor:], None, _in_spans(cursor, len(text), spans)))
    return pieces


def html_page(title: str, documents: list[ExplainedDocument], note: str = "") -> str:
    """Returns a page that needs no other file: methods side by side, evidence underlined, a class selector.

    Texts and names travel as JSON and enter the page through `textContent`, so no text can become markup.
    """
    payload = {"title": title, "note": note, "documents": [_document_payload(document) for document in documents]}
    # "</script>" inside a text would end the element that carries the data
    data = json.dumps(payload, ensure_ascii=False).replace("&", "\\u0026").replace("<", "\\u003c")
    template = resources.files("lightning_xai.report").joinpath("heatmap.html").read_text(encoding="utf-8")
    return template.replace("__DATA__", data)


def image(document: ExplainedDocument, class_position: int = 0, width: int = 1000) -> np.ndarray:
    """Returns an RGB picture [height, width, 3] uint8 of one class, one block of text a method."""
    explained = document.classes[class_position]
    font, small = _font(16), _font(13)
    header = f"{document.name}   class: {explained.name}   p = {explained.probability:.3f}{_standing(explained)}"
    blocks = []
    for method, scores in explained.scores.items():
        pieces = segments(document.text, document.offsets, relative_scores(scores, document.offsets), explained.spans)
        blocks.append((method, _wrap(pieces, font, width - 40)))
    height = 44 + sum(26 + 24 * len(lines) + 10 for _, lines in blocks)
    canvas = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(canvas)
    draw.text((20, 12), header, fill=(20, 20, 20), font=font)
    y = 44
    for method, lines in blocks:
        draw.text((20, y), method, fill=(110, 110, 110), font=small)
        y += 22
        for line in lines:
            for x, (piece, score, evidence) in line:
                length = font.getlength(piece)
                if score is not None:
                    draw.rectangle((20 + x, y, 20 + x + length, y + 20), fill=blend(score))
                draw.text((20 + x, y), piece, fill=(0, 0, 0), font=font)
                if evidence:
                    draw.line((20 + x, y + 21, 20 + x + length, y + 21), fill=(0, 128, 60), width=2)
            y += 24
        y += 14
    return np.asarray(canvas)


def ansi(document: ExplainedDocument, explained: ExplainedClass, method: str) -> str:
    """Returns the text with 24-bit terminal colors behind its tokens."""
    scores = relative_scores(explained.scores[method], document.offsets)
    parts = []
    for piece, score, _ in segments(document.text, document.offsets, scores, explained.spans):
        piece = "".join(c if c.isprintable() or c == "\n" else " " for c in piece)  # a text must not steer the terminal
        if score is None or abs(score) < 0.05:
            parts.append(piece)
        else:
            red, green, blue = blend(score)
            parts.append(f"\x1b[48;2;{red};{green};{blue}m\x1b[38;2;0;0;0m{piece}\x1b[0m")
    return "".join(parts)


def blend(score: float) -> tuple[int, int, int]:
    """Returns the background color of a relative score in [-1, 1]: white at 0."""
    color = POSITIVE if score > 0 else NEGATIVE
    strength = min(abs(score), 1.0) * 0.85
    return tuple(round(255 + (channel - 255) * strength) for channel in color)


def _in_spans(begin: int, end: int, spans: list[tuple[int, int]]) -> bool:
    return any(begin < span_end and end > span_begin for span_begin, span_end in spans)


def _standing(explained: ExplainedClass) -> str:
    words = ([] if explained.gold is None else ["gold" if explained.gold else "not gold"]) + (
        ["predicted"] if explained.predicted else []
    )
    return f"   ({', '.join(words)})" if words else ""


def _document_payload(document: ExplainedDocument) -> dict:
    return {
        "name": document.name,
        "text": document.text,
        "offsets": document.offsets.tolist(),
        "classes": [
            {
                "name": explained.name,
                "probability": round(explained.probability, 4),
                "standing": _standing(explained).strip(" ()"),
                "spans": [list(span) for span in explained.spans],
                "scores": {
                    method: np.round(relative_scores(scores, document.offsets) * 100).astype(int).tolist()
                    for method, scores in explained.scores.items()
                },
            }
            for explained in document.classes
        ],
    }


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def _wrap(pieces, font, width):
    """Returns lines of (x, piece) that fit `width` pixels, broken at white space between pieces."""
    lines, line, x = [], [], 0.0
    for piece, score, evidence in pieces:
        for position, part in enumerate(piece.split("\n")):
            if position or (x and x + font.getlength(part) > width):
                lines.append(line)
                line, x = [], 0.0
                part = part.lstrip()
            if part:
                line.append((x, (part, score, evidence)))
                x += font.getlength(part)
    return [*lines, line]
