"""MIMIC labels: small files in the form of MIMIC-III 1.4; every text is invented."""

import csv
import gzip

import pytest

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.mimic_labels import (
    MimicLabels,
    anemia_label,
    diabetes_label,
    normalize_text,
    read_summaries,
    split_by_patient,
)

NOTES = [
    "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY", "DESCRIPTION", "CGID",
    "ISERROR", "TEXT",
]  # fmt: skip
DIAGNOSES = ["ROW_ID", "SUBJECT_ID", "HADM_ID", "SEQ_NUM", "ICD9_CODE"]


def write(path, header, rows):
    """Writes a gzipped CSV file in PhysioNet's form: header and texts have quotes, numbers have none."""
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_NONNUMERIC).writerows([header, *rows])


def note(
    admission, text, *, description="Report", date="2150-01-01", category="Discharge summary", error="", patient=0
):
    return [1, patient or admission, admission, date, "", "", category, description, "", error, text]


@pytest.fixture
def folder(tmp_path):
    notes = [
        note(101, "Addendum text.", description="Addendum", date="2150-01-01"),
        note(101, 'First report,\nwith "quotes" and commas.', date="2150-01-02"),
        note(101, "A report by mistake.", error="1"),
        note(101, "A nursing note.", category="Nursing"),
        note(102, "Sugar was 300 mg."),
        note(103, "Nothing to see."),
        note(104, "Blood was lost."),
        note("", "A note without admission."),
    ]
    write(tmp_path / "NOTEEVENTS.csv.gz", NOTES, notes)
    codes = {101: ["2851", "4019"], 102: ["25000", "28521"], 103: ["2851", "28529"], 104: ["2851", ""], 105: ["28522"]}
    rows = [[1, a, a, i, code] for a, of_admission in codes.items() for i, code in enumerate(of_admission)]
    write(tmp_path / "DIAGNOSES_ICD.csv.gz", DIAGNOSES, rows)
    return tmp_path


@pytest.fixture
def lists(tmp_path):
    where = tmp_path / "lists"
    where.mkdir()
    for part, admissions in {"train": [101, 103], "dev": [102], "test": [104]}.items():
        (where / f"{part}_50_hadm_ids.csv").write_text("".join(f"{a}\n" for a in admissions))
    return where


def table(rows):
    return {row["id"]: row["labels"] for part in rows.values() for row in part}


@pytest.mark.parametrize("codes, label", [(["25000"], 1), (["4019", "25000"], 1), (["25001"], 0), ([], 0)])
def test_diabetes_is_250_00(codes, label):
    assert diabetes_label(codes) == label


@pytest.mark.parametrize(
    "codes, label", [(["2851"], 1), (["28521"], 0), (["28529", "4019"], 0), (["2851", "28521"], None), (["2859"], None)]
)
def test_anemia_is_acute_or_chronic_and_not_both(codes, label):
    assert anemia_label(codes) == label


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Admission Date:  [**2151-7-16**]\n", "admission date : <de>"),
        ("Dr. [**Last Name (STitle) 17**] saw him", "dr . <de> saw him"),
        ("Na 140, K+ 3.5", "na qqq , k + qqq"),
        ("======\nfirst - - - second", "= first - second"),
        ("patient's b12", "patient's qqq"),
    ],
)
def test_notes_are_normalized(text, expected):
    assert normalize_text(text) == expected


def test_report_stands_before_addendum_and_errors_are_left_out(folder):
    assert read_summaries(folder, {"101"}) == {"101": 'First report,\nwith "quotes" and commas. Addendum text.'}


def test_anemia_has_only_admissions_with_one_kind_and_a_summary(folder):
    splits = MimicLabels(str(folder), "anemia", validation_fraction=0.3, test_fraction=0.3).load()
    assert table(splits) == {"101": 1, "102": 0, "104": 1}  # 103 has both kinds, 105 no summary


def test_diabetes_has_the_listed_admissions_in_their_splits(folder, lists):
    splits = MimicLabels(str(folder), "diabetes", splits_dir=str(lists)).load()
    assert {split: part["id"][:] for split, part in splits.items()} == {
        "train": ["101", "103"], "validation": ["102"], "test": ["104"],
    }  # fmt: skip
    assert table(splits) == {"101": 0, "102": 1, "103": 0, "104": 0}


