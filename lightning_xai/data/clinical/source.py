"""The base class of sources that read notes and codes of MIMIC-III."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from datasets import DatasetDict

from lightning_xai.data.clinical.billed import tables_of
from lightning_xai.data.clinical.codes import System, systems_of_one_version
from lightning_xai.data.clinical.documents import rationales_of_document
from lightning_xai.data.clinical.id_lists import Splits, read_class_names, read_id_lists
from lightning_xai.data.clinical.reading import ChartSettings, ClinicalDocuments, DocumentSettings, read_documents
from lightning_xai.data.clinical.tables import find_table
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.sources.row_stream import RowStream
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.model_files.cache_folder import cache_folder


class ClinicalSource(TextSource):
    """Base class of sources of MIMIC-III notes with ICD codes as labels. Subclasses choose the notes and the codes.

    Notes are read row by row into a file on disk, so peak memory does not depend on the size of NOTEEVENTS. The file
    has no name and can be read by its owner only. It disappears once the rows are encoded.

    Args:
        mimic_dir: folder with NOTEEVENTS, DIAGNOSES_ICD and PROCEDURES_ICD as csv or csv.gz.
        splits: the lists of admissions, in a form that `read_id_lists` accepts.
        code_systems: the code systems whose codes are labels, all of ICD-9 or all of ICD-10.
        classes: the classes of a checkpoint, in a form that `read_class_names` accepts. Other codes are dropped, and
            documents without a remaining code are left out. If None, the classes are all codes of the splits, in sorted
            order.
        charts: the annotations of MDACE to read; None to read no annotations.
        shared_patients: whether a patient may be in two splits.
        allow_text: whether texts of notes may be written outside the folder of the encoded corpora, in heatmaps,
            explanations and vocabularies.

    Raises:
        ValueError: `code_systems` is empty, has an unknown or repeated system, or mixes ICD-9 and ICD-10. `load` raises
            the error if a file is missing or wrong.

    Example:
        >>> class Diagnoses(ClinicalSource):
        ...     corpus = "mimic"
        ...
        ...     def __init__(self, mimic_dir, splits):
        ...         super().__init__(mimic_dir, splits, ["ICD-9-CM"], None, None, False, False)
        >>> Diagnoses("data/mimiciii", {"test": "test_full_hadm_ids.csv"}).text_is_private
        True
    """

    corpus: ClassVar[str]
    needs_chart: ClassVar[bool] = False
    multilabel = True

    def __init__(
        self,
        mimic_dir: str,
        splits: Splits | str,
        code_systems: list[System],
        classes: str | None,
        charts: ChartSettings | None,
        shared_patients: bool,
        allow_text: bool,
    ) -> None:
        for system in code_systems:
            require_choices({"code_systems": System}, {"code_systems": system})
        systems_of_one_version(code_systems)
        self.mimic_dir = Path(mimic_dir)
        self.splits, self.code_systems, self.charts = splits, code_systems, charts
        self.classes_path = Path(classes) if classes is not None else None
        self.shared_patients = shared_patients
        self.text_is_private = not allow_text

    @cached_property
    def class_names(self) -> list[str]:
        if self.classes_path is not None:
            return read_class_names(self.classes_path)
        return self._loaded.class_names

    @cached_property
    def _loaded(self) -> ClinicalDocuments:
        return read_documents(
            DocumentSettings(
                corpus=self.corpus,
                mimic_dir=self.mimic_dir,
                lists=read_id_lists(self.splits),
                systems=self.code_systems,
                classes=None if self.classes_path is None else self.class_names,
                charts=self.charts,
                needs_chart=self.needs_chart,
                shared_patients=self.shared_patients,
                scratch_dir=self.work_folder or cache_folder(None) / "corpora",
            )
        )

    def files(self) -> list[Path]:
        lists = [self.splits] if isinstance(self.splits, str) else list(self.splits.values())
        files = [Path(file) for entry in lists for file in ([entry] if isinstance(entry, str) else entry)]
        files += [find_table(self.mimic_dir, name) for name in ("NOTEEVENTS", *tables_of(self.code_systems))]
        if self.charts is not None:
            files += sorted({path.parent for path in self.charts.files(self.code_systems).values()})
        return files + ([self.classes_path] if self.classes_path is not None else [])

    def prepare(self) -> None:
        self.files()  # finds missing tables before the notes are read, because reading them takes long
        read_id_lists(self.splits)

    def row_streams(self) -> Mapping[str, RowStream]:
        columns = ["text", "labels", *([] if self.charts is None else ["rationales"]), "id"]
        return {
            split: RowStream(partial(self._rows, split), columns, len(documents))
            for split, documents in self._loaded.documents.items()
        }

    def load(self) -> DatasetDict:
        return rows_to_splits({split: list(rows) for split, rows in self.row_streams().items()}, multilabel=True)

    def release(self) -> None:
        if (loaded := vars(self).pop("_loaded", None)) is not None:
            loaded.store.close()

    def report(self) -> list[str]:
        return self._loaded.report.lines()

    def _rows(self, split: str) -> Iterator[dict[str, Any]]:
        numbers = {code: number for number, code in enumerate(self.class_names)}
        for document in self._loaded.documents[split]:
            row = {
                "text": document.text(self._loaded.store),
                "labels": sorted(numbers[code] for code in document.codes),
                "id": document.id,
            }
            if self.charts is not None:
                row["rationales"] = rationales_of_document(document, numbers)
            yield row

    def __getstate__(self) -> dict[str, Any]:
        # a copy gets no `_loaded`, because its file of notes cannot be copied. The copy reads MIMIC-III again
        return {name: value for name, value in vars(self).items() if name != "_loaded"}
