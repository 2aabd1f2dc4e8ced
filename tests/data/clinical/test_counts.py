"""Counts of MDACE's real annotations, and lines of a report."""

import re
from pathlib import Path

import pytest

from lightning_xai.data.clinical.annotations import DISCHARGE, read_charts
from lightning_xai.data.clinical.code_map import CodeMap
from lightning_xai.data.clinical.codes import System
from lightning_xai.data.clinical.counts import AnnotationCounts, CountReport
from lightning_xai.data.clinical.id_lists import read_id_lists
from lightning_xai.data.clinical.published import ADMISSIONS, LARGER, published_numbers
from lightning_xai.data.clinical.reading import ChartSettings
from lightning_xai.data.sources.mdace import Mdace

ICD9: list[System] = ["ICD-9-CM", "ICD-9-PCS"]
ICD10: list[System] = ["ICD-10-CM", "ICD-10-PCS"]


def notes_of(shared: Path, setting, systems, *, all_notes):
    source = Mdace("mimic", str(shared / "data" / "mdace"), setting=setting, code_systems=systems)
    lists = read_id_lists(source.splits)
    charts = ChartSettings(shared / "data" / "mdace", setting, all_notes, "none").read(systems, lists)
    return {split: [note for a in admissions for note in charts[a]] for split, admissions in lists.items()}, lists


def test_inpatient_icd_9_has_the_published_numbers(shared):
    notes, lists = notes_of(shared, "Inpatient", ICD9, all_notes=False)
    assert {split: len(admissions) for split, admissions in lists.items()} == ADMISSIONS["mdace"]
    assert [AnnotationCounts.of(notes[split], ICD9) for split in ("train", "validation", "test")] == [
        AnnotationCounts(notes=185, pairs=1900, spans=2140),
        AnnotationCounts(notes=61, pairs=576, spans=649),
        AnnotationCounts(notes=62, pairs=591, spans=645),
    ]
    assert all(note.category == DISCHARGE for part in notes.values() for note in part)


def test_annotated_notes_of_every_category(shared):
    notes, _ = notes_of(shared, "Inpatient", ICD9, all_notes=True)
    assert [AnnotationCounts.of(notes[split], ICD9).notes for split in ("train", "validation", "test")] == [
        355,
        122,
        127,
    ]


def dropped(notes, systems):
    codes = CodeMap(systems, None, None)
    for note in (note for part in notes.values() for note in part):
        for one in note.annotations:
            codes(one.system, one.code)
    return codes.dropped


def test_two_annotations_of_icd_9_are_dropped_from_the_icd_10_charts(shared):
    notes, _ = notes_of(shared, "Inpatient", ICD10, all_notes=True)
    assert dropped(notes, ICD10) == {"annotations of ICD-9-CM": 2}


@pytest.mark.parametrize(("systems", "repeated"), [(ICD9, 1), (ICD10, 0)])
def test_cpt_is_dropped_from_profee_and_a_repeated_span_is_merged(shared, systems, repeated):
    notes, lists = notes_of(shared, "Profee", systems, all_notes=True)
    assert sum(map(len, lists.values())) == 52
    assert dropped(notes, systems) == {"annotations of CPT": 346}
    assert sum(note.num_repeated for part in notes.values() for note in part) == repeated


def test_joint_lists_contain_mdaces_own(shared):
    folder = shared / "data" / "mdace" / "splits" / "Inpatient"
    names = {"train": "train", "validation": "val", "test": "test"}
    joint, own = (
        read_id_lists({split: str(folder / f"MDace-{kind}-{name}.csv") for split, name in names.items()})
        for kind in ("code-ev", "ev")
    )
    assert {split: len(admissions) for split, admissions in joint.items()} == ADMISSIONS["joint"]
    assert all(set(own[split]) <= set(joint[split]) for split in own)


def test_larger_test_set_has_the_admissions_of_training_and_test(shared):
    folder = shared / "data" / "mdace" / "splits" / "Inpatient"
    both = [str(folder / f"MDace-ev-{name}.csv") for name in ("train", "test")]
    lists = read_id_lists({"validation": str(folder / "MDace-ev-val.csv"), "test": both})
    assert [len(lists[split]) for split in ("validation", "test")] == [LARGER["validation"], LARGER["test"]]


