"""Mimic: admissions of an invented MIMIC-III, against a join by hand."""

import copy
import csv
import json

import pytest

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.mimic import Mimic
from tests.data.clinical.look_alike import edit_rows, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def own(tmp_path):
    """A corpus that a test may change."""
    return write_corpus(tmp_path, num_admissions=8, num_codes=8)


def source(corpus, **options):
    return Mimic(str(corpus.mimic_dir), corpus.lists, **options)


def rows_of(corpus, name):
    with (corpus.mimic_dir / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def documents(corpus, **options):
    return {row["id"]: row for rows in source(corpus, **options).load().values() for row in rows}


def test_texts_are_joined_reports_before_addenda_by_time_date_and_row(corpus):
    notes: dict[str, list[tuple]] = {}
    for row in rows_of(corpus, "NOTEEVENTS"):
        if row["CATEGORY"] == "Discharge summary":
            key = (row["DESCRIPTION"] != "Report", row["CHARTTIME"], row["CHARTDATE"], int(row["ROW_ID"]))
            notes.setdefault(row["HADM_ID"], []).append((key, row["TEXT"]))
    expected = {admission: " ".join(text for _, text in sorted(found)) for admission, found in notes.items()}
    assert {name: row["text"] for name, row in documents(corpus).items()} == expected
    assert any(len(found) > 2 for found in notes.values())  # an addendum and two reports


def test_labels_are_the_billed_codes_with_their_points(corpus):
    expected: dict[str, set[str]] = {}
    for name, digits in (("DIAGNOSES_ICD", 3), ("PROCEDURES_ICD", 2)):
        for row in rows_of(corpus, name):
            code = row["ICD9_CODE"]
            before = 4 if code.startswith("E") else digits
            expected.setdefault(row["HADM_ID"], set()).add(f"{code[:before]}.{code[before:]}")
    names = source(corpus).class_names
    assert {name: {names[i] for i in row["labels"]} for name, row in documents(corpus).items()} == expected
    assert names == sorted(set().union(*expected.values()))


def test_splits_are_those_of_the_lists(corpus):
    splits = source(corpus).load()
    for split, path in corpus.lists.items():
        assert splits[split]["id"][:] == open(path).read().split()


def test_reports_are_sorted_by_time_before_date(own):
    texts = iter(["second", "third", "first"])

    def edit(row):
        if row["HADM_ID"] != "100001" or row["CATEGORY"] != "Discharge summary":
            return row
        text = next(texts, "addendum")
        times = {"second": "2150-08-04 09:00:00", "third": "2150-08-04 10:00:00", "first": "2150-08-04 08:00:00"}
        kind = "Addendum" if text == "addendum" else "Report"
        return {**row, "TEXT": text, "CHARTTIME": times.get(text, ""), "DESCRIPTION": kind}

    edit_rows(own.mimic_dir / "NOTEEVENTS.csv", lambda row: row)  # a rewrite alone changes nothing
    before = documents(own)["100001"]["text"]
    table = own.mimic_dir / "NOTEEVENTS.csv"
    with table.open("a") as file:
        for row_id, kind in ((8_000_001, "Report"), (8_000_002, "Report"), (8_000_003, "Addendum")):
            file.write(f'{row_id},1,100001,2150-08-04,,,"Discharge summary","{kind}",,,"Late."\n')
    assert documents(own)["100001"]["text"].startswith(before.split("Completed by")[0])
    edit_rows(table, edit)
    assert documents(own)["100001"]["text"].startswith("first second third")


def test_notes_marked_as_errors_are_kept_and_counted(own):
    edit_rows(own.mimic_dir / "NOTEEVENTS.csv", lambda row: {**row, "ISERROR": "1"})
    marked = source(own)
    texts = {row["id"]: row["text"] for rows in marked.load().values() for row in rows}
    assert len(texts) == 8
    (line,) = (line for line in marked.report() if line.startswith("NOTEEVENTS"))
    in_use = int(line.split(" notes in use,")[0].split()[-1])
    assert f"{in_use} notes in use marked as errors" in line


def test_admissions_without_code_or_summary_are_left_out_and_counted(own):
    edit_rows(own.mimic_dir / "NOTEEVENTS.csv", lambda row: None if row["HADM_ID"] == "100001" else row)
    for name in ("DIAGNOSES_ICD", "PROCEDURES_ICD"):
        edit_rows(own.mimic_dir / f"{name}.csv", lambda row: None if row["HADM_ID"] == "100003" else row)
    found = source(own)
    assert not {"100001", "100003"} & {name for rows in found.load().values() for name in rows["id"]}
    assert found.report()[0].startswith("train: 2 of 4 listed admissions (published: 47,719)")
    assert "1 admissions without a code" in found.report()[-1]
    assert "1 admissions without a discharge summary" in found.report()[-1]


def test_classes_of_a_checkpoint_keep_their_order_and_drop_other_codes(corpus, tmp_path):
    every = source(corpus).class_names
    chosen = [every[9], every[2], "999.99"]
    (tmp_path / "target_tokenizer.json").write_text(json.dumps(chosen))
    found = source(corpus, classes=str(tmp_path))
    assert found.class_names == chosen
    rows = {row["id"]: row["labels"] for split in found.load().values() for row in split}
    everything = {name: {every[i] for i in row["labels"]} for name, row in documents(corpus).items()}
    expected = {
        name: [i for i, code in enumerate(chosen) if code in codes]
        for name, codes in everything.items()
        if codes & set(chosen)
    }
    assert rows == expected and 0 < len(rows) < 24
    dropped = sum(len(codes - set(chosen)) for codes in everything.values())
    assert f"{dropped} billed codes without a class" in found.report()[-1]
    assert f"{24 - len(rows)} admissions without a code among the classes" in found.report()[-1]


def test_diagnoses_alone_need_no_table_of_procedures(own):
    (own.mimic_dir / "PROCEDURES_ICD.csv").unlink()
    names = source(own, code_systems=["ICD-9-CM"]).class_names
    assert names == sorted(code.icd9 for code in own.codes if not code.is_procedure)


def test_columns_in_lower_case_and_compressed_tables_are_read(tmp_path):
    packed, plain = write_corpus(tmp_path / "gz", compress=True), write_corpus(tmp_path / "csv")
    for path in plain.mimic_dir.iterdir():
        first, _, rest = path.read_text().partition("\n")
        path.write_text(f"{first.lower()}\n{rest}")
    assert documents(packed) == documents(plain)


def test_rows_stream_without_a_data_set(corpus):
    streamed = source(corpus)
    streams = streamed.row_streams()
    assert {split: [dict(row) for row in rows] for split, rows in streams.items()} == {
        split: rows.to_list() for split, rows in source(corpus).load().items()
    }
    streamed.release()
    assert len(list(streamed.row_streams()["test"])) == 6  # reads again
    assert len(list(copy.deepcopy(streamed).row_streams()["test"])) == 6  # a copy too, without the open file


def test_laws(corpus):
    check_source(source(corpus))


def test_code_system_of_icd_10_is_refused():
    with pytest.raises(ValueError, match="MIMIC-III has ICD-9-CM and ICD-9-PCS only"):
        Mimic("mimic", {"test": "ids.csv"}, code_systems=["ICD-10-CM"])
