"""Discharge summaries of MIMIC-III with a label that follows from the diagnoses: diabetes, or the kind of anemia."""

from __future__ import annotations

import csv
import gzip
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Literal

from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rows_to_dataset, split_rows
from lightning_xai.functional.choices import require_choices

Task = Literal["diabetes", "anemia"]
NUMBER = "qqq"
LONGEST_CELL = 2**24  # characters; notes are longer than the 131,072 that csv takes by default
LISTS = {"train": "train_50_hadm_ids.csv", "validation": "dev_50_hadm_ids.csv", "test": "test_50_hadm_ids.csv"}


def diabetes_label(codes: Collection[str]) -> int:
    """Returns 1 for type II diabetes without complications, ICD-9 250.00, else 0. Codes have no point."""
    return int(any(code.startswith("25000") for code in codes))


def anemia_label(codes: Collection[str]) -> int | None:
    """Returns 1 for acute anemia, ICD-9 285.1, 0 for one of chronic disease, 285.2; None for neither or both."""
    acute, chronic = (any(code.startswith(prefix) for code in codes) for prefix in ("2851", "2852"))
    return None if acute == chronic else int(acute)


LABELS: dict[str, tuple[list[str], Callable[[Collection[str]], int | None]]] = {
    "diabetes": (["other", "diabetes"], diabetes_label),
    "anemia": (["chronic", "acute"], anemia_label),
}


def normalize(text: str) -> str:
    """Returns the words and punctuation marks of a note, in lower case and apart by a space.

    Names that were taken out, "[**...**]", become "<de>"; a mark that repeats stands once; a word with a digit becomes
    "qqq".
    """
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\[ ?\* ?\*(.*?)\* ?\* ?\]", " <DE> ", text)
    text = re.sub(r"([^a-zA-Z0-9\s])(?: ?\1)+", r"\1 ", text)
    words = re.findall(r"<de>|\w+(?:['.]\w+)*|[^\w\s]", text.lower())
    return " ".join(NUMBER if any(c.isdigit() for c in word) else word for word in words)


