"""Wrong charts of MDACE are refused in one line that names the file or the note, and never quotes a note."""

import json
import re
import shutil

import pytest

from lightning_xai.data.sources.mdace import Mdace
from lightning_xai.data.sources.mimic_mdace import MimicMdace
from tests.data.clinical.look_alike import edit_rows
from tests.data.clinical.refusing import refusal, table


def edit_chart(folder, edit):
    """Changes a chart, given as a dict, and the notes in it; returns its file."""
    path = sorted((folder / "mdace" / "data" / "Inpatient" / "ICD-9" / "1.0").glob("*.json"))[0]
    chart = json.loads(path.read_text())
    edit(chart)
    path.write_text(json.dumps(chart))
    return path


def note(chart):
    return next(note for note in chart["notes"] if note["category"] == "Discharge summary")


def test_chart_of_another_admission_than_its_name_is_refused(folder):
    path = edit_chart(folder, lambda chart: chart.update(hadm_id=100_777))
    assert f"{path} has the chart of admission 100777, not of the admission in its name" in refusal(folder, Mdace)


def test_unknown_note_is_named(folder):
    edit_chart(folder, lambda chart: note(chart).update(note_id=4_000_000))
    assert "NOTEEVENTS.csv has no note 4000000, which the chart of admission 100001 annotates" in refusal(folder, Mdace)


def test_note_of_another_admission_is_named(folder):
    edit_rows(table(folder), lambda row: {**row, "HADM_ID": row["HADM_ID"].replace("100001", "100003")})
    assert re.search(r"note \d+ of the chart of admission 100001 belongs to admission 100003", refusal(folder, Mdace))


@pytest.mark.parametrize("span", [{"begin": 5, "end": 5}, {"begin": -1, "end": 5}, {"begin": 5, "end": 90_000}])
def test_span_that_is_empty_or_outside_is_named(folder, span):
    edit_chart(folder, lambda chart: note(chart)["annotations"][0].update(span))
    message = refusal(folder, Mdace)
    assert re.search(rf"note \d+ of admission 100001: the span {span['begin']}-{span['end']} of code", message)


def test_text_in_which_spans_cut_words_is_not_mimic_iii(folder):
    edit_rows(table(folder), lambda row: {**row, "TEXT": f"  {row['TEXT']}"})
    assert re.search(r"\d+ of \d+ spans begin or end inside a word, so .* is not the original", refusal(folder, Mdace))


def test_a_few_spans_inside_words_are_allowed(folder):
    edit_chart(folder, lambda chart: note(chart)["annotations"][0].update(begin=1, end=4))
    source = Mdace(str(folder / "mimiciii"), str(folder / "mdace"))
    assert "dmi" in {
        row["text"][begin:end]
        for split in source.load().values()
        for row in split
        for rationale in row["rationales"]
        for begin, end in rationale["spans"]
    }


@pytest.mark.parametrize("key", ["hadm_id", "notes"])
def test_missing_key_of_a_chart_is_named(folder, key):
    path = edit_chart(folder, lambda chart: chart.pop(key))
    assert f"{path} has no key {key!r}" in refusal(folder, Mdace)


@pytest.mark.parametrize("key", ["begin", "end", "code", "code_system"])
def test_missing_key_of_an_annotation_is_named(folder, key):
    path = edit_chart(folder, lambda chart: note(chart)["annotations"][0].pop(key))
    assert re.search(rf"{path}, note \d \(note_id \d+\), annotation 0 has no key {key!r}", refusal(folder, Mdace))


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        *(("annotations", value, "a list") for value in (None, 3, "text")),
        ("annotations", {}, "a list"),
        *(("note_id", value, "a whole number") for value in (None, "7", 7.0, True, [7])),
        *(("category", value, "a text") for value in (None, 3, "", ["Radiology"])),
    ],
)
def test_wrong_value_in_a_note_of_a_chart_is_named(folder, key, value, kind):
    path = edit_chart(folder, lambda chart: note(chart).update({key: value}))
    assert re.search(rf"{path}, note \d.*: {key} is not {kind}; copy the file again", refusal(folder, Mdace))


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        *(("begin", value, "a whole number") for value in (None, "7", 7.5)),
        *(("code", value, "a text") for value in (None, 486, " ", ["486"])),
        *(("code_system", value, "a text") for value in (None, 9)),
    ],
)
def test_wrong_value_in_an_annotation_is_named(folder, key, value, kind):
    path = edit_chart(folder, lambda chart: note(chart)["annotations"][0].update({key: value}))
    assert re.search(rf"{path}, note \d.*, annotation 0: {key} is not {kind}; copy", refusal(folder, Mdace))


@pytest.mark.parametrize(
    ("chart", "message"),
    [
        (None, "has no key 'hadm_id'"),
        ([], "has no key 'hadm_id'"),
        ({"hadm_id": "100001", "notes": []}, ": hadm_id is not a whole number"),
        ({"hadm_id": 100_001, "notes": None}, ": notes is not a list"),
        ({"hadm_id": 100_001, "notes": {}}, ": notes is not a list"),
        ({"hadm_id": 100_001, "notes": [None]}, ", note 0 has no key 'note_id'"),
        ({"hadm_id": 100_001, "notes": [{"note_id": 1, "category": "ECG", "annotations": [3]}]}, " has no key 'begin'"),
    ],
)
def test_wrong_chart_is_named(folder, chart, message):
    path = edit_chart(folder, lambda _: None)
    path.write_text(json.dumps(chart))
    shown = refusal(folder, Mdace)
    assert str(path) in shown and message in shown


@pytest.mark.parametrize("kind", [Mdace, MimicMdace])
def test_note_that_a_chart_lists_twice_is_named(folder, kind):
    path = edit_chart(folder, lambda chart: chart["notes"].append(note(chart)))
    assert re.search(rf"{path} has note \d+ twice: copy the file again", refusal(folder, kind))


def test_missing_charts_are_named_with_their_place(folder):
    shutil.rmtree(folder / "mdace" / "data")
    assert "has no charts: mdace_dir must be a copy of https://github.com/3mcloud/MDACE" in refusal(folder, Mdace)
