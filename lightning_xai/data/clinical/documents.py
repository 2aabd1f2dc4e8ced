"""Documents of clinical notes: their class, the document of one annotated note, and checks of annotated notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lightning_xai.data.clinical.annotations import AnnotatedNote
from lightning_xai.data.clinical.note_store import NoteStore
from lightning_xai.data.clinical.trimming import Trim, ends_inside_word, trimmed

MOST_INSIDE_WORDS = 0.05  # largest fraction of spans that may begin or end inside a word


@dataclass(frozen=True, slots=True)
class Document:
    """One text with its codes.

    Attributes:
        id: name of the row.
        admission: HADM_ID.
        notes: positions, in the NoteStore, of the notes whose texts are joined.
        codes: the codes, sorted.
        spans: code -> character spans of its evidence; empty without annotations.
    """

    id: str
    admission: int
    notes: tuple[int, ...]
    codes: tuple[str, ...]
    spans: Mapping[str, list[list[int]]]

    def text(self, store: NoteStore) -> str:
        """Returns the texts of the notes, unchanged and joined by one space."""
        return " ".join(store.text(place) for place in self.notes)


def places_of_admissions(store: NoteStore) -> dict[int, list[int]]:
    """Returns admission -> positions of its notes in the store, sorted by `store.order`: reports, then addenda.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> store = NoteStore(Path(tempfile.mkdtemp()))
        >>> _ = store.add("later", row_id=7, admission=101, is_addendum=True), store.add("x", row_id=8, admission=101)
        >>> places_of_admissions(store)
        {101: [1, 0]}
    """
    places: dict[int, list[int]] = {}
    for place, admission in enumerate(store.admissions):
        places.setdefault(admission, []).append(place)
    return {admission: sorted(notes, key=store.order) for admission, notes in places.items()}


def check_annotated(notes: Iterable[AnnotatedNote], store: NoteStore, table: str) -> None:
    """Checks that annotated notes agree with the notes of MIMIC-III.

    Args:
        notes: notes of the charts.
        store: the notes of MIMIC-III.
        table: name of the file that holds the notes, for messages.

    Raises:
        ValueError: a note is not in the store, belongs to another admission, or has CRLF line endings; a span is empty
            or outside its note; or more than 5 % of all spans begin or end inside a word.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> note = AnnotatedNote(7, 101, "Nursing", (), 0)
        >>> check_annotated([note], NoteStore(Path(tempfile.mkdtemp())), "NOTEEVENTS.csv")
        Traceback (most recent call last):
        ValueError: NOTEEVENTS.csv has no note 7, which the chart of admission 101 annotates: copy the complete \
table of MIMIC-III 1.4
    """
    places = {row_id: place for place, row_id in enumerate(store.row_ids)}
    num_spans = inside = 0
    for note in notes:
        place = places.get(note.row_id)
        if place is None:
            raise ValueError(
                f"{table} has no note {note.row_id}, which the chart of admission {note.admission} annotates: copy the "
                "complete table of MIMIC-III 1.4"
            )
        if store.admissions[place] != note.admission:
            owner = store.admissions[place]
            raise ValueError(
                f"note {note.row_id} of the chart of admission {note.admission} belongs to "
                f"{'no admission' if owner < 0 else f'admission {owner}'} in {table}: the chart or the table is damaged"
            )
        text = store.text(place)
        if "\r\n" in text:
            raise ValueError(
                f"note {note.row_id} in {table} has CRLF line endings, which shift the spans: copy the original table"
            )
        for one in note.annotations:
            if not 0 <= one.begin < one.end <= len(text):
                raise ValueError(
                    f"note {note.row_id} of admission {note.admission}: the span {one.begin}-{one.end} of code "
                    f"{one.code} is empty or outside the note's {len(text)} characters: copy {table} again"
                )
            inside += ends_inside_word(text, one.begin, one.end)
        num_spans += len(note.annotations)
    if inside > MOST_INSIDE_WORDS * num_spans:
        raise ValueError(
            f"{inside:,} of {num_spans:,} spans begin or end inside a word, so {table} is not the original: copy "
            "the table again from MIMIC-III 1.4"
        )


def annotated_document(
    note: AnnotatedNote,
    position: int,
    text: str,
    rename: Callable[[str, str], str | None],
    trim: Trim,
    dropped: Counter[str],
) -> Document:
    """Returns the document of an annotated note. If several codes have the same class, their spans are joined.

    Args:
        note: the note.
        position: the note's position in the store.
        text: the note's text.
        rename: function that takes a code system and a code, and returns the class of the code, or None to drop it.
        trim: as in `trimming.trimmed`.
        dropped: kind of dropped span -> number of such spans. This function adds to these numbers: it counts the spans
            that become empty, and those that repeat another span.

    Example:
        >>> from lightning_xai.data.clinical.annotations import Annotation
        >>> spans = (Annotation(0, 4, "274.9", "ICD-9-CM"), Annotation(0, 4, "274.8", "ICD-9-CM"))
        >>> note = AnnotatedNote(7, 101, "Nursing", spans, 0)
        >>> annotated_document(note, 0, "gout", lambda system, code: code[:3], "none", Counter()).spans
        {'274': [[0, 4]]}
    """
    spans_by_code: dict[str, list[list[int]]] = {}
    for one in note.annotations:
        code = rename(one.system, one.code)
        if code is None:
            continue
        span = list(trimmed(text, one.begin, one.end, trim))
        spans = spans_by_code.setdefault(code, [])
        if span[0] == span[1]:
            dropped["spans that are empty after trimming"] += 1
        elif span in spans:
            dropped["spans that repeat another span of their class"] += 1
        else:
            spans.append(span)
    kept = {code: sorted(spans) for code, spans in sorted(spans_by_code.items())}
    return Document(str(note.row_id), note.admission, (position,), tuple(kept), {c: s for c, s in kept.items() if s})


def rationales_of_document(document: Document, numbers: Mapping[str, int]) -> list[dict[str, object]]:
    """Returns a document's value in the column `rationales`.

    Args:
        document: the document.
        numbers: code -> index of its class.

    Example:
        >>> document = Document("7", 101, (0,), ("274",), {"274": [[0, 4]]})
        >>> rationales_of_document(document, {"274": 3})
        [{'label': 3, 'spans': [[0, 4]]}]
    """
    return [{"label": numbers[code], "spans": spans} for code, spans in document.spans.items()]
