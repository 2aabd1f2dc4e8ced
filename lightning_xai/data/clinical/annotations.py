"""Reads MDACE's charts. A chart has the annotations of one admission's notes, but not the texts of the notes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DISCHARGE = "Discharge summary"
SOURCE = "https://github.com/3mcloud/MDACE"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A span of evidence for a code: characters `begin` to `end` of a note, end exclusive."""

    begin: int
    end: int
    code: str
    system: str


@dataclass(frozen=True, slots=True)
class AnnotatedNote:
    """A note in a chart, with its annotations.

    Attributes:
        row_id: ROW_ID of the note in NOTEEVENTS.
        admission: HADM_ID of the chart.
        category: CATEGORY of the note, such as "Radiology".
        annotations: the distinct annotations.
        num_repeated: number of repeated annotations that were left out.
    """

    row_id: int
    admission: int
    category: str
    annotations: tuple[Annotation, ...]
    num_repeated: int

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """The distinct pairs (system, code) of all annotations."""
        return {(one.system, one.code) for one in self.annotations}


def chart_files(mdace_dir: Path, setting: str, version: str) -> dict[int, Path]:
    """Returns admission -> file of its chart.

    Args:
        mdace_dir: copy of MDACE's repository, with the folders "data" and "splits".
        setting: "Inpatient" or "Profee", as in the source Mdace.
        version: "ICD-9" or "ICD-10".

    Raises:
        ValueError: the folder has no charts.

    Example:
        >>> chart_files(Path("no/such/folder"), "Inpatient", "ICD-9")
        Traceback (most recent call last):
        ValueError: no/such/folder/data/Inpatient/ICD-9 has no charts: mdace_dir must be a copy of \
https://github.com/3mcloud/MDACE
    """
    folder = mdace_dir / "data" / setting / version
    files = sorted(folder.glob(f"*/*-{version}.json"))
    names = {path.name.removesuffix(f"-{version}.json"): path for path in files}
    charts = {int(name): path for name, path in names.items() if name.isdecimal()}
    if not charts:
        raise ValueError(f"{folder} has no charts: mdace_dir must be a copy of {SOURCE}")
    return charts


def read_chart(path: Path, admission: int) -> list[AnnotatedNote]:
    """Returns the notes of a chart, in the file's order.

    Raises:
        ValueError: the file is not a chart, lacks a key, has a value of the wrong type, lists a note twice, or belongs
            to an admission other than `admission`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "101-ICD-9.json")
        >>> span = {"begin": 0, "end": 3, "code": "490", "code_system": "ICD-9-CM"}
        >>> chart = {"hadm_id": 101, "notes": [{"note_id": 7, "category": "Radiology", "annotations": [span, span]}]}
        >>> _ = path.write_text(json.dumps(chart))
        >>> note = read_chart(path, 101)[0]
        >>> note.row_id, len(note.annotations), note.num_repeated
        (7, 1, 1)
    """
    try:
        chart = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: copy it again from {SOURCE}") from error
    admission_in_file = _number(chart, "hadm_id", f"{path}")
    if admission_in_file != admission:
        raise ValueError(
            f"{path} has the chart of admission {admission_in_file}, not of the admission in its name: copy it "
            f"again from {SOURCE}"
        )
    notes = [_note(note, admission, f"{path}, note {i}") for i, note in enumerate(_list(chart, "notes", f"{path}"))]
    num_rows = Counter(note.row_id for note in notes)
    for row_id in (row_id for row_id, number in num_rows.items() if number > 1):
        raise ValueError(f"{path} has note {row_id} twice: copy the file again from {SOURCE}")
    return notes


def read_charts(files: dict[int, Path], admissions: Iterable[int]) -> dict[int, list[AnnotatedNote]]:
    """Returns admission -> notes, for the admissions that have a chart.

    Raises:
        ValueError: a chart is wrong, as in `read_chart`, or the same note is in two charts.

    Example:
        >>> read_charts({}, [101])
        {}
    """
    charts = {admission: read_chart(files[admission], admission) for admission in admissions if admission in files}
    owners: dict[int, int] = {}
    for note in (note for notes in charts.values() for note in notes):
        if owners.setdefault(note.row_id, note.admission) != note.admission:
            owner = owners[note.row_id]
            raise ValueError(
                f"{files[note.admission]}: note {note.row_id} is also in the chart of admission {owner}; copy the "
                f"charts again from {SOURCE}"
            )
    return charts


def _note(raw: Any, admission: int, location: str) -> AnnotatedNote:
    row_id = _number(raw, "note_id", location)
    location = f"{location} (note_id {row_id})"
    annotations = [
        _annotation(one, f"{location}, annotation {i}") for i, one in enumerate(_list(raw, "annotations", location))
    ]
    distinct = tuple(dict.fromkeys(annotations))
    repeated = len(annotations) - len(distinct)
    return AnnotatedNote(row_id, admission, _text(raw, "category", location), distinct, repeated)


def _annotation(raw: Any, location: str) -> Annotation:
    begin, end = (_number(raw, key, location) for key in ("begin", "end"))
    return Annotation(begin, end, _text(raw, "code", location), _text(raw, "code_system", location))


def _get(raw: Any, key: str, location: str) -> Any:
    if not isinstance(raw, dict) or key not in raw:
        raise ValueError(f"{location} has no key {key!r}: copy the file again from {SOURCE}")
    return raw[key]


def _number(raw: Any, key: str, location: str) -> int:
    value = _get(raw, key, location)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{location}: {key} is not a whole number; copy the file again from {SOURCE}")
    return value


def _text(raw: Any, key: str, location: str) -> str:
    value = _get(raw, key, location)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{location}: {key} is not a text; copy the file again from {SOURCE}")
    return value.strip()


def _list(raw: Any, key: str, location: str) -> list[Any]:
    value = _get(raw, key, location)
    if not isinstance(value, list):
        raise ValueError(f"{location}: {key} is not a list; copy the file again from {SOURCE}")
    return value
