"""Wrong lists of admissions, and patients in two splits, are refused in one line."""

import pyarrow as pa
from pyarrow import feather

from lightning_xai.data.sources.mdace import Mdace
from lightning_xai.data.sources.mimic import Mimic
from tests.data.clinical.look_alike import edit_rows
from tests.data.clinical.refusing import refusal, table


def lists_of(folder, **texts):
    files = {}
    for split, text in texts.items():
        files[split] = str(folder / f"{split}.csv")
        (folder / f"{split}.csv").write_text(text)
    return files


def test_header_of_a_list_is_named(folder):
    lists = lists_of(folder, train="hadm_id\n100001\n")
    assert "train.csv, line 1 is not a HADM_ID and looks like a header" in refusal(folder, splits=lists)


def test_repeated_admission_of_a_list_is_named(folder):
    lists = lists_of(folder, train="100001\n100003\n100001\n")
    assert "`splits` has admission 100001 twice in split 'train'" in refusal(folder, splits=lists)


def test_admission_in_two_splits_is_named(folder):
    lists = lists_of(folder, train="100001\n", test="100003\n100001\n")
    assert "`splits` has admission 100001 in the splits 'train' and 'test'" in refusal(folder, splits=lists)


def test_patient_in_two_splits_is_named_unless_that_is_allowed(folder):
    for name in ("DIAGNOSES_ICD", "PROCEDURES_ICD"):
        edit_rows(table(folder, name), lambda row: {**row, "SUBJECT_ID": "7"})
    lists = lists_of(folder, train="100001\n", test="100003\n")
    message = refusal(folder, splits=lists)
    assert "patient 7 is in two splits (admission 100001 in 'train', admission 100003 in 'test')" in message
    allowed = Mimic(str(folder / "mimiciii"), lists, shared_patients=True)
    assert set(allowed.load()) == {"train", "test"} and "patients in several splits: 1" in allowed.report()


def test_patient_in_two_splits_is_named_by_the_notes_if_its_admission_has_no_billed_code(folder):
    edit_rows(table(folder), lambda row: {**row, "SUBJECT_ID": "7"} if row["HADM_ID"] in ("100001", "100003") else row)
    for name in ("DIAGNOSES_ICD", "PROCEDURES_ICD"):
        edit_rows(table(folder, name), lambda row: None if row["HADM_ID"] in ("100001", "100003") else row)
    lists = lists_of(folder, train="100001\n", test="100003\n")
    message = refusal(folder, Mdace, splits=lists)
    assert "patient 7 is in two splits (admission 100001 in 'train', admission 100003 in 'test')" in message


def test_missing_list_is_named_with_its_places(folder):
    message = refusal(folder, splits={"train": str(folder / "none.csv")})
    assert "none.csv is missing: use Mullenbach's" in message


def test_feather_file_without_rows_is_named(folder):
    path = folder / "splits.feather"
    feather.write_feather(pa.table({"_id": pa.array([], pa.int64()), "split": pa.array([], pa.string())}), path)
    assert f"{path} has no rows: give a list with at least one admission" in refusal(folder, splits=str(path))


def test_lists_without_a_split_are_refused(folder):
    assert "`splits` names no split: give at least one list of admissions" in refusal(folder, splits={})
