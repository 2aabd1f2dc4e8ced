"""Shows attributions to a person: images in TensorBoard and one self-contained HTML page a split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger

from lightning_xai.callbacks.base import ExplainingCallback, among_first, explained_by
from lightning_xai.report.heatmap import ExplainedClass, ExplainedDocument, html_page, image
from lightning_xai.types import Batch


class Heatmaps(ExplainingCallback):
    """Collects the first documents of each split and draws them when the split set has been seen.

    Args:
        num_documents: documents shown of each split, the first ones by index.
        splits: splits shown; None shows every one but the validation split that tunes thresholds in `test`.
        max_image_tokens: longer documents appear in the HTML page only.
    """

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
        self._documents: dict[str, dict[int, ExplainedDocument]] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        explained_by(trainer, self, "Heatmaps")
        if trainer.datamodule is None or not hasattr(trainer.datamodule, "encoded"):
            raise ValueError("Heatmaps shows source texts, which only a TextDataModule knows: pass one to the trainer")
        self._documents = {}

    def on_explained_batch(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        if split == "validation" and trainer.testing or (self.splits is not None and split not in self.splits):
            return
        explained = outputs["explained"]
        shown = among_first(trainer, explained, split, self.num_documents)
        for row, index in enumerate(explained.index.tolist()):
            if shown[row] and outputs["attributions"]:
                probs = outputs["probs"][(batch.index == index).nonzero()[0, 0]]
                document = self._document(trainer, module, outputs["attributions"], explained, row, probs, split)
                self._documents.setdefault(split, {})[index] = document

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.active(trainer) and not trainer.sanity_checking:
            self._draw(trainer)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._draw(trainer)

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._draw(trainer)

    def _document(self, trainer, module, attributions, explained, row, probs, split) -> ExplainedDocument:
        index = int(explained.index[row])
        data = trainer.datamodule
        example = data.example(split, index)
        offsets = data.encoded(split, index).text_offsets
        labels = explained.labels[row]
        evidence: dict[int, list] = {}
        for rationale in example.get("rationales") or []:
            evidence.setdefault(rationale["label"], []).extend(rationale["spans"])
        first = next(iter(attributions.values()))
        threshold = float(module.decision_threshold)
        classes = []
        for k, target in enumerate(first.targets[row].tolist()):
            if not first.target_mask[row, k]:
                continue
            multilabel = labels.dim() == 1
            classes.append(
                ExplainedClass(
                    name=data.class_names[target],
                    probability=float(probs[target]),
                    gold=bool(labels[target] > 0.5) if multilabel else int(labels) == target,
                    predicted=bool(probs[target] > threshold) if multilabel else int(probs.argmax()) == target,
                    scores={
                        name: attribution.scores[row, k, : len(offsets)].cpu().numpy()
                        for name, attribution in attributions.items()
                    },
                    spans=[(int(begin), int(end)) for begin, end in evidence.get(target, [])],
                )
            )
        return ExplainedDocument(name=str(example["id"]), text=example["text"], offsets=offsets, classes=classes)

    def _draw(self, trainer: Trainer) -> None:
        collected = _gather(self._documents)
        if not trainer.is_global_zero or trainer.fast_dev_run:
            return
        weak = getattr(getattr(trainer.datamodule, "source", None), "rationales_are_weak", False)
        note = "The evidence is weak: it comes from a lexicon or heuristic, not from annotators." if weak else ""
        for split, documents in collected.items():
            ordered = [documents[index] for index in sorted(documents)]
            folder = Path(trainer.default_root_dir) / "heatmaps"
            folder.mkdir(parents=True, exist_ok=True)
            page = html_page(f"Attributions on {split}", ordered, note)
            (folder / f"{split}.html").write_text(page, encoding="utf-8")
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    self._draw_images(logger, split, ordered, trainer.global_step)

    def _draw_images(self, logger, split: str, documents: list[ExplainedDocument], step: int) -> None:
        for position, document in enumerate(documents):
            if document.classes and len(document.offsets) <= self.max_image_tokens:
                picture = torch.from_numpy(image(document).copy())
                logger.experiment.add_image(f"heatmaps/{split}/{position}", picture, step, dataformats="HWC")


def _gather(documents: dict[str, dict[int, ExplainedDocument]]) -> dict[str, dict[int, ExplainedDocument]]:
    """Returns the documents of all ranks; every rank takes part."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return documents
    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, documents)
    merged: dict[str, dict[int, ExplainedDocument]] = {}
    for part in everyone:
        for split, found in part.items():
            merged.setdefault(split, {}).update(found)
    return merged
