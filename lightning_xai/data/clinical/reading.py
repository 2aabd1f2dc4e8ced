"""Reads the notes and codes of listed admissions from MIMIC-III's tables and MDACE's charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from lightning_xai.data.clinical.annotations import DISCHARGE, AnnotatedNote, chart_files, read_charts
from lightning_xai.data.clinical.billed import BilledCodes, read_billed
from lightning_xai.data.clinical.code_map import CodeMap
from lightning_xai.data.clinical.codes import ICD9, System, systems_of_one_version
from lightning_xai.data.clinical.counts import AnnotationCounts, CountReport
from lightning_xai.data.clinical.documents import Document, annotated_document, check_annotated, places_of_admissions
from lightning_xai.data.clinical.id_lists import num_shared_patients, require_apart
from lightning_xai.data.clinical.note_store import NoteStore, read_notes
from lightning_xai.data.clinical.published import Published, published_numbers
from lightning_xai.data.clinical.tables import find_table
from lightning_xai.data.clinical.trimming import Trim

# the documents without annotations share this empty mapping, to save memory
NO_SPANS: Mapping[str, list[list[int]]] = MappingProxyType({})


@dataclass(frozen=True)
class ChartSettings:
    """Which annotations of MDACE are read, and how their spans are trimmed.

    Attributes:
        mdace_dir: copy of MDACE's repository, with the folders "data" and "splits".
        setting: "Inpatient" or "Profee", as in the source Mdace.
        all_notes: whether all annotated notes become documents, not only the discharge summaries.
        trim: as in `trimming.trimmed`.
    """

    mdace_dir: Path
    setting: str
    all_notes: bool
    trim: Trim

    def files(self, systems: Sequence[System]) -> dict[int, Path]:
        """Returns admission -> file of its chart (MDACE's annotations of the admission)."""
        return chart_files(self.mdace_dir, self.setting, systems_of_one_version(list(systems)))

    def read(self, systems: Sequence[System], lists: Mapping[str, list[int]]) -> dict[int, list[AnnotatedNote]]:
        """Returns admission -> its annotated notes that become documents. Only listed admissions with a chart occur."""
        charts = read_charts(self.files(systems), (a for admissions in lists.values() for a in admissions))
        return {
            admission: [note for note in notes if self.all_notes or note.category == DISCHARGE]
            for admission, notes in charts.items()
        }


@dataclass(frozen=True)
class DocumentSettings:
    """Settings for `read_documents`.

    Attributes:
        corpus: name of the corpus, as in `published_numbers`.
        mimic_dir: folder of MIMIC-III's tables.
        lists: split -> admissions.
        systems: code systems in use, all of one version.
        classes: the classes of a checkpoint; None to make every code of the documents a class.
        charts: the annotations to read; None to read no annotations.
        needs_chart: whether every listed admission must have a chart.
        shared_patients: whether a patient may be in two splits.
        scratch_dir: folder of the temporary file that holds the notes.
    """

    corpus: str
    mimic_dir: Path
    lists: dict[str, list[int]]
    systems: list[System]
    classes: list[str] | None
    charts: ChartSettings | None
    needs_chart: bool
    shared_patients: bool
    scratch_dir: Path


@dataclass(frozen=True)
class ClinicalDocuments:
    """The result of `read_documents`.

    Attributes:
        store: the notes.
        documents: split -> its documents, sorted by admission and ROW_ID.
        class_names: the classes.
        report: counts of the notes, documents, codes and spans that were read or left out.
    """

    store: NoteStore
    documents: dict[str, list[Document]]
    class_names: list[str]
    report: CountReport


def read_documents(settings: DocumentSettings) -> ClinicalDocuments:
    """Reads the tables and charts, and makes the documents.

    Raises:
        ValueError: a table, chart or list is missing or wrong.
    """
    lists = settings.lists
    charts = settings.charts.read(settings.systems, lists) if settings.charts is not None else {}
    if settings.needs_chart and settings.charts is not None:
        _require_charts(lists, charts, settings.charts)
    # a chart without an annotation gives no row, so that it does not replace the admission's row with billed codes
    used = {admission: notes for admission, notes in charts.items() if any(note.annotations for note in notes)}
    uses_icd9 = systems_of_one_version(settings.systems) == "ICD-9"
    listed = {admission for admissions in lists.values() for admission in admissions}
    of_patients = settings.systems if uses_icd9 else ICD9[:1]
    billed = read_billed(settings.mimic_dir, of_patients, listed)
    if not settings.shared_patients:
        require_apart(lists, billed.patients)  # checked before the notes are read, because reading them takes long
    whole = {a for a in listed if not settings.needs_chart and a not in used and a in billed.codes}
    annotated = {note.row_id: note for notes in used.values() for note in notes}
    store, rows = read_notes(
        settings.mimic_dir,
        lambda row_id, admission, category: row_id in annotated or category == DISCHARGE and admission in whole,
        settings.scratch_dir,
    )
    try:
        check_annotated(annotated.values(), store, str(find_table(settings.mimic_dir, "NOTEEVENTS")))
        # patients are also taken from the notes, because an admission may have no row in the tables of codes
        patients = dict(zip(store.admissions, store.patients, strict=True)) | billed.patients
        if not settings.shared_patients:
            require_apart(lists, patients)
        table = {
            **rows,
            "notes_in_use": len(store),
            "addenda_in_use": sum(store.is_addendum),
            "notes_in_use_marked_as_errors": sum(store.are_errors),
        }
        report = CountReport(_published(settings), {split: len(part) for split, part in lists.items()}, table=table)
        codes = CodeMap(settings.systems, billed.known if uses_icd9 else None, settings.classes)
        trim = settings.charts.trim if settings.charts is not None else "none"
        place_of = {row_id: place for place, row_id in enumerate(store.row_ids)}
        # if charts are optional, the id of a document is a ROW_ID (annotated note) or a HADM_ID (admission without a
        # chart). A ROW_ID may equal a HADM_ID, so ROW_IDs get a prefix
        prefix = "" if settings.needs_chart else "note-"
        maker = _Maker(store, used, billed, codes, trim, report, places_of_admissions(store), place_of, prefix)
        documents = {
            split: maker.documents([a for a in admissions if a in used or not settings.needs_chart])
            for split, admissions in lists.items()
        }
    except BaseException:
        store.close()
        raise
    for split, admissions in lists.items():
        report.add(split, documents[split])
        if settings.charts is not None:
            notes = [note for admission in admissions for note in charts.get(admission, [])]
            if not settings.needs_chart:
                report.charts[split] = sum(admission in charts for admission in admissions)
            report.annotated[split] = AnnotationCounts.of(notes, settings.systems)
            report.dropped["annotations repeated in a chart"] += sum(note.num_repeated for note in notes)
    if settings.charts is not None:
        kind = "note" if settings.charts.all_notes else "discharge summary"
        report.dropped[f"charts without an annotated {kind}"] = len(charts) - len(used)
    report.shared_patients = num_shared_patients(lists, patients)
    report.dropped += codes.dropped
    report.dropped["distinct codes that were shortened to a code of MIMIC-III"] = len(codes.cut)
    codes_in_use = {code for part in documents.values() for document in part for code in document.codes}
    return ClinicalDocuments(store, documents, settings.classes or sorted(codes_in_use), report)


def _published(settings: DocumentSettings) -> Published:
    charts, num_test = settings.charts, len(settings.lists["test"]) if "test" in settings.lists else None
    setting, all_notes = (None, False) if charts is None else (charts.setting, charts.all_notes)
    return published_numbers(settings.corpus, settings.systems, setting, all_notes=all_notes, num_test=num_test)


@dataclass(frozen=True)
class _Maker:
    """Makes the documents of admissions.

    Each annotated note in `charts` becomes a document. If an admission is not in `charts`, all its discharge summaries
    together become one document. Notes and admissions without a code are left out, and counted
    in `report`.
    """

    store: NoteStore
    charts: dict[int, list[AnnotatedNote]]
    billed: BilledCodes
    codes: CodeMap
    trim: Trim
    report: CountReport
    places: dict[int, list[int]]  # admission -> positions of its notes in the store
    place_of: dict[int, int]  # ROW_ID of a note -> its position in the store
    prefix: str  # how the ids of documents with annotations begin

    def documents(self, admissions: Sequence[int]) -> list[Document]:
        made = []
        for admission in sorted(admissions):
            if admission in self.charts:
                made += self._annotated(self.charts[admission])
            elif admission not in self.billed.codes:
                self.report.dropped["admissions without a code"] += 1
            elif admission not in self.places:
                self.report.dropped["admissions without a discharge summary"] += 1
            elif not (codes := self.codes.billed(self.billed.codes[admission])):
                self.report.dropped["admissions without a code among the classes"] += 1
            else:
                made.append(Document(str(admission), admission, tuple(self.places[admission]), codes, NO_SPANS))
        return made

    def _annotated(self, notes: Sequence[AnnotatedNote]) -> list[Document]:
        made = []
        for note in sorted(notes, key=lambda note: note.row_id):
            place = self.place_of[note.row_id]
            text = self.store.text(place)
            document = annotated_document(note, place, text, self.codes, self.trim, self.report.dropped)
            if document.codes:
                made.append(replace(document, id=f"{self.prefix}{document.id}"))
            else:
                self.report.dropped["notes without a code"] += 1
        return made


def _require_charts(lists: Mapping[str, list[int]], charts: Mapping[int, object], options: ChartSettings) -> None:
    for split, admissions in lists.items():
        for admission in admissions:
            if admission not in charts:
                raise ValueError(
                    f"`splits` has admission {admission} in {split!r}, but this admission has no chart: use the lists "
                    f"in {options.mdace_dir / 'splits' / options.setting}, or the source MimicMdace, which needs no "
                    "chart"
                )
