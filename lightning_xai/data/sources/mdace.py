"""Notes of MIMIC-III whose codes have evidence spans in MDACE's annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lightning_xai.data.clinical.codes import ICD9, System
from lightning_xai.data.clinical.id_lists import Splits
from lightning_xai.data.clinical.reading import ChartSettings
from lightning_xai.data.clinical.source import ClinicalSource
from lightning_xai.data.clinical.trimming import Trim
from lightning_xai.functional.choices import require_choices

Notes = Literal["discharge", "annotated"]
Setting = Literal["Inpatient", "Profee"]
FILES = {"train": "MDace-ev-train.csv", "validation": "MDace-ev-val.csv", "test": "MDace-ev-test.csv"}


def charts_of(mdace_dir: str, setting: Setting, notes: Notes, trim: Trim) -> ChartSettings:
    """Checks the options, and returns the settings for reading MDACE's charts.

    Raises:
        ValueError: an option has an unknown value.

    Example:
        >>> charts_of("data/mdace", "Inpatient", "annotated", "none").all_notes
        True
    """
    require_choices(
        {"setting": Setting, "notes": Notes, "trim": Trim}, {"setting": setting, "notes": notes, "trim": trim}
    )
    return ChartSettings(Path(mdace_dir), setting, notes == "annotated", trim)


class Mdace(ClinicalSource):
    """One document per annotated note. Its labels are the annotated codes; a code's rationale is its evidence spans.

    Spans are character offsets into a single note. So notes are never joined, and an addendum is a separate document.
    If an ICD-9 code does not occur in MIMIC-III, characters are removed from its end until a code of MIMIC-III remains.
    If fewer than 3 characters would remain, the annotation is dropped. If two codes become equal, the resulting code
    gets the spans of both. `id` is the note's ROW_ID.

    Args:
        mimic_dir: folder with NOTEEVENTS, DIAGNOSES_ICD and PROCEDURES_ICD of MIMIC-III 1.4, as csv or csv.gz.
        mdace_dir: copy of MDACE's repository, with the folders "data" and "splits".
        splits: as in Mimic; by default, MDACE's own lists.
        setting: "Inpatient" for MDACE's inpatient coding, or "Profee" for its professional fee coding.
        notes: "discharge" for discharge summaries, or "annotated" for annotated notes of every category.
        code_systems: "ICD-9-CM" (diagnoses), "ICD-9-PCS" (procedures) or both; or "ICD-10-CM", "ICD-10-PCS" or both.
            Annotations of other systems are dropped and counted.
        trim: "none" to keep spans as they are, "mdace" to trim them as MDACE's own reader does, or "edin" to trim them
            as Edin et al. do; see `trimming.trimmed`.
        classes, shared_patients, allow_text: as in Mimic.

    Raises:
        ValueError: an option has an unknown value. `load` raises the error if a file is missing or wrong, or if the
            annotations contradict the notes.

    Example:
        >>> Mdace("data/mimiciii", "data/mdace").splits["test"]
        'data/mdace/splits/Inpatient/MDace-ev-test.csv'

    Reference: Cheng et al. (2023), "MDACE: MIMIC Documents Annotated with Code Evidence", arXiv 2307.03859; Edin et al.
        (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare Records", arXiv
        2406.08958, Sec. 4.1.
    Differs: Edin et al. use only discharge summaries in their paper. The training set of their code has a row for every
        annotated note, as with `notes: annotated`. Their ICD-10 runs use only diagnoses, as with
        `code_systems: [ICD-10-CM]`.
    """

    name = "mdace"
    corpus = "mdace"
    needs_chart = True

    def __init__(
        self,
        mimic_dir: str,
        mdace_dir: str,
        splits: Splits | str | None = None,
        setting: Setting = "Inpatient",
        notes: Notes = "discharge",
        code_systems: list[System] = list(ICD9),  # noqa: B006 - never changed
        trim: Trim = "none",
        classes: str | None = None,
        shared_patients: bool = False,
        allow_text: bool = False,
    ) -> None:
        charts = charts_of(mdace_dir, setting, notes, trim)
        if splits is None:
            splits = {split: str(Path(mdace_dir, "splits", setting, name)) for split, name in FILES.items()}
        super().__init__(mimic_dir, splits, code_systems, classes, charts, shared_patients, allow_text)