def test_text_is_normalized_unless_told_otherwise(folder, lists):
    texts = {
        normalized: MimicLabels(str(folder), splits_dir=str(lists), normalized=normalized).load()["validation"]["text"][
            0
        ]
        for normalized in (True, False)
    }
    assert texts == {True: "sugar was qqq mg .", False: "Sugar was 300 mg."}


def test_long_documents_are_left_out(folder, lists):
    splits = MimicLabels(str(folder), splits_dir=str(lists), max_words=5).load()
    assert sorted(table(splits)) == ["102", "103", "104"]


def test_listed_admission_without_summary_is_named(folder, lists):
    (lists / "test_50_hadm_ids.csv").write_text("105\n")
    with pytest.raises(ValueError, match="admission 105 .*no discharge summary"):
        MimicLabels(str(folder), splits_dir=str(lists)).load()


def test_wrong_line_of_a_list_is_named(folder, lists):
    (lists / "dev_50_hadm_ids.csv").write_text("HADM_ID\n102\n")
    with pytest.raises(ValueError, match="dev_50_hadm_ids.csv, line 1"):
        MimicLabels(str(folder), splits_dir=str(lists)).load()


def test_missing_list_is_named(folder, lists):
    (lists / "dev_50_hadm_ids.csv").unlink()
    with pytest.raises(ValueError, match="dev_50_hadm_ids.csv is missing"):
        MimicLabels(str(folder), splits_dir=str(lists)).load()


def test_no_patient_is_in_two_splits():
    patients = {str(admission): str(admission // 3) for admission in range(60)}
    parts = split_by_patient(patients, 0.2, 0.3, seed=0)
    assert {split: len(part) for split, part in parts.items()} == {"train": 30, "validation": 12, "test": 18}
    homes = [{patients[admission] for admission in part} for part in parts.values()]
    assert sum(map(len, homes)) == len(set.union(*homes)) == 20


def test_files_that_are_not_compressed_are_read(folder, lists):
    for name in ("NOTEEVENTS", "DIAGNOSES_ICD"):
        packed = folder / f"{name}.csv.gz"
        (folder / f"{name}.csv").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    assert len(table(MimicLabels(str(folder), splits_dir=str(lists)).load())) == 4


def test_note_longer_than_the_default_limit_of_csv_is_read(folder):
    write(folder / "NOTEEVENTS.csv.gz", NOTES, [note(102, "word " * 40_000)])
    limit = csv.field_size_limit()
    assert len(read_summaries(folder, {"102"})["102"].split()) == 40_000
    assert csv.field_size_limit() == limit


def test_missing_file_is_named(folder):
    (folder / "DIAGNOSES_ICD.csv.gz").unlink()
    with pytest.raises(ValueError, match="neither DIAGNOSES_ICD.csv nor DIAGNOSES_ICD.csv.gz"):
        MimicLabels(str(folder)).load()


def test_missing_column_is_named(folder):
    write(folder / "DIAGNOSES_ICD.csv.gz", DIAGNOSES[:-1], [[1, 101, 101, 1]])
    with pytest.raises(ValueError, match="DIAGNOSES_ICD.csv.gz has no column ICD9_CODE"):
        MimicLabels(str(folder)).load()


def test_row_cut_off_is_named_with_its_line(folder):
    write(folder / "DIAGNOSES_ICD.csv.gz", DIAGNOSES, [[1, 101, 101, 1, "2851"], [2, 101]])
    with pytest.raises(ValueError, match="DIAGNOSES_ICD.csv.gz, line 3: 2 columns"):
        MimicLabels(str(folder)).load()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"task": "gout"}, "task is 'gout'"),
        ({"test_fraction": 0.9}, "test_fraction=0.9"),
        ({"max_words": 0}, "max_words is 0"),
    ],
)
def test_wrong_option_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        MimicLabels("data", **options)


def test_laws(folder):
    check_source(MimicLabels(str(folder), "anemia", validation_fraction=0.3, test_fraction=0.3))
