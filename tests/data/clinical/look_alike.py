"""Writes files in the form of MIMIC-III 1.4 and MDACE. Every text, code and date in them is invented.

`python -m tests.data.clinical.look_alike FOLDER --admissions 200 --words 700 4000` writes a corpus for experiments.
"""

import argparse
import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lightning_xai.data.sources.vader import Vader
from tests.data.clinical.invented_codes import Code, described_codes, invented_codes
from tests.data.clinical.invented_notes import Text, bundle_snippets, planted_snippets, write_note

NOTES = (
    "ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME", "CATEGORY", "DESCRIPTION", "CGID",
    "ISERROR", "TEXT",
)  # fmt: skip
CODES = ("ROW_ID", "SUBJECT_ID", "HADM_ID", "SEQ_NUM", "ICD9_CODE")
QUOTED = {"CATEGORY", "DESCRIPTION", "TEXT", "ICD9_CODE"}  # in PhysioNet's files
SPLITS = {"train": "train", "validation": "val", "test": "test"}


def line(columns: Sequence[str], values: Sequence[object]) -> str:
    """Returns a line of a table: text in double quotes, numbers and dates without, empty cells empty."""
    cells = zip(columns, values, strict=True)
    return (
        ",".join('"' + str(v).replace('"', '""') + '"' if c in QUOTED and v != "" else str(v) for c, v in cells) + "\n"
    )


def header(columns: Sequence[str]) -> str:
    return ",".join(f'"{name}"' for name in columns) + "\n"


@dataclass
class Corpus:
    """The files of an invented corpus.

    Attributes:
        mimic_dir, mdace_dir: the folders that the sources read.
        lists: split -> file with all its admissions.
        codes: the invented codes.
        texts: ROW_ID -> text of every discharge summary and annotated note; only if `keep_texts`.
    """

    mimic_dir: Path
    mdace_dir: Path
    lists: dict[str, str]
    codes: list[Code]
    texts: dict[int, str] = field(default_factory=dict)


def write_corpus(
    folder: Path,
    *,
    num_admissions: int = 24,
    num_codes: int = 50,
    words: tuple[int, int] = (40, 90),
    codes_per_admission: tuple[int, int] = (2, 6),
    annotated_fraction: float = 0.5,
    other_notes: int = 1,
    filler: Sequence[str] | None = None,
    codes: Sequence[Code] | None = None,
    seed: int = 0,
    compress: bool = False,
    keep_texts: bool = True,
) -> Corpus:
    """Writes the tables, the charts and the lists; the notes go to the disk one by one.

    Args:
        folder: where the folders mimiciii, mdace and lists are made.
        num_admissions: number of admissions; half are of the training split, a quarter each of the others.
        num_codes: number of invented codes, if `codes` is None.
        words: smallest and largest number of words of a discharge summary.
        codes_per_admission: smallest and largest number of codes.
        annotated_fraction: share of the admissions that have a chart.
        other_notes: number of notes of other categories for each admission.
        filler: texts between the evidence; None for snippets of a `Bundle` of `Planted`.
        codes: the codes and their phrases; None invents them.
        compress: whether the tables are csv.gz.
        keep_texts: whether the result has the texts.
    """
    draw = np.random.default_rng(seed)
    filler = planted_snippets() if filler is None else filler
    known = list(codes or invented_codes(num_codes, seed))
    corpus = Corpus(folder / "mimiciii", folder / "mdace", {}, known)
    for path in (corpus.mimic_dir, folder / "lists", *(corpus.mdace_dir / part for part in ("splits/Inpatient",))):
        path.mkdir(parents=True, exist_ok=True)
    ids = [100_001 + 2 * i for i in range(num_admissions)]
    homes = ["train" if i % 4 < 2 else "validation" if i % 4 == 2 else "test" for i in range(num_admissions)]
    annotated = {ids[i] for i in draw.permutation(num_admissions)[: round(annotated_fraction * num_admissions)]}
    row_ids = iter(draw.permutation(num_admissions * (4 + other_notes)).tolist())
    suffix, opener = (".csv.gz", gzip.open) if compress else (".csv", open)
    tables = {
        name: opener(corpus.mimic_dir / f"{name}{suffix}", "wt", encoding="utf-8", newline="")
        for name in ("NOTEEVENTS", "DIAGNOSES_ICD", "PROCEDURES_ICD")
    }
    for name, table in tables.items():
        table.write(header(NOTES if name == "NOTEEVENTS" else CODES))
    code_rows = 0
    for number, admission in enumerate(ids):
        size = int(draw.integers(codes_per_admission[0], codes_per_admission[1] + 1))
        chosen = [known[number % len(known)], *(known[i] for i in draw.integers(len(known), size=size - 1))]
        chosen = list(dict.fromkeys(chosen))
        for place, code in enumerate([*chosen, chosen[0]], start=1):  # MIMIC-III repeats some codes
            code_rows += 1
            billed = (code_rows, number + 1, admission, place, code.raw)
            tables["PROCEDURES_ICD" if code.is_procedure else "DIAGNOSES_ICD"].write(line(CODES, billed))
        notes = []
        for category, description, date, error, text in _notes(chosen, words, other_notes, filler, draw):
            row_id = 1 + next(row_ids)
            notes.append((row_id, category, description, text))
            row = (row_id, number + 1, admission, date, "", "", category, description, "", error, str(text))
            tables["NOTEEVENTS"].write(line(NOTES, row))
            if keep_texts:
                corpus.texts[row_id] = str(text)
        tables["NOTEEVENTS"].write(
            line(NOTES, (10_000_000 + number, number + 1, "", "2150-07-01", "", "", "ECG", "Report", "", "", "Sinus."))
        )
        if admission in annotated:
            _write_charts(corpus.mdace_dir, admission, notes)
    for table in tables.values():
        table.close()
    for split, name in SPLITS.items():
        of_split = [admission for admission, home in zip(ids, homes, strict=True) if home == split]
        path = folder / "lists" / f"{split}_full_hadm_ids.csv"
        path.write_text("".join(f"{admission}\n" for admission in of_split))
        corpus.lists[split] = str(path)
        chart_list = corpus.mdace_dir / "splits" / "Inpatient" / f"MDace-ev-{name}.csv"
        chart_list.write_text("\n".join(str(admission) for admission in of_split if admission in annotated))
    return corpus


