"""Discharge summaries of MIMIC-III with labels from diagnosis codes, for two tasks: diabetes, and type of anemia."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

from datasets import DatasetDict

from lightning_xai.data.clinical.tables import read_table_rows
from lightning_xai.data.sources.base import TextSource, require_fractions, rows_to_splits, split_rows
from lightning_xai.functional.choices import require_choices

PhenotypeTask = Literal["diabetes", "anemia"]
NUMBER = "qqq"
LISTS = {"train": "train_50_hadm_ids.csv", "validation": "dev_50_hadm_ids.csv", "test": "test_50_hadm_ids.csv"}


def diabetes_label(codes: Collection[str]) -> int:
    """Returns 1 if one of the codes is ICD-9 250.00 (type II diabetes without complications), and otherwise 0.

    MIMIC-III writes codes without the decimal point, so 250.00 is 25000.

    Example:
        >>> diabetes_label(["4019", "25000"]), diabetes_label(["4019"])
        (1, 0)
    """
    return int(any(code.startswith("25000") for code in codes))


def anemia_label(codes: Collection[str]) -> int | None:
    """Returns 1 for acute anemia (ICD-9 285.1), 0 for anemia of chronic disease (285.2), None for both or neither.

    Example:
        >>> anemia_label(["2851"]), anemia_label(["28521"]), anemia_label(["2851", "28521"])
        (1, 0, None)
    """
    acute, chronic = (any(code.startswith(prefix) for code in codes) for prefix in ("2851", "2852"))
    return None if acute == chronic else int(acute)


LABELS: dict[str, tuple[list[str], Callable[[Collection[str]], int | None]]] = {
    "diabetes": (["other", "diabetes"], diabetes_label),
    "anemia": (["chronic", "acute"], anemia_label),
}


def normalize_text(text: str) -> str:
    """Returns the words and punctuation marks of a note in lower case, separated by spaces.

    MIMIC-III has "[**...**]" in place of private data; this becomes "<de>". If a punctuation mark is repeated, only one
    is kept. A word that contains a digit becomes "qqq".

    Example:
        >>> normalize_text("Dr. [**Last Name**] gave 2 mg!!")
        'dr . <de> gave qqq mg !'
    """
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"\[ ?\* ?\*(.*?)\* ?\* ?\]", " <DE> ", text)
    text = re.sub(r"([^a-zA-Z0-9\s])(?: ?\1)+", r"\1 ", text)
    words = re.findall(r"<de>|\w+(?:['.]\w+)*|[^\w\s]", text.lower())
    return " ".join(NUMBER if any(c.isdigit() for c in word) else word for word in words)


def read_diagnoses(folder: Path) -> dict[str, tuple[str, set[str]]]:
    """Returns admission -> (patient, ICD-9 codes); rows without a code are skipped.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "DIAGNOSES_ICD.csv").write_text("SUBJECT_ID,HADM_ID,ICD9_CODE\\n1,101,2851\\n")
        ...     read_diagnoses(Path(folder))
        {'101': ('1', {'2851'})}
    """
    diagnoses: dict[str, tuple[str, set[str]]] = {}
    for _, row in read_table_rows(folder, "DIAGNOSES_ICD", ["SUBJECT_ID", "HADM_ID", "ICD9_CODE"]):
        if row["ICD9_CODE"]:
            diagnoses.setdefault(row["HADM_ID"], (row["SUBJECT_ID"], set()))[1].add(row["ICD9_CODE"])
    return diagnoses


def read_summaries(folder: Path, admissions: Collection[str]) -> dict[str, str]:
    """Returns admission -> discharge summary: the reports by date and then the addenda by date, joined by spaces.

    Notes that are marked as errors are left out. The file is read row by row, so memory holds only the returned notes.

    Example:
        >>> import tempfile
        >>> rows = ["HADM_ID,CHARTDATE,CATEGORY,DESCRIPTION,ISERROR,TEXT"]
        >>> rows += ["101,2150-01-02,Discharge summary,Addendum,,Later."]
        >>> rows += ["101,2150-01-01,Discharge summary,Report,,First."]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "NOTEEVENTS.csv").write_text("\\n".join(rows))
        ...     read_summaries(Path(folder), {"101"})
        {'101': 'First. Later.'}
    """
    notes = defaultdict(list)
    columns = ["HADM_ID", "CHARTDATE", "CATEGORY", "DESCRIPTION", "ISERROR", "TEXT"]
    for _, row in read_table_rows(folder, "NOTEEVENTS", columns):
        if row["CATEGORY"] == "Discharge summary" and not row["ISERROR"] and row["HADM_ID"] in admissions:
            notes[row["HADM_ID"]].append((row["DESCRIPTION"] != "Report", row["CHARTDATE"], row["TEXT"]))
    return {
        admission: " ".join(text for *_, text in sorted(parts, key=lambda part: part[:2])).strip()
        for admission, parts in notes.items()
    }


def read_admission_lists(folder: Path) -> dict[str, list[str]]:
    """Returns split -> admissions, from files with one admission number (HADM_ID) per line.

    Raises:
        ValueError: a file is missing, or a line is not a number.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in LISTS.values():
        ...         _ = Path(folder, name).write_text("101\\n")
        ...     read_admission_lists(Path(folder))["test"]
        ['101']
    """
    admissions = {}
    for split, name in LISTS.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing; splits_dir must hold {', '.join(LISTS.values())}")
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        for number, line in enumerate(lines, start=1):
            if line and not line.isdecimal():
                raise ValueError(f"{path}, line {number}: {line!r} is not a HADM_ID; the file must have no header")
        admissions[split] = [line for line in lines if line]
    return admissions


def split_by_patient(
    patients: dict[str, str], validation_fraction: float, test_fraction: float, seed: int
) -> dict[str, list[str]]:
    """Divides admissions at random so that no patient is in two splits. Returns split -> admissions.

    Args:
        patients: admission -> patient.
        validation_fraction, test_fraction: fractions of the patients.

    Example:
        >>> parts = split_by_patient({"101": "1", "102": "1", "103": "2", "104": "3"}, 0.3, 0.3, seed=0)
        >>> any({"101", "102"} <= set(admissions) for admissions in parts.values())
        True
    """
    names = sorted(set(patients.values()), key=int)
    parts = split_rows(len(names), validation_fraction, test_fraction, seed)
    homes = {names[i]: split for split, rows in parts.items() for i in rows}
    return {split: [a for a, patient in patients.items() if homes[patient] == split] for split in parts}


class MimicLabels(TextSource):
    """Discharge summaries of hospital admissions, for one of two binary tasks.

    "diabetes": admissions with the ICD-9 code 250.00 among their diagnoses are class 1, all others class 0.
    "anemia": admissions with the code 285.1 (acute anemia) are class 1, and those with 285.2 (anemia of chronic
    disease) class 0. Admissions with both codes or neither are left out.

    The text of an admission consists of its summaries and then their addenda, joined by spaces. Notes that are marked
    as errors are left out. If `normalized`, the text is passed to `normalize_text`.

    Args:
        data_dir: folder with NOTEEVENTS.csv and DIAGNOSES_ICD.csv of MIMIC-III 1.4, or with the same files as .csv.gz.
            The files have several gigabytes, but are read row by row; memory holds only the notes in use.
        task: "diabetes" or "anemia".
        splits_dir: folder with train_50_hadm_ids.csv, dev_50_hadm_ids.csv and test_50_hadm_ids.csv, which list one
            admission per line; other admissions are left out. If None, all admissions of the task that have a discharge
            summary are used, and are divided so that all admissions of a patient are in the same split.
        normalized: whether `normalize_text` is applied to the text.
        max_words: documents with more whitespace words are left out; if `normalized`, words are counted after
            `normalize_text`. None for no limit.
        validation_fraction, test_fraction: fractions of the patients, if `splits_dir` is None.
        seed: seed of the random division into splits, if `splits_dir` is None.
        allow_text: whether texts of notes may be written outside the folder of the encoded corpora, in heatmaps,
            explanations and vocabularies. To build a vocabulary from the training notes, as in the papers, set this to
            true.

    Raises:
        ValueError: an option is out of range. `load` raises the error if a file, column or listed admission is missing.

    Example:
        >>> MimicLabels("data/mimiciii", task="anemia").class_names
        ['chronic', 'acute']

    Reference: Jain, Wallace (2019), "Attention is not Explanation", arXiv 1902.10186, Sec. 3.2; Madsen et al. (2022),
        "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking Allegedly Important Tokens
        and Retraining", arXiv 2110.08412, App. B.
    Differs: Jain and Wallace split texts into words with spaCy, not with a regular expression. For diabetes, they use
        the listed admissions. For anemia, they divide admissions, stratified by class, so a patient can be in two
        splits. Their code leaves out anemia documents of more than 4,000 words, but no diabetes documents, since its
        condition for these, 6 > length > 4000, is never true.
    """

    def __init__(
        self,
        data_dir: str,
        task: PhenotypeTask = "diabetes",
        splits_dir: str | None = None,
        normalized: bool = True,
        max_words: int | None = 4000,
        validation_fraction: float = 0.12,
        test_fraction: float = 0.2,
        seed: int = 0,
        allow_text: bool = False,
    ) -> None:
        require_choices({"task": PhenotypeTask}, {"task": task})
        require_fractions(validation_fraction=validation_fraction, test_fraction=test_fraction)
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
        self.text_is_private = not allow_text

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
            texts = {admission: normalize_text(text) for admission, text in texts.items()}
        if self.max_words is not None:
            texts = {admission: text for admission, text in texts.items() if len(text.split()) <= self.max_words}
        admissions = {split: [a for a in sorted(part, key=int) if a in texts] for split, part in lists.items()}
        return rows_to_splits(
            {split: [{"text": texts[a], "labels": labels[a], "id": a} for a in admissions[split]] for split in lists}
        )

    def _check_listed(self, listed: Collection[str], known: Collection[str], fact: str) -> None:
        for admission in listed:
            if admission not in known:
                raise ValueError(
                    f"admission {admission} is listed in {self.splits_dir}, but {self.data_dir} has no {fact} for it: "
                    "use the complete tables of MIMIC-III 1.4, or lists whose admissions are in the tables"
                )
