"""Published numbers of admissions, notes, codes and spans in MIMIC-III and MDACE."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lightning_xai.data.clinical.codes import ICD9


@dataclass(frozen=True)
class Published:
    """What publications say about a corpus, as far as they say it.

    Attributes:
        admissions: split -> number of admissions in the list of the split.
        charts: split -> number of these admissions that have a chart.
        annotated: split -> "notes", "pairs" or "spans" -> its number before codes are mapped to classes.
        results: how many (document, code) pairs of the test split Edin et al. (2024) evaluate, and how many evidence
            tokens these pairs have.
    """

    admissions: Mapping[str, int] = field(default_factory=dict)
    charts: Mapping[str, int] = field(default_factory=dict)
    annotated: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    results: str = ""


# corpus -> split -> number of admissions, from Edin et al. (2024, Table 1) and from MDACE's lists
ADMISSIONS = {
    "mimic": {"train": 47_719, "validation": 1_631, "test": 3_372},
    "mdace": {"train": 181, "validation": 60, "test": 61},
    "joint": {"train": 47_900, "validation": 1_691, "test": 3_131},
}
# another published corpus: the training split of "mimic", the validation split of "mdace", and as test split the
# training and test splits of "mdace"
LARGER = {"train": 47_719, "validation": 60, "test": 242}
# MDACE's inpatient ICD-9 annotations: of discharge summaries, the same for the larger test split, and of all notes
DISCHARGE = {
    "train": {"notes": 185, "pairs": 1_900, "spans": 2_140},
    "validation": {"notes": 61, "pairs": 576, "spans": 649},
    "test": {"notes": 62, "pairs": 591, "spans": 645},
}
DISCHARGE_OF_LARGER = {
    "validation": DISCHARGE["validation"],
    "test": {name: number + DISCHARGE["test"][name] for name, number in DISCHARGE["train"].items()},
}
ALL_NOTES = {"train": {"notes": 355}, "validation": {"notes": 122}, "test": {"notes": 127}}
ALL_NOTES_OF_LARGER = {"validation": {"notes": 122}, "test": {"notes": 355 + 127}}
CHARTS_OF_LARGER = {"train": 0, "validation": 60, "test": 242}
RESULTS = "586 with 2,091 evidence tokens, or 583 with 2,079"
RESULTS_OF_LARGER = "2,441 with 9,074 evidence tokens"


def published_numbers(
    corpus: str, systems: Collection[str], setting: str | None, *, all_notes: bool, num_test: int | None
) -> Published:
    """Returns the published numbers of a corpus. Nothing was published for ICD-10 and for professional fee coding.

    Args:
        corpus: "mimic", "mdace" or "joint".
        systems: the code systems in use.
        setting: "Inpatient" or "Profee", as in the source Mdace; None without annotations.
        all_notes: whether all annotated notes are used, not only the discharge summaries.
        num_test: number of admissions in the list of the test split; None if there is none.

    Example:
        >>> published_numbers("mdace", ["ICD-9-CM"], "Inpatient", all_notes=False, num_test=61).admissions["test"]
        61
        >>> published_numbers("mdace", ["ICD-10-CM"], "Inpatient", all_notes=False, num_test=61)
        Published(admissions={}, charts={}, annotated={}, results='')
    """
    if not set(systems) <= set(ICD9) or setting not in (None, "Inpatient"):
        return Published()
    is_larger = setting is not None and num_test == LARGER["test"]
    admissions = LARGER if is_larger else ADMISSIONS[corpus]
    if setting is None:
        return Published(admissions)
    charts = CHARTS_OF_LARGER if is_larger else ADMISSIONS["mdace"]
    if set(systems) != set(ICD9):
        return Published(admissions, charts)
    if all_notes:
        return Published(admissions, charts, ALL_NOTES_OF_LARGER if is_larger else ALL_NOTES)
    if is_larger:
        return Published(admissions, charts, DISCHARGE_OF_LARGER, RESULTS_OF_LARGER)
    return Published(admissions, charts, DISCHARGE, RESULTS if num_test == ADMISSIONS["mdace"]["test"] else "")
