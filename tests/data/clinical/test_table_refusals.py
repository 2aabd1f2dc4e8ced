"""Wrong tables of MIMIC-III are refused in one line that names file and row, and never quotes a note."""

import csv
import gzip
import re

import pytest

from lightning_xai.data.clinical.id_lists import Splits
from lightning_xai.data.sources.mdace import Mdace
from lightning_xai.data.sources.mimic import Mimic
from tests.data.clinical.look_alike import NOTES, edit_rows, line
from tests.data.clinical.refusing import PHRASE, refusal, table


def test_missing_table_is_named_with_the_way_to_get_it(folder):
    table(folder, "PROCEDURES_ICD").unlink()
    assert "has neither PROCEDURES_ICD.csv nor PROCEDURES_ICD.csv.gz: MIMIC-III 1.4 is at https" in refusal(folder)


def test_missing_column_is_named(folder):
    path = table(folder)
    path.write_text(path.read_text().replace('"ISERROR"', '"WRONG"', 1))
    message = refusal(folder)
    assert "NOTEEVENTS.csv has no column ISERROR; of MIMIC-III's columns, it has ROW_ID," in message
    assert "WRONG" not in message


@pytest.mark.parametrize("first", ["", "Zanzibar\n", "Zanzibar,porcupine\n", '"Zanzibar porcupine",7\n'])
@pytest.mark.parametrize("name", ["NOTEEVENTS", "DIAGNOSES_ICD"])
def test_table_without_a_header_quotes_no_cell(folder, name, first):
    path = table(folder, name)
    lines = path.read_text().partition("\n")[2]
    path.write_text(first + lines)
    message = refusal(folder)
    assert f"{name}.csv has no column" in message and "its first line does not name columns" in message
    assert "100001" not in message


def test_header_with_words_of_a_note_quotes_only_names_of_columns(folder):
    path = table(folder)
    path.write_text(path.read_text().replace('"ISERROR"', '"Porcupine"', 1))
    assert "it has ROW_ID, SUBJECT_ID, HADM_ID" in refusal(folder)


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_cut_gzip_is_named(folder, kept):
    packed = gzip.compress(table(folder).read_bytes())
    table(folder).unlink()
    path = folder / "mimiciii" / "NOTEEVENTS.csv.gz"
    path.write_bytes(packed[: int(kept * len(packed))])
    assert f"{path} is cut off or damaged" in refusal(folder)


def test_csv_cut_inside_a_note_is_named(folder):
    path = table(folder)
    path.write_text(path.read_text()[:-40])
    assert re.search(r"NOTEEVENTS.csv, (after )?line \d+: .*cut off or damaged", refusal(folder))


def test_table_in_another_encoding_is_named_without_its_bytes(folder):
    path = table(folder)
    path.write_bytes(path.read_bytes() + b'9,1,100001,2150-08-04,,,"Radiology","Report",,,"caf\xe9 Zanzibar"\n')
    assert "NOTEEVENTS.csv is not UTF-8" in refusal(folder)


def test_notes_of_mimic_iv_are_named(folder):
    table(folder).rename(folder / "mimiciii" / "discharge.csv")
    assert "holds notes of MIMIC-IV, not of MIMIC-III 1.4" in refusal(folder)


def test_codes_of_mimic_iv_are_named(folder):
    table(folder, "DIAGNOSES_ICD").write_text("subject_id,hadm_id,seq_num,icd_code,icd_version\n1,100001,1,0389,9\n")
    assert "DIAGNOSES_ICD.csv is a table of MIMIC-IV" in refusal(folder)


def test_empty_notes_of_the_demo_are_named(folder):
    path = table(folder)
    path.write_text(path.read_text().partition("\n")[0].lower() + "\n")
    assert "NOTEEVENTS.csv has no rows, as in the demo of MIMIC-III" in refusal(folder)


@pytest.mark.parametrize("name", ["NOTEEVENTS", "DIAGNOSES_ICD"])
def test_ids_saved_as_decimals_are_refused(folder, name):
    edit_rows(table(folder, name), lambda row: {**row, "HADM_ID": row["HADM_ID"] and f"{row['HADM_ID']}.0"})
    assert re.search(rf"{name}.csv, line \d+: HADM_ID is 1000\d\d.0, a decimal", refusal(folder))


