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
    """Checks the options and returns the selection of annotations to read.

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
    """One document per annotated note. Its labels are the annotated codes, and its rationales the codes' spans.

    Spans are offsets into one note. So an addendum is a document of its own, and notes are never joined. If MIMIC-III
    lacks an ICD-9 code, characters are removed from the end of the code, down to 3 characters, until MIMIC-III has it.
    If two codes become equal, their spans are joined. `id` is the note's ROW_ID.

    Args:
        mimic_dir: folder with NOTEEVENTS, DIAGNOSES_ICD and PROCEDURES_ICD of MIMIC-III 1.4, as csv or csv.gz.
        mdace_dir: copy of MDACE's repository, with the folders data and splits.
        splits: as in Mimic; by default, MDACE's own lists.
        setting: "Inpatient" or "Profee".
        notes: "discharge" for discharge summaries, or "annotated" for annotated notes of every category.
        code_systems: for ICD-9, ICD-9-CM (diagnoses) and ICD-9-PCS (procedures); for ICD-10, ICD-10-CM and ICD-10-PCS.
            Annotations of other systems are dropped and counted.
        trim: "none", or "mdace" or "edin" to trim spans as these authors do; see `trimming.trimmed`.
        classes, shared_patients, allow_text: as in Mimic.

    Raises:
        ValueError: an option has an unknown value. `load` raises it if a file is missing or wrong, or if the
            annotations contradict the notes.

    Example:
        >>> Mdace("data/mimiciii", "data/mdace").splits["test"]
        'data/mdace/splits/Inpatient/MDace-ev-test.csv'

    Reference: Cheng et al. (2023), "MDACE: MIMIC Documents Annotated with Code Evidence", arXiv 2307.03859; Edin et al.
        (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare Records", arXiv
        2406.08958, Sec. 4.1.
    Differs: the paper of Edin et al. uses discharge summaries only. In the training set of their code, every annotated
        note is a row: `notes: annotated`. Their ICD-10 runs use diagnoses only: `code_systems: [ICD-10-CM]`.
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
