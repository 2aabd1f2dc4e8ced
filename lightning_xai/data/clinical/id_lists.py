"""Reads lists of admissions, which define the splits, and lists of classes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather

from lightning_xai.runs.files.text_files import read_text
from lightning_xai.runs.files.whole_files import read_json

Splits = dict[str, str | list[str]]
FEATHER_NAMES = {"train": "train", "val": "validation", "validation": "validation", "dev": "validation", "test": "test"}


def read_id_lists(splits: Splits | str) -> dict[str, list[int]]:
    """Returns split -> admissions, in the order of the lists.

    Args:
        splits: split -> a file with one HADM_ID per line and no header (Mullenbach's and MDACE's lists), or several
            such files. A single path in place of this mapping is a feather file with the columns "_id" and "split"
            (Edin's lists).

    Raises:
        ValueError: a file is missing or has a header, there is no list, a list is empty, or an admission occurs twice
            or in two splits.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "test.csv")
        >>> _ = path.write_text("101\\n102\\n")
        >>> read_id_lists({"test": str(path)})
        {'test': [101, 102]}
    """
    if isinstance(splits, str):
        parts = _of_feather(Path(splits))
    else:
        parts = {split: [] for split in splits}
        for split, files in splits.items():
            for file in [files] if isinstance(files, str) else files:
                parts[split] += _of_text(Path(file))
    if not parts:
        raise ValueError("`splits` names no split: give at least one list of admissions")
    owners: dict[int, str] = {}
    for split, admissions in parts.items():
        if not admissions:
            raise ValueError(f"`splits` has no admission for split {split!r}: give a list with at least one admission")
        for admission in admissions:
            owner = owners.setdefault(admission, "")
            if owner:
                twice = f"twice in split {split!r}" if owner == split else f"in the splits {owner!r} and {split!r}"
                raise ValueError(f"`splits` has admission {admission} {twice}: list it only once")
            owners[admission] = split
    return parts


def num_shared_patients(splits: Mapping[str, list[int]], patients: Mapping[int, int]) -> int:
    """Returns the number of patients with admissions in several splits.

    Args:
        splits: split -> admissions.
        patients: admission -> patient.

    Example:
        >>> num_shared_patients({"train": [101, 103], "test": [102]}, {101: 1, 102: 1, 103: 2})
        1
    """
    patients_by_part = [
        {patients[admission] for admission in part if admission in patients} for part in splits.values()
    ]
    return sum(number > 1 for number in Counter(patient for part in patients_by_part for patient in part).values())


def require_apart(splits: Mapping[str, list[int]], patients: Mapping[int, int]) -> None:
    """Checks that no patient is in two splits.

    Args:
        splits: split -> admissions.
        patients: admission -> patient.

    Raises:
        ValueError: a patient is in two splits.

    Example:
        >>> require_apart({"train": [101], "test": [102]}, {101: 1, 102: 1})
        Traceback (most recent call last):
        ValueError: patient 1 is in two splits (admission 101 in 'train', admission 102 in 'test'): move one of the \
two admissions, or set `shared_patients: true`
    """
    homes: dict[int, tuple[str, int]] = {}
    for split, admissions in splits.items():
        for admission in admissions:
            patient = patients.get(admission)
            if patient is None:
                continue
            home, other = homes.setdefault(patient, (split, admission))
            if home != split:
                raise ValueError(
                    f"patient {patient} is in two splits (admission {other} in {home!r}, admission {admission} in "
                    f"{split!r}): move one of the two admissions, or set `shared_patients: true`"
                )


def _of_text(path: Path) -> list[int]:
    _require_file(path)
    admissions = []
    for number, line in enumerate(read_text(path, has_option=False).splitlines(), start=1):
        if not (entry := line.strip()):
            continue
        if not (entry.isascii() and entry.isdecimal()):
            header = " and looks like a header" if number == 1 else ""
            raise ValueError(f"{path}, line {number} is not a HADM_ID{header}: the list must have one number per line")
        admissions.append(int(entry))
    return admissions


def _of_feather(path: Path) -> dict[str, list[int]]:
    _require_file(path)
    if path.suffix != ".feather":
        raise ValueError(f"`splits` is {str(path)!r}: give a feather file, or a mapping from splits to files")
    try:
        table = feather.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a feather file: copy the original again") from error
    if missing := [name for name in ("_id", "split") if name not in table.column_names]:
        raise ValueError(f"{path} has no column {missing[0]}; its columns are {', '.join(table.column_names)}")
    if not table.num_rows:
        raise ValueError(f"{path} has no rows: give a list with at least one admission")
    parts: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for row, (value, name) in enumerate(zip(table["_id"].to_pylist(), table["split"].to_pylist(), strict=True)):
        if str(name) not in FEATHER_NAMES:
            raise ValueError(f"{path}, row {row}: the split is {name!r}, not train, val or test")
        parts[FEATHER_NAMES[str(name)]].append(_whole(value, f"{path}, row {row}"))
    return {split: admissions for split, admissions in parts.items() if admissions}


def _whole(value: Any, location: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() or isinstance(value, int):
        return int(value)
    raise ValueError(f"{location}: _id must be a whole number (a HADM_ID): write it as an integer or as text")


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise ValueError(
            f"the list of admissions {path} is missing: use Mullenbach's (github.com/jamesmullenbach/caml-mimic), "
            "Edin's (github.com/JoakimEdin/explainable-medical-coding) or MDACE's (github.com/3mcloud/MDACE)"
        )


def read_class_names(path: Path) -> list[str]:
    """Returns the codes in a file, in the order of the file, which is the order of a checkpoint's classes.

    Args:
        path: a JSON list of codes, a text file with one code per line, a folder with target_tokenizer.json, or the
            folder of a run, whose manifest.json names its classes.

    Raises:
        ValueError: the file is missing or is not a list of codes, or a code is repeated.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "target_tokenizer.json")
        >>> _ = path.write_text('["401.9", "038.9"]')
        >>> read_class_names(path), read_class_names(path.parent)
        (['401.9', '038.9'], ['401.9', '038.9'])
    """
    if path.is_dir():
        of_run = path / "manifest.json"
        path = path / "target_tokenizer.json"
        if of_run.is_file() and not path.is_file():
            names = read_json(of_run).get("class_names")
            if not names:
                raise ValueError(f"{of_run} names no classes, because an older version wrote it: give a list of codes")
            return [str(name) for name in names]
    if not path.is_file():
        raise ValueError(f"the list of classes {path} is missing: give a JSON list of codes, or set `classes: null`")
    content = read_text(path, has_option=False)
    try:
        names = json.loads(content) if path.suffix == ".json" else content.split()
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: copy it again, or set `classes: null`") from error
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path} is not a list of strings: write a list of codes, or set `classes: null`")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path} has the code {repeated} twice: remove one of the two")
    return names