def test_code_that_is_too_short_has_lost_its_zeros(folder):
    edit_rows(table(folder, "DIAGNOSES_ICD"), lambda row: {**row, "ICD9_CODE": row["ICD9_CODE"].lstrip("0")[:2]})
    assert re.search(r"DIAGNOSES_ICD.csv, line 2: ICD9_CODE has fewer than 3 characters, so a pr", refusal(folder))


def test_many_codes_none_of_which_begins_with_zero_have_lost_their_zeros(folder):
    path = table(folder, "DIAGNOSES_ICD")
    path.write_text(
        path.read_text().partition("\n")[0] + "\n" + "".join(f'{i},1,100001,1,"389"\n' for i in range(1000))
    )
    assert "DIAGNOSES_ICD.csv: none of 1,000 codes begins with 0, so a program must have" in refusal(folder)


@pytest.mark.parametrize("name", ["DIAGNOSES_ICD", "PROCEDURES_ICD"])
@pytest.mark.parametrize(
    "save",
    [
        lambda code: f"{code[:2]}.{code[2:]}",
        lambda code: f"{code[:3]}.{code[3:]}",
        lambda code: f"{code}.0",
        lambda code: f"{code}E3",
        lambda code: f"'{code}",
        lambda code: PHRASE,
    ],
)
def test_codes_of_another_form_are_refused(folder, name, save):
    edit_rows(table(folder, name), lambda row: {**row, "ICD9_CODE": save(row["ICD9_CODE"])})
    kind = "ICD-9-CM" if name == "DIAGNOSES_ICD" else "ICD-9-PCS"
    assert f"{name}.csv, line 2: ICD9_CODE is not a code of {kind} as MIMIC-III writes it" in refusal(folder)


@pytest.mark.parametrize("name", ["DIAGNOSES_ICD", "PROCEDURES_ICD"])
@pytest.mark.parametrize("code", [None, ""])
def test_table_without_codes_is_refused(folder, name, code):
    edit_rows(table(folder, name), lambda row: None if code is None else {**row, "ICD9_CODE": code})
    assert f"{name}.csv has no codes: copy the original table again" in refusal(folder)


@pytest.mark.parametrize("name", ["NOTEEVENTS", "DIAGNOSES_ICD", "PROCEDURES_ICD"])
def test_patients_are_checked_in_every_row(folder, name):
    path = table(folder, name)
    with path.open(newline="") as file:
        last = list(csv.DictReader(file))[-1]["ROW_ID"]
    edit_rows(path, lambda row: {**row, "SUBJECT_ID": "1.0"} if row["ROW_ID"] == last else row)
    assert re.search(rf"{name}.csv, line \d+: SUBJECT_ID is 1.0, a decimal", refusal(folder))


@pytest.mark.parametrize("name", ["NOTEEVENTS", "DIAGNOSES_ICD", "PROCEDURES_ICD"])
def test_repeated_rows_are_refused(folder, name):
    path = table(folder, name)
    path.write_text(path.read_text() + path.read_text().partition("\n")[2])
    assert re.search(rf"{name}.csv, line \d+: ROW_ID \d+ is repeated", refusal(folder))


@pytest.mark.parametrize("category", ["Discharge summary", "Radiology"])
def test_a_row_id_is_refused_even_if_it_repeats_that_of_a_note_without_use(folder, category):
    path = table(folder)
    with path.open(newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["CATEGORY"] == category)
    with path.open("a") as file:
        file.write(line(NOTES, [(row | {"HADM_ID": "199999"})[name] for name in NOTES]))
    assert f"ROW_ID {row['ROW_ID']} is repeated" in refusal(folder)


def test_notes_with_line_ends_of_cr_lf_are_refused_only_where_spans_point_into_them(folder):
    path = table(folder)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert re.search(r"note \d+ in .*NOTEEVENTS.csv has CRLF line endings", refusal(folder, Mdace))
    lists: Splits = {"test": str(folder / "lists" / "test_full_hadm_ids.csv")}
    assert "\r\n" in Mimic(str(folder / "mimiciii"), lists).load()["test"][0]["text"]
