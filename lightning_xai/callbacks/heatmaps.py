"""Draws attributions as heatmaps: images in TensorBoard, and one self-contained HTML page per split."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from lightning_xai.callbacks.base import (
    ExplainedBatch,
    ExplainedCallback,
    are_first_examples,
    callbacks_of,
    data_of,
    decision_threshold_of,
    is_dry_run,
    only_tunes,
    test_splits,
)
from lightning_xai.callbacks.file_suffix import file_suffix_of
from lightning_xai.callbacks.preflight.preflight_metrics import made_up_batch
from lightning_xai.callbacks.preflight.preflight_run import PreflightRun
from lightning_xai.functional.classes.targets import gold_classes, predicted_classes
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.heatmap import ExplainedClass, ExplainedDocument
from lightning_xai.report.heatmap_image import image
from lightning_xai.report.heatmap_page import html_page
from lightning_xai.runs.files.whole_files import write_whole
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.progress import say
from lightning_xai.runs.ranks import gather
from lightning_xai.runs.splits import log_prefix

_WEAK = "The evidence is weak: it comes from a lexicon or heuristic, not from annotators."


class Heatmaps(ExplainedCallback):
    """When an evaluation ends, draws heatmaps of the first documents of each split.

    The HTML pages are `heatmaps/<split>.html` in the run's folder. The pages of a test whose results are in
    `results_<hash>.csv` are in `heatmaps_<hash>`. If several Heatmaps draw a split, such as one for
    each ComputeAttributions, the page of the second one is `heatmaps/<split>.2.html`, and so on.

    Args:
        num_documents: number of documents per split; the documents with the lowest indices are drawn.
        splits: splits to show. If None, all splits are shown. A test never shows the validation split, on which it
            only tunes thresholds.
        max_image_tokens: documents with more tokens get no image and appear only in the HTML page.
        during_fit: whether to also draw during the validations of a fit.

    Raises:
        ValueError: at setup, if the trainer has no TextDataModule to take texts from, or if the texts are private.

    Example:
        >>> Heatmaps(num_documents=2, splits=["test"]).max_image_tokens
        400
    """

    only_evaluates: ClassVar[bool] = True

    def __init__(
        self,
        num_documents: int = 8,
        splits: list[str] | None = None,
        *,
        max_image_tokens: int = 400,
        during_fit: bool = False,
    ) -> None:
        super().__init__(during_fit=during_fit)
        self.num_documents = num_documents
        self.splits = splits
        self.max_image_tokens = max_image_tokens
        self.pages: list[Path] = []  # the pages that this process has written since the last setup
        self._documents: dict[str, dict[int, ExplainedDocument]] = {}  # split -> index of the example -> document
        self._not_all_drawn: set[str] = set()  # splits in which some explained examples get no heatmap

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if not hasattr(data_of(trainer), "encoded"):
            raise ValueError("Heatmaps needs the texts of a TextDataModule: pass a TextDataModule to the trainer")
        if getattr(data_of(trainer), "text_is_private", False):
            raise ValueError(
                "Heatmaps writes texts into the run's folder, but the data are private: remove this callback, or set "
                "`allow_text: true` for the source if your data use agreement covers that folder and everyone who can "
                "read it"
            )
        self.pages, self._documents, self._not_all_drawn = [], {}, set()

    def on_preflight(self, preflight: PreflightRun) -> None:
        """Before the run starts, tries to draw one document with made-up scores. Writes nothing."""
        for stage in preflight.stages_of(self):
            for split in preflight.stages[stage]:
                tunes = stage == "test" and only_tunes(preflight.trainer, split)
                if not tunes and (self.splits is None or split in self.splits):
                    preflight.attempt("Heatmaps", partial(self._try, preflight, split))

    def _try(self, preflight: PreflightRun, split: str) -> None:
        explained = made_up_batch(preflight, self.source, split, whole=True)
        document = self._document(explained, 0, explained.predict(explained.batch.inputs))
        html_page(f"Attributions on {split}", [document], "")
        if document.classes and len(document.offsets) <= self.max_image_tokens:
            image(document)

    def on_explained(self, explained: ExplainedBatch) -> None:
        split = explained.split
        tunes = self.trainer.testing and only_tunes(self.trainer, split)
        if not self.active or tunes or (self.splits is not None and split not in self.splits):
            return
        shown = are_first_examples(self.trainer, explained.batch, split, self.num_documents)
        if not shown.all():
            self._not_all_drawn.add(split)
        if not shown.any():
            return
        probs = explained.predict(explained.batch.inputs)
        for row in shown.nonzero().flatten().tolist():
            index = int(explained.batch.index[row])
            self._documents.setdefault(split, {})[index] = self._document(explained, row, probs)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.active and not trainer.sanity_checking:
            self._draw(trainer)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._draw(trainer)
        splits = [split for split in test_splits(trainer) if not only_tunes(trainer, split)]
        self._say_if_limited_away(trainer, trainer.limit_test_batches, "limit_test_batches", splits)

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._draw(trainer)
        splits = [getattr(data_of(trainer), "predict_split", "predict")]
        self._say_if_limited_away(trainer, trainer.limit_predict_batches, "limit_predict_batches", splits)

    def _document(self, explained: ExplainedBatch, row: int, probs: Tensor) -> ExplainedDocument:
        """Returns the example at `row` of a batch as a document. `probs` [B, C] are the batch's probabilities."""
        data, index = data_of(self.trainer), int(explained.batch.index[row])
        example = data.example(explained.split, index)
        encoded = data.encoded(explained.split, index)
        offsets = encoded.text_offsets
        labels, probs = explained.batch.labels[[row]], probs[[row]]  # labels are [1] or [1, C]
        threshold = decision_threshold_of(self.module)
        gold = gold_classes(labels, probs.shape[1])[0].tolist()
        predicted = predicted_classes(probs, multilabel=labels.dim() == 2, decision_threshold=threshold)[0].tolist()
        spans: dict[int, list[tuple[int, int]]] = {}  # class -> evidence spans
        for rationale in example.get("rationales") or []:
            spans.setdefault(rationale["label"], []).extend((int(a), int(b)) for a, b in rationale["spans"])
        first = next(iter(explained.attributions.values()))  # all methods explain the same classes
        classes = []
        for k in first.target_mask[row].nonzero().flatten().tolist():
            target = int(first.targets[row, k])
            scores = {
                name: attribution.scores[row, k, : len(offsets)].cpu().numpy()
                for name, attribution in explained.attributions.items()
            }
            classes.append(
                ExplainedClass(
                    name=data.class_names[target],
                    probability=float(probs[0, target]),
                    gold=gold[target],
                    predicted=predicted[target],
                    scores=scores,
                    spans=spans.get(target, []),
                    magnitudes=explained.magnitudes,
                )
            )
        name, truncated = str(example["id"]), encoded.truncated
        return ExplainedDocument(name, example["text"], offsets, classes, truncated=truncated)

    def _draw(self, trainer: Trainer) -> None:
        """Gathers the documents of all processes; process 0 then writes a page and images for each split."""
        gathered, not_all_drawn = gather(self._documents), set().union(*gather(self._not_all_drawn))
        if not trainer.is_global_zero or is_dry_run(trainer):
            return
        source = getattr(data_of(trainer), "source", None)
        run = RunFolder(Path(trainer.default_root_dir))
        for split in dict.fromkeys(split for part in gathered for split in part):
            by_index = {index: document for part in gathered for index, document in part.get(split, {}).items()}
            documents = [by_index[index] for index in sorted(by_index)]
            number = f"Shown: the first {quantity(len(documents), 'explained example')} (num_documents of Heatmaps)."
            notes = [_WEAK] if source is not None and source.has_weak_rationales(split) else []
            note = " ".join([*notes, number] if split in not_all_drawn else notes)
            page = html_page(f"Attributions on {split}", documents, note)
            name = f"{split}{self._number(trainer, split)}"
            file = run.heatmap_page(name, file_suffix_of(trainer))
            write_whole(file, partial(Path.write_text, data=page, encoding="utf-8"))
            self.pages.append(file)
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    self._draw_images(logger, f"{log_prefix(split)}{self._number(trainer, split)}", documents, trainer)

    def _number(self, trainer: Trainer, split: str) -> str:
        """Returns ".2" for the second Heatmaps of a trainer that draws a split, and so on; "" for the first one."""
        drawing = [callback for callback in callbacks_of(trainer) if isinstance(callback, Heatmaps)]
        place = [one for one in drawing if one.active and (one.splits is None or split in one.splits)].index(self)
        return f".{place + 1}" if place else ""

    def _say_if_limited_away(self, trainer: Trainer, limit: int | float, option: str, splits: list[str]) -> None:
        """Prints which splits have no page because the trainer's `limit` on batches excludes their first documents."""
        # 1.0 is no limit, 1 is one batch. A dry run writes no pages anyway
        if isinstance(limit, float) and limit == 1.0 or is_dry_run(trainer):
            return
        drawn = {split for part in gather(list(self._documents)) for split in part}
        missing = [split for split in splits if split not in drawn and (self.splits is None or split in self.splits)]
        if missing:
            say(
                f"no heatmaps for {', '.join(missing)}: none of the first {quantity(self.num_documents, 'example')} is "
                f"in the batches that trainer.{option} leaves; raise or remove this limit"
            )

    def _draw_images(
        self, logger: TensorBoardLogger, name: str, documents: list[ExplainedDocument], trainer: Trainer
    ) -> None:
        for position, document in enumerate(documents):
            if document.classes and len(document.offsets) <= self.max_image_tokens:
                picture = torch.from_numpy(image(document).copy())
                logger.experiment.add_image(
                    f"heatmaps/{name}/{position}", picture, trainer.global_step, dataformats="HWC"
                )


def drawn_pages(trainer: Trainer) -> list[Path]:
    """Returns the HTML pages that the Heatmaps among the trainer's callbacks have written, sorted by name.

    Example:
        >>> drawn_pages(Trainer(logger=False, accelerator="cpu", callbacks=[Heatmaps()]))
        []
    """
    drawing = [callback for callback in callbacks_of(trainer) if isinstance(callback, Heatmaps)]
    return sorted(page for callback in drawing for page in callback.pages)
