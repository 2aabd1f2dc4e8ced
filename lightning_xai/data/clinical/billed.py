"""Reads the billed codes of MIMIC-III's admissions."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightning_xai.data.clinical.codes import SHORTEST, System, with_point
from lightning_xai.data.clinical.row_ids import RowIds
from lightning_xai.data.clinical.tables import find_table, id_in, new_row_id, read_table_rows, required_id

TABLES: dict[System, str] = {"ICD-9-CM": "DIAGNOSES_ICD", "ICD-9-PCS": "PROCEDURES_ICD"}
# the codes in each table: three digits or more, without a point; in diagnoses, the first may be E or V
FORMS = {"ICD-9-CM": re.compile("[0-9EV][0-9]{2,4}"), "ICD-9-PCS": re.compile("[0-9]{3,4}")}
ENOUGH_ROWS = 1000  # in an undamaged table with at least this many rows, some codes begin with 0


def tables_of(systems: Sequence[System]) -> list[str]:
    """Returns the names of the tables to read for codes of `systems`.

    MIMIC-III has no billed ICD-10 codes. For ICD-10, DIAGNOSES_ICD is read only for the patient ids.

    Example:
        >>> tables_of(["ICD-9-PCS"]), tables_of(["ICD-10-CM"])
        (['PROCEDURES_ICD'], ['DIAGNOSES_ICD'])
    """
    return [TABLES[system] for system in systems if system in TABLES] or [TABLES["ICD-9-CM"]]


@dataclass(frozen=True)
class BilledCodes:
    """The billed codes of the admissions in the lists of a source's splits.

    Attributes:
        codes: admission -> its distinct codes, sorted, with decimal points. Admissions without a code have no entry.
        patients: admission -> patient.
        known: the codes of all admissions in the tables, including admissions that are in no list.
    """

    codes: dict[int, tuple[str, ...]]
    patients: dict[int, int]
    known: set[str]


def read_billed(folder: Path, systems: Sequence[System], admissions: Container[int]) -> BilledCodes:
    """Returns the billed codes of admissions, from DIAGNOSES_ICD for ICD-9-CM and PROCEDURES_ICD for ICD-9-PCS.

    Only the tables of the given systems are read. Rows without an admission or a code are skipped.

    Args:
        folder: folder of the tables.
        systems: the ICD-9 code systems to read.
        admissions: the admissions whose codes are returned.

    Raises:
        ValueError: a table is missing or damaged, as in `read_table_rows`, has no codes, repeats a ROW_ID, or has a
            code of another form than MIMIC-III's; or the codes have lost their leading zeros.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = '"ROW_ID","SUBJECT_ID","HADM_ID","SEQ_NUM","ICD9_CODE"\\n1,9,101,1,"0389"\\n2,9,101,2,"0389"\\n'
        ...     _ = Path(folder, "DIAGNOSES_ICD.csv").write_text(rows)
        ...     read_billed(Path(folder), ["ICD-9-CM"], {101}).codes
        {101: ('038.9',)}
    """
    codes_by_admission: dict[int, list[str]] = {}
    patients: dict[int, int] = {}
    # (system, code in the table) -> code with its decimal point. All occurrences of a code share one string, to save
    # memory
    pointed: dict[tuple[str, str], str] = {}
    for system in systems:
        name = TABLES[system]
        num_rows, with_zero, seen = 0, False, RowIds()
        for where, row in read_table_rows(folder, name, ["ROW_ID", "SUBJECT_ID", "HADM_ID", "ICD9_CODE"]):
            new_row_id(row["ROW_ID"], seen, where)
            patient = required_id(row["SUBJECT_ID"], "SUBJECT_ID", where)
            admission = id_in(row["HADM_ID"], "HADM_ID", where)
            code = row["ICD9_CODE"].strip()
            if admission is None or not code:
                continue
            if (system, code) not in pointed:
                _check_form(code, system, where)
            num_rows, with_zero = num_rows + 1, with_zero or code.startswith("0")
            code = pointed.setdefault((system, code), with_point(code, system))
            if admission not in admissions:
                continue
            patients.setdefault(admission, patient)
            codes = codes_by_admission.setdefault(admission, [])
            if code not in codes:
                codes.append(code)
        if not num_rows:
            raise ValueError(f"{find_table(folder, name)} has no codes: copy the original table again")
        if num_rows >= ENOUGH_ROWS and not with_zero:
            raise _without_zeros(f"{find_table(folder, name)}: none of {num_rows:,} codes begins with 0")
    sorted_codes = {
        admission: tuple(sorted(codes_by_admission.pop(admission))) for admission in list(codes_by_admission)
    }
    return BilledCodes(sorted_codes, patients, set(pointed.values()))


def _check_form(code: str, system: System, where: str) -> None:
    if len(code) < SHORTEST:
        raise _without_zeros(f"{where}: ICD9_CODE has fewer than {SHORTEST} characters")
    if not FORMS[system].fullmatch(code):
        raise ValueError(
            f"{where}: ICD9_CODE is not a code of {system} as MIMIC-III writes it, without a point: another program "
            "saved the table, so copy the original again"
        )


def _without_zeros(problem: str) -> ValueError:
    return ValueError(
        f"{problem}, so a program must have saved the codes as numbers, without leading zeros: copy the original "
        "table again"
    )
