"""Writes invented notes in the style of discharge summaries: headings, lists, brackets and many line feeds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.bundle import Bundle
from lightning_xai.data.sources.planted import Planted
from tests.data.clinical.invented_codes import Code

HEADINGS = (
    "Chief Complaint:", "History of Present Illness:", "Past Medical History:", "Social History:", "Family History:",
    "Physical Exam:", "Pertinent Results:", "Brief Hospital Course:", "Medications on Admission:",
    "Discharge Medications:", "Discharge Diagnosis:", "Discharge Condition:", "Followup Instructions:",
)  # fmt: skip
BLANKS = (
    "[**Hospital1 18**]",
    "[**Known lastname 4052**]",
    "[**2150-7-16**]",
    "[**Last Name (STitle) 17**]",
    "[**1-9**]",
)
RULES = ("-----------------", "__________________", "\n\n", "***", ".............")


@dataclass
class Text:
    """A note that grows, with the spans of its evidence: (begin, end, code)."""

    parts: list[str] = field(default_factory=list)
    spans: list[tuple[int, int, Code]] = field(default_factory=list)
    length: int = 0
    num_words: int = 0

    def add(self, text: str, code: Code | None = None) -> None:
        if code is not None:
            self.spans.append((self.length, self.length + len(text), code))
        self.parts.append(text)
        self.length += len(text)
        self.num_words += len(text.split())

    def __str__(self) -> str:
        return "".join(self.parts)


@cache
def planted_snippets() -> list[str]:
    return bundle_snippets([Planted()])


def bundle_snippets(sources: Sequence[TextSource]) -> list[str]:
    """Returns texts of a `Bundle`'s documents, without their labels."""
    texts = Bundle(list(sources), filler_per_document=(0, 0), num_train=100, num_validation=1, num_test=1).load()
    return list(texts["train"]["text"])


def one_of(values: Sequence[str], draw: np.random.Generator) -> str:
    return values[int(draw.integers(len(values)))]


def words_of(filler: Sequence[str], size: int, draw: np.random.Generator) -> str:
    """Returns up to `size` consecutive words of a filler text."""
    words = one_of(filler, draw).split()
    begin = int(draw.integers(max(1, len(words) - size + 1)))
    return " ".join(words[begin : begin + size])


def write_note(codes: Sequence[Code], words: tuple[int, int], filler: Sequence[str], draw: np.random.Generator) -> Text:
    """Returns a note with headings, lists, brackets and line feeds that mentions every code at least once."""
    text, goal = Text(), int(draw.integers(words[0], words[1] + 1))
    text.add("Admission Date:  [**2150-7-16**]              Discharge Date:   [**2150-8-4**]\n\n")
    text.add("Date of Birth:  [**2081-3-1**]             Sex:   M\n\nService: MEDICINE\n\n")
    waiting = [code for code in codes for _ in range(int(draw.integers(1, 3)))]
    waiting = [waiting[i] for i in draw.permutation(len(waiting))]
    section = 0
    while waiting or text.num_words < goal:
        text.add(f"{HEADINGS[section % len(HEADINGS)]}\n")
        section += 1
        if draw.random() < 0.5:
            _list(text, waiting, filler, draw)
        else:
            _prose(text, waiting, filler, draw)
        text.add(one_of(["\n\n", "\n\n\n", f"\n{one_of(RULES, draw)}\n\n"], draw))
    text.add("Completed by:[**First Name11 (Name Pattern1) **] [**2150-8-4**]\n")
    return text


def _mention(text: Text, waiting: list[Code], draw: np.random.Generator) -> None:
    code = waiting.pop()
    text.add(one_of(code.phrases, draw), code)


def _list(text: Text, waiting: list[Code], filler: Sequence[str], draw: np.random.Generator) -> None:
    mark = one_of(["{}. ", "{}) ", "- ", "# ", "** "], draw)
    for number in range(1, int(draw.integers(3, 7))):
        text.add(mark.format(number))
        if waiting and draw.random() < 0.6:
            _mention(text, waiting, draw)
        else:
            text.add(words_of(filler, 3, draw))
        text.add(one_of([".\n", "\n", ";\n", f" ({one_of(BLANKS, draw)}).\n", " 2.5 mg/mL, #30.\n"], draw))


def _prose(text: Text, waiting: list[Code], filler: Sequence[str], draw: np.random.Generator) -> None:
    for _ in range(int(draw.integers(2, 5))):
        text.add(words_of(filler, 8, draw))
        text.add(one_of([", ", ": ", f" {one_of(BLANKS, draw)}, ", " - ", " (+) "], draw))
        if waiting and draw.random() < 0.6:
            _mention(text, waiting, draw)
        else:
            text.add(one_of(["97.8-120/80-72-18 98%/RA", "Na 140, K 4.0, Cl 101", '+ for "chills"'], draw))
        text.add(one_of([". ", ".\n", "...\n"], draw))
