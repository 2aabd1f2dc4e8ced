"""Keeps the texts of notes on disk, and a small index of the notes in memory."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Callable
from pathlib import Path

from lightning_xai.data.clinical.row_ids import RowIds
from lightning_xai.data.clinical.tables import find_table, id_in, new_row_id, read_table_rows, required_id
from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_folders import make_private

COLUMNS = (
    "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "CATEGORY", "DESCRIPTION", "ISERROR", "TEXT",
)  # fmt: skip


class NoteStore:
    """Notes in an unnamed temporary file, which disappears when the store is closed or the process ends.

    Only the owner of the process can read the file. Memory holds eight numbers per note.

    Args:
        folder: the folder of the file. If the folder is missing, it is created, with access for its owner only.

    Example:
        >>> store = NoteStore(Path(tempfile.mkdtemp()))
        >>> store.add("stable", row_id=7, admission=101), store.add("gout", row_id=8, admission=101)
        (0, 1)
        >>> store.text(1), store.row_ids[0]
        ('gout', 7)
        >>> store.close()
    """

    def __init__(self, folder: Path) -> None:
        make_private(folder)
        self._folder = folder
        with writing(folder):
            self._file = tempfile.TemporaryFile(dir=folder)
        self.row_ids, self.admissions, self.patients = array("q"), array("q"), array("q")
        self.is_addendum, self.are_errors = array("b"), array("b")
        self.times, self.dates = array("q"), array("q")  # as `time_number` returns them, such as 21500131000000
        self._offsets = array("q", [0])

    def __len__(self) -> int:
        return len(self.row_ids)

    def add(
        self,
        text: str,
        *,
        row_id: int,
        admission: int,
        patient: int = -1,
        is_addendum: bool = False,
        time: str = "",
        date: str = "",
        is_error: bool = False,
    ) -> int:
        """Writes a note and returns its position in the store."""
        data = text.encode("utf-8")
        with writing(self._folder):
            self._file.write(data)
        self._offsets.append(self._offsets[-1] + len(data))
        self.row_ids.append(row_id)
        self.admissions.append(admission)
        self.patients.append(patient)
        self.is_addendum.append(is_addendum)
        self.times.append(time_number(time))
        self.dates.append(time_number(date))
        self.are_errors.append(is_error)
        return len(self) - 1

    def flush(self) -> None:
        """Writes buffered notes to the file, so that `text` can read them."""
        with writing(self._folder):
            self._file.flush()

    def text(self, position: int) -> str:
        """Returns the text of the note at this position."""
        begin, end = self._offsets[position], self._offsets[position + 1]
        self.flush()
        return os.pread(self._file.fileno(), end - begin, begin).decode("utf-8")

    def order(self, position: int) -> tuple[int, int, int, int]:
        """Returns the key by which notes of an admission are sorted: addenda last, then by time, date and ROW_ID."""
        return self.is_addendum[position], self.times[position], self.dates[position], self.row_ids[position]

    def close(self) -> None:
        """Closes the file, which removes it."""
        self._file.close()


def time_number(value: str) -> int:
    """Returns a date or time as a number by which notes can be sorted; 0 for an empty cell.

    Example:
        >>> time_number("2150-01-31"), time_number("2150-01-31 08:30:00"), time_number("")
        (21500131000000, 21500131083000, 0)
    """
    digits = "".join(character for character in value if character.isdecimal() and character.isascii())
    return int(digits.ljust(14, "0")[:14]) if digits else 0


def read_notes(
    folder: Path, is_stored: Callable[[int, int | None, str], bool], scratch_dir: Path
) -> tuple[NoteStore, dict[str, int]]:
    """Reads NOTEEVENTS row by row and stores the notes for which `is_stored` returns True.

    Args:
        folder: folder of the tables of MIMIC-III 1.4.
        is_stored: gets a note's ROW_ID, HADM_ID and CATEGORY, and returns whether to store the note.
        scratch_dir: folder of the store's file.

    Returns:
        The store, and a dict with the number of notes in the table and the number of notes without an admission.

    Raises:
        ValueError: the table is missing or damaged, has no rows (as in MIMIC-III's demo), or has two rows with the same
            ROW_ID.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = Path(folder, "NOTEEVENTS.csv").write_text(",".join(COLUMNS) + "\\n7,9,101,,,Nursing,Report,,Sleeps.\\n")
        >>> store, counts = read_notes(folder, lambda row_id, admission, category: admission == 101, folder)
        >>> store.text(0), counts
        ('Sleeps.', {'notes': 1, 'notes_without_admission': 0})
        >>> store.close()
    """
    store, seen = NoteStore(scratch_dir), RowIds()
    num_rows = without_admission = 0
    try:
        for where, row in read_table_rows(folder, "NOTEEVENTS", COLUMNS):
            num_rows += 1
            row_id = new_row_id(row["ROW_ID"], seen, where)
            patient = required_id(row["SUBJECT_ID"], "SUBJECT_ID", where)
            admission = id_in(row["HADM_ID"], "HADM_ID", where)
            without_admission += admission is None
            if not is_stored(row_id, admission, row["CATEGORY"].strip()):
                continue
            store.add(
                row["TEXT"],
                row_id=row_id,
                admission=-1 if admission is None else admission,
                patient=patient,
                is_addendum=row["DESCRIPTION"].strip() != "Report",
                time=row["CHARTTIME"],
                date=row["CHARTDATE"],
                is_error=row["ISERROR"].strip() == "1",
            )
        if not num_rows:
            raise ValueError(
                f"{find_table(folder, 'NOTEEVENTS')} has no rows, as in the demo of MIMIC-III, which has no notes: "
                "copy the table from MIMIC-III 1.4"
            )
    except BaseException:
        store.close()
        raise
    store.flush()
    return store, {"notes": num_rows, "notes_without_admission": without_admission}