def numbers_beside(corpus, systems, setting, num_test, *, all_notes=False):
    """Returns the published numbers that a report without documents shows."""
    given = published_numbers(corpus, systems, setting, all_notes=all_notes, num_test=num_test)
    report = CountReport(given, {"train": 1, "validation": 1, "test": num_test})
    for split in report.listed:
        report.add(split, [])
        if corpus == "joint":
            report.charts[split] = 0
        if setting is not None:
            report.annotated[split] = AnnotationCounts(0, 0, 0)
    return [re.findall(r"\(published[^:]*: ([^)]*)\)", line) for line in report.lines()]


RESULTS = "586 with 2,091 evidence tokens, or 583 with 2,079"


@pytest.mark.parametrize(
    ("corpus", "num_test", "expected"),
    [
        (
            "mdace",
            61,
            [["181", "185", "1,900", "2,140"], ["60", "61", "576", "649"], ["61", RESULTS, "62", "591", "645"]],
        ),
        ("mdace", 5, [["181", "185", "1,900", "2,140"], ["60", "61", "576", "649"], ["61", "62", "591", "645"]]),
        (
            "joint",
            3_131,
            [
                ["47,900", "181", "185", "1,900", "2,140"],
                ["1,691", "60", "61", "576", "649"],
                ["3,131", "61", "62", "591", "645"],
            ],
        ),
        (
            "joint",
            242,
            [
                ["47,719", "0"],
                ["60", "60", "61", "576", "649"],
                ["242", "242", "2,441 with 9,074 evidence tokens", "247", "2,491", "2,785"],
            ],
        ),
    ],
)
def test_report_sets_the_published_numbers_beside_those_of_discharge_summaries(corpus, num_test, expected):
    assert numbers_beside(corpus, ICD9, "Inpatient", num_test) == expected


def test_report_sets_the_number_of_notes_beside_that_of_all_annotated_notes():
    beside = numbers_beside("mdace", ICD9, "Inpatient", 61, all_notes=True)
    assert beside == [["181", "355"], ["60", "122"], ["61", "127"]]


def test_report_of_mimic_has_published_admissions_only():
    assert numbers_beside("mimic", ICD9, None, 3_372) == [["47,719"], ["1,631"], ["3,372"]]


@pytest.mark.parametrize(
    ("systems", "setting"), [(ICD10, "Inpatient"), (ICD10[:1], "Inpatient"), (ICD9, "Profee"), (ICD10, "Profee")]
)
@pytest.mark.parametrize("all_notes", [False, True])
@pytest.mark.parametrize("num_test", [61, 242])
def test_report_sets_nothing_beside_numbers_that_were_not_published(systems, setting, all_notes, num_test):
    assert numbers_beside("mdace", systems, setting, num_test, all_notes=all_notes) == [[], [], []]


def test_pairs_and_spans_were_published_for_both_code_systems_together():
    assert numbers_beside("mdace", ICD9[:1], "Inpatient", 61) == [["181"], ["60"], ["61"]]


def test_published_numbers_of_the_larger_test_split_are_those_of_its_files(shared):
    notes, _ = notes_of(shared, "Inpatient", ICD9, all_notes=False)
    counts = AnnotationCounts.of([*notes["train"], *notes["test"]], ICD9)
    assert (
        vars(counts) == published_numbers("mdace", ICD9, "Inpatient", all_notes=False, num_test=242).annotated["test"]
    )


def test_every_chart_of_mdace_is_read(shared):
    for setting, number, num_spans in (("Inpatient", 302, 3934), ("Profee", 52, 5562)):
        files = ChartSettings(shared / "data" / "mdace", setting, True, "none").files(ICD9)
        charts = read_charts(files, files)
        assert len(charts) == number
        assert sum(len(note.annotations) for notes in charts.values() for note in notes) == num_spans
