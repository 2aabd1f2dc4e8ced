"""Mdace: annotated notes of an invented MIMIC-III."""

import json

import pytest

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.mdace import Mdace
from tests.data.clinical.look_alike import write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def own(tmp_path):
    """A corpus that a test may change."""
    return write_corpus(tmp_path, num_admissions=8, num_codes=8, annotated_fraction=1)


def source(corpus, **options):
    return Mdace(str(corpus.mimic_dir), str(corpus.mdace_dir), **options)


def rows_of(found):
    return [row for split in found.load().values() for row in split]


def charts(corpus, version="ICD-9"):
    return sorted((corpus.mdace_dir / "data" / "Inpatient" / version / "1.0").glob("*.json"))


def edit_chart(path, edit):
    """Changes the first annotation of the first discharge summary of a chart."""
    chart = json.loads(path.read_text())
    note = next(note for note in chart["notes"] if note["category"] == "Discharge summary")
    edit(note["annotations"])
    path.write_text(json.dumps(chart))
    return note["note_id"]


def test_a_document_is_a_note_with_its_own_text(corpus):
    rows = rows_of(source(corpus))
    assert {row["id"]: row["text"] for row in rows} == {row["id"]: corpus.texts[int(row["id"])] for row in rows}
    notes = [note for path in charts(corpus) for note in json.loads(path.read_text())["notes"]]
    assert {row["id"] for row in rows} == {str(n["note_id"]) for n in notes if n["category"] == "Discharge summary"}


def test_spans_are_phrases_of_their_codes(corpus):
    found = source(corpus)
    phrases = {code.icd9: code.phrases for code in corpus.codes}
    spans = [
        (row["text"][begin:end], found.class_names[rationale["label"]])
        for row in rows_of(found)
        for rationale in row["rationales"]
        for begin, end in rationale["spans"]
    ]
    assert len(spans) > 50
    assert all(text in phrases[code] for text, code in spans)


def test_labels_are_the_annotated_codes(corpus):
    for row in rows_of(source(corpus)):
        assert row["labels"] == [rationale["label"] for rationale in row["rationales"]]


def test_annotated_notes_of_every_category_are_rows_if_asked_for(corpus):
    notes = [note for path in charts(corpus) for note in json.loads(path.read_text())["notes"]]
    rows = rows_of(source(corpus, notes="annotated"))
    assert {row["id"] for row in rows} == {str(note["note_id"]) for note in notes if note["annotations"]}
    assert len(rows) > len(rows_of(source(corpus)))


def test_codes_that_mimic_lacks_are_cut_and_share_their_spans(own):
    code = next(code for code in own.codes if code.annotated != code.icd9)

    def split_in_two(annotations):
        first = annotations[0]
        annotations[:] = [
            {**first, "code": code.icd9, "begin": 0, "end": 9},
            {**first, "code": f"{code.icd9}2", "begin": 10, "end": 14},
            {**first, "code": f"{code.icd9}3", "begin": 0, "end": 9},
        ]

    note = edit_chart(charts(own)[0], split_in_two)
    found = source(own)
    row = next(row for row in rows_of(found) if row["id"] == str(note))
    assert row["rationales"] == [{"label": found.class_names.index(code.icd9), "spans": [[0, 9], [10, 14]]}]
    assert "1 spans that repeat another span of their class" in found.report()[-1]


def test_code_without_a_known_begin_is_dropped_and_counted(own):
    note = edit_chart(charts(own)[0], lambda annotations: annotations[0].update(code="999.99"))
    found = source(own)
    rows_of(found)
    assert "1 annotations of codes that MIMIC-III lacks" in found.report()[-1], note


def test_other_code_systems_are_dropped_and_counted_and_repeated_annotations_merged(own):
    def edit(annotations):
        annotations.append({**annotations[0], "code": "31500", "code_system": "CPT"})
        annotations.append(annotations[0])

    edit_chart(charts(own)[0], edit)
    found = source(own)
    assert all("31500" not in name for name in found.class_names)
    rows_of(found)
    assert "1 annotations of CPT" in found.report()[-1]
    assert "1 annotations repeated in a chart" in found.report()[-1]


def test_icd_10_takes_the_replacements_and_cuts_no_code(own):
    for path in charts(own, "ICD-10"):
        edit_chart(path, lambda annotations: annotations[0].update(code="F32.A", code_system="ICD-10-CM"))
    found = source(own, code_systems=["ICD-10-CM"])
    assert "F32.9" in found.class_names and "F32.A" not in found.class_names
    assert set(found.class_names) - {"F32.9"} <= {code.icd10 for code in own.codes if not code.is_procedure}


def test_trimmed_spans(own):
    text_of = {}

    def widen(annotations):
        annotations[:] = [{**annotations[0], "begin": 0, "end": 17}]

    note = edit_chart(charts(own)[0], widen)
    for trim in ("none", "mdace", "edin"):
        row = next(row for row in rows_of(source(own, trim=trim)) if row["id"] == str(note))
        (begin, end) = row["rationales"][0]["spans"][0]
        text_of[trim] = row["text"][begin:end]
    assert text_of == {
        "none": "Admission Date:  ",
        "mdace": "Admission Date:",
        "edin": "Admission Date: ",
    }  # "[" follows


def test_admission_without_a_chart_is_refused(corpus):
    with pytest.raises(ValueError, match="`splits` has admission 1000.. in 'train', but this admission has no chart"):
        source(corpus, splits=corpus.lists).load()


def test_laws(corpus):
    check_source(source(corpus))


def test_classes_of_a_checkpoint_drop_other_codes_and_notes_without_a_code(corpus, tmp_path):
    every = source(corpus)
    rows, names = rows_of(every), every.class_names
    (tmp_path / "target_tokenizer.json").write_text(json.dumps([names[7], names[3], "999.99"]))
    found = source(corpus, classes=str(tmp_path))
    kept = {row["id"]: {names[i] for i in row["labels"]} & {names[7], names[3]} for row in rows}
    assert {row["id"]: {found.class_names[i] for i in row["labels"]} for row in rows_of(found)} == {
        note: codes for note, codes in kept.items() if codes
    }
    spans = [
        len(one["spans"]) for row in rows for one in row["rationales"] if names[one["label"]] not in kept[row["id"]]
    ]
    assert f"{sum(spans)} annotations without a class" in found.report()[-1]
    assert f"{sum(not codes for codes in kept.values())} notes without a code" in found.report()[-1]