def read_table(folder: Path, name: str, columns: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields "file, line" and the given columns of every row of {name}.csv or {name}.csv.gz, one row at a time.

    Raises:
        ValueError: the file is missing, lacks a column, or has a row of another width; names file and line.
    """
    paths = [path for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz") if path.is_file()]
    if not paths:
        raise ValueError(f"{folder} has neither {name}.csv nor {name}.csv.gz; fetch it from PhysioNet's MIMIC-III 1.4")
    opener = gzip.open if paths[0].suffix == ".gz" else open
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        with opener(paths[0], mode="rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            missing = [column for column in columns if column not in header]
            if missing:
                raise ValueError(f"{paths[0]} has no column {', '.join(missing)}; its columns are {', '.join(header)}")
            places = {column: header.index(column) for column in columns}
            for row in rows:
                where = f"{paths[0]}, line {rows.line_num}"
                if len(row) != len(header):
                    raise ValueError(f"{where}: {len(row)} columns, not {len(header)}; the file is cut off or damaged")
                yield where, {column: row[place] for column, place in places.items()}
    finally:
        csv.field_size_limit(limit)


def read_diagnoses(folder: Path) -> dict[str, tuple[str, set[str]]]:
    """Returns the patient and the ICD-9 codes of every admission; rows without a code are left out."""
    found: dict[str, tuple[str, set[str]]] = {}
    for _, row in read_table(folder, "DIAGNOSES_ICD", ["SUBJECT_ID", "HADM_ID", "ICD9_CODE"]):
        if row["ICD9_CODE"]:
            found.setdefault(row["HADM_ID"], (row["SUBJECT_ID"], set()))[1].add(row["ICD9_CODE"])
    return found


def read_summaries(folder: Path, admissions: Collection[str]) -> dict[str, str]:
    """Returns the discharge summaries of the given admissions: reports, then addenda, each by date, joined by spaces.

    Notes marked as errors are left out. The file is read row by row and only these notes are kept.
    """
    notes = defaultdict(list)
    columns = ["HADM_ID", "CHARTDATE", "CATEGORY", "DESCRIPTION", "ISERROR", "TEXT"]
    for _, row in read_table(folder, "NOTEEVENTS", columns):
        if row["CATEGORY"] == "Discharge summary" and not row["ISERROR"] and row["HADM_ID"] in admissions:
            notes[row["HADM_ID"]].append((row["DESCRIPTION"] != "Report", row["CHARTDATE"], row["TEXT"]))
    return {
        admission: " ".join(text for *_, text in sorted(parts, key=lambda part: part[:2])).strip()
        for admission, parts in notes.items()
    }


def read_admission_lists(folder: Path) -> dict[str, list[str]]:
    """Returns the admissions of each split, from files with one number a line."""
    found = {}
    for split, name in LISTS.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing; splits_dir must hold {', '.join(LISTS.values())}")
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        for number, line in enumerate(lines, start=1):
            if line and not line.isdecimal():
                raise ValueError(f"{path}, line {number}: {line!r} is no admission (HADM_ID); the file has no header")
        found[split] = [line for line in lines if line]
    return found


def split_by_patient(
    patients: dict[str, str], validation_fraction: float, test_fraction: float, seed: int
) -> dict[str, list[str]]:
    """Returns a random partition of the admissions in which no patient is in two splits.

    Args:
        patients: admission -> patient.
        validation_fraction, test_fraction: of the patients.
    """
    names = sorted(set(patients.values()), key=int)
    parts = split_rows(len(names), validation_fraction, test_fraction, seed)
    homes = {names[i]: split for split, rows in parts.items() for i in rows}
    return {split: [a for a, patient in patients.items() if homes[patient] == split] for split in parts}


class MimicLabels(TextSource):
    """Discharge summaries: of diabetes or not, or of acute anemia or that of chronic disease.

    As published by Jain and Wallace: the summaries of an admission and their addenda are joined; diabetes is ICD-9
    250.00 among the admissions of the lists in `splits_dir`; anemia is 285.1 against 285.2, admissions with both or
    neither left out; text is in lower case, names taken out are "<de>", words with a digit "qqq". Ours: words are found
    by a regular expression, not by spaCy; and without lists, patients are divided, so that none is in two splits
    (published: admissions, a fifth to test and .15 of the rest to validation, with as much of either class in each).

    Args:
        data_dir: folder with NOTEEVENTS.csv and DIAGNOSES_ICD.csv of MIMIC-III 1.4, perhaps as .csv.gz. Several
            gigabytes are read, row by row; only the notes of the task are kept.
        task: what the label is.
        splits_dir: folder with train_50_hadm_ids.csv, dev_50_hadm_ids.csv and test_50_hadm_ids.csv, one admission a
            line: other admissions are left out. None for all of the task, divided by patient.
        normalized: whether the text is normalized; else it is as in the notes.
        max_words: documents of more words, after normalization, are left out; None for no limit.
        validation_fraction, test_fraction: of the patients, where there are no lists.
        seed: of that division.

    Raises:
        ValueError: at once if an option is wrong; on loading if a file, a column or a listed admission is missing.

    Reference: Jain, Wallace (2019), "Attention is not Explanation", arXiv 1902.10186, Sec. 3.2; Madsen et al. (2022),
        "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking Allegedly Important Tokens
        and Retraining", arXiv 2110.08412, App. B.
    Differs: the published code limits anemia to 4,000 words, but its check of diabetes, 6 > length > 4000, never holds.
    """

    def __init__(
        self,
        data_dir: str,
        task: Task = "diabetes",
        splits_dir: str | None = None,
        normalized: bool = True,
        max_words: int | None = 4000,
        validation_fraction: float = 0.12,
        test_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        require_choices({"task": Task}, {"task": task})
        if min(validation_fraction, test_fraction) <= 0 or validation_fraction + test_fraction >= 1:
            raise ValueError(
                f"validation_fraction={validation_fraction} and test_fraction={test_fraction}: "
                "give positive fractions that leave some for training"
            )
        if max_words is not None and max_words < 1:
            raise ValueError(f"max_words is {max_words}: give at least 1")
        self.name = task
        self.class_names, self.label = LABELS[task]
        self.data_dir = Path(data_dir)
        self.splits_dir = Path(splits_dir) if splits_dir is not None else None
        self.normalized = normalized
        self.max_words = max_words
        self.fractions = (validation_fraction, test_fraction)
        self.seed = seed

    def load(self) -> DatasetDict:
        diagnoses = read_diagnoses(self.data_dir)
        labels = {admission: self.label(codes) for admission, (_, codes) in diagnoses.items()}
        labels = {admission: label for admission, label in labels.items() if label is not None}
        lists = read_admission_lists(self.splits_dir) if self.splits_dir is not None else None
        if lists is not None:
            self._check_listed([a for part in lists.values() for a in part], diagnoses, "diagnosis in DIAGNOSES_ICD")
            labels = {
                admission: labels[admission] for part in lists.values() for admission in part if admission in labels
            }
        texts = read_summaries(self.data_dir, labels.keys())
        if lists is not None:
            self._check_listed(labels, texts, "discharge summary in NOTEEVENTS")
        else:
            patients = {admission: diagnoses[admission][0] for admission in labels if admission in texts}
            lists = split_by_patient(patients, *self.fractions, self.seed)
        if self.normalized:
            texts = {admission: normalize(text) for admission, text in texts.items()}
        if self.max_words is not None:
            texts = {admission: text for admission, text in texts.items() if len(text.split()) <= self.max_words}
        return DatasetDict(
            {
                split: rows_to_dataset(
                    [{"text": texts[a], "labels": labels[a], "id": a} for a in sorted(part, key=int) if a in texts]
                )
                for split, part in lists.items()
            }
        )

    def _check_listed(self, listed: Collection[str], found: Collection[str], what: str) -> None:
        for admission in listed:
            if admission not in found:
                raise ValueError(
                    f"admission {admission} of the lists in {self.splits_dir} has no {what} of {self.data_dir}; use "
                    "the whole of MIMIC-III 1.4, or lists that fit the files"
                )
