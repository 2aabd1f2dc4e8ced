"""MIMIC-III joined with MDACE: admissions with billed codes, and notes with annotated codes and evidence."""

from __future__ import annotations

from lightning_xai.data.clinical.codes import ICD9, System, require_icd9
from lightning_xai.data.clinical.id_lists import Splits
from lightning_xai.data.clinical.source import ClinicalSource
from lightning_xai.data.clinical.trimming import Trim
from lightning_xai.data.sources.mdace import Notes, Setting, charts_of


class MimicMdace(ClinicalSource):
    """The rows of Mdace for admissions with an annotated chart, and the rows of Mimic for all other admissions.

    `id` is the admission's HADM_ID in rows of Mimic, and "note-" followed by the note's ROW_ID in rows of Mdace. Only
    the rows of Mdace have rationales.

    Args:
        mimic_dir, classes, shared_patients, allow_text: as in Mimic.
        mdace_dir, setting, notes, trim: as in Mdace.
        splits: as in Mimic. Edin et al. (2024) use MDACE's lists MDace-code-ev-train.csv, MDace-code-ev-val.csv and
            MDace-code-ev-test.csv for such a joint set. To keep MDACE out of training, give Mullenbach's list for
            training, and MDACE's lists for validation and test.
        code_systems: "ICD-9-CM" for diagnoses, "ICD-9-PCS" for procedures, or both.

    Raises:
        ValueError: an option has an unknown value. `load` raises the error if a file is missing or wrong, or if the
            annotations contradict the notes.

    Example:
        >>> MimicMdace("data/mimiciii", "data/mdace", {"test": "MDace-code-ev-test.csv"}).code_systems
        ['ICD-9-CM', 'ICD-9-PCS']

    Reference: Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare
        Records", arXiv 2406.08958, Sec. 4.1.
    """

    name = "mimic_mdace"
    corpus = "joint"

    def __init__(
        self,
        mimic_dir: str,
        mdace_dir: str,
        splits: Splits | str,
        setting: Setting = "Inpatient",
        notes: Notes = "discharge",
        code_systems: list[System] = list(ICD9),  # noqa: B006 - never changed
        trim: Trim = "none",
        classes: str | None = None,
        shared_patients: bool = False,
        allow_text: bool = False,
    ) -> None:
        require_icd9(code_systems)
        charts = charts_of(mdace_dir, setting, notes, trim)
        super().__init__(mimic_dir, splits, code_systems, classes, charts, shared_patients, allow_text)