def _notes(
    codes: Sequence[Code],
    words: tuple[int, int],
    other_notes: int,
    filler: Sequence[str],
    draw: np.random.Generator,
) -> Iterator[tuple[str, str, str, object, Text]]:
    """Yields category, description, date, ISERROR and text; an addendum stands before its report in the table."""
    if draw.random() < 0.25:
        yield "Discharge summary", "Addendum", "2150-08-02", "", write_note(codes[:1], (5, 10), filler, draw)
    yield "Discharge summary", "Report", "2150-08-04", "", write_note(codes, words, filler, draw)
    if draw.random() < 0.2:
        error = int(draw.integers(2)) or ""
        yield "Discharge summary", "Report", "2150-08-01", error, write_note(codes[:1], (5, 10), filler, draw)
    for i in range(other_notes):
        category = ("Radiology", "Physician ", "Nursing/other")[i % 3]
        yield category, "Report", "2150-07-30", "", write_note(codes[:1], (5, 10), filler, draw)


def _write_charts(mdace_dir: Path, admission: int, notes: Sequence[tuple[int, str, str, Text]]) -> None:
    for version, systems in (("ICD-9", ("ICD-9-CM", "ICD-9-PCS")), ("ICD-10", ("ICD-10-CM", "ICD-10-PCS"))):
        chart = {
            "hadm_id": admission,
            "comment": "",
            "notes": [
                {
                    "note_id": row_id,
                    "category": category.strip(),
                    "description": description,
                    "annotations": [
                        {
                            "begin": begin,
                            "end": end,
                            "code": code.annotated if version == "ICD-9" else code.icd10,
                            "code_system": systems[code.is_procedure],
                            "description": code.phrases[0],
                            "type": "Human",
                        }
                        for begin, end, code in text.spans
                    ],
                }
                for row_id, category, description, text in notes
                if category != "Nursing/other"
            ],
        }
        path = mdace_dir / "data" / "Inpatient" / version / "1.0" / f"{admission}-{version}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(chart))


def edit_rows(path: Path, edit) -> None:
    """Rewrites a table's rows; `edit` returns the cells of a row from its cells by name, or None to remove it."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = tuple(rows[0])
    edited = [row for row in (edit(dict(row)) for row in rows) if row is not None]
    lines = [line(columns, list(row.values())) for row in edited]
    path.write_text(header(columns) + "".join(lines), encoding="utf-8", newline="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--admissions", type=int, default=200)
    parser.add_argument("--codes", type=int, default=50)
    parser.add_argument("--words", type=int, nargs=2, default=(700, 4000))
    parser.add_argument("--other_notes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--mdace_dir", type=Path, help="copy of MDACE, whose codes and descriptions replace invented ones"
    )
    parser.add_argument("--vader", action="store_true", help="filler from VADER's editorials, which pip fetches once")
    options = parser.parse_args()
    written = write_corpus(
        options.folder, num_admissions=options.admissions, num_codes=options.codes, words=tuple(options.words),
        other_notes=options.other_notes, seed=options.seed, keep_texts=False,
        codes=described_codes(options.mdace_dir, options.codes) if options.mdace_dir is not None else None,
        filler=bundle_snippets([Vader("nyt", other_domains=[])]) if options.vader else None,
    )  # fmt: skip
    print(f"{options.admissions} admissions in {written.mimic_dir} and {written.mdace_dir}")
