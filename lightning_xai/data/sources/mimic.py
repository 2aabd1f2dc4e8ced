"""Discharge summaries of MIMIC-III with the billed ICD-9 codes of their admissions."""

from __future__ import annotations

from lightning_xai.data.clinical.codes import ICD9, System, require_icd9
from lightning_xai.data.clinical.id_lists import Splits
from lightning_xai.data.clinical.source import ClinicalSource


class Mimic(ClinicalSource):
    """One document per admission: its discharge summaries, those of type Report before those of type Addendum.

    Reports and addenda are each sorted by CHARTTIME, CHARTDATE and ROW_ID. Their texts are unchanged and joined by one
    space. Notes that are marked as errors are counted, but kept, as Edin et al. do. Codes have a decimal point, as in
    250.00, and a code that was billed twice is used once. Admissions without a code or without a discharge
    summary are left out and counted. `id` is the admission's HADM_ID.

    Args:
        mimic_dir: folder with NOTEEVENTS, DIAGNOSES_ICD and PROCEDURES_ICD of MIMIC-III 1.4, as csv or csv.gz.
        splits: split -> file with one HADM_ID per line, or a list of such files. A single path in place of this mapping
            is a feather file with the columns "_id" and "split".
        code_systems: "ICD-9-CM" for diagnoses, "ICD-9-PCS" for procedures, or both.
        classes: the classes of a checkpoint: a JSON list of codes, a text file with one code per line, a folder with
            target_tokenizer.json, or the folder of a run. Other codes are dropped and counted, and documents without a
            remaining code are left out. By default, the classes are the codes of all splits, sorted.
        shared_patients: whether a patient may be in two splits.
        allow_text: whether texts of notes may be written outside the folder of the encoded corpora, in heatmaps,
            explanations and vocabularies.

    Raises:
        ValueError: a code system is not of ICD-9. `load` raises the error if a file is missing or wrong.

    Example:
        >>> Mimic("data/mimiciii", {"train": "train_full_hadm_ids.csv"}).code_systems
        ['ICD-9-CM', 'ICD-9-PCS']

    Reference: Mullenbach et al. (2018), "Explainable Prediction of Medical Codes from Clinical Text", arXiv 1802.05695;
        Edin et al. (2024), "An Unsupervised Approach to Achieve Supervised-Level Explainability in Healthcare Records",
        arXiv 2406.08958, Sec. 4.1.
    """

    name = "mimic"
    corpus = "mimic"

    def __init__(
        self,
        mimic_dir: str,
        splits: Splits | str,
        code_systems: list[System] = list(ICD9),  # noqa: B006 - never changed
        classes: str | None = None,
        shared_patients: bool = False,
        allow_text: bool = False,
    ) -> None:
        require_icd9(code_systems)
        super().__init__(mimic_dir, splits, code_systems, classes, None, shared_patients, allow_text)
