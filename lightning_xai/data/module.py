"""The data module, which encodes a source once and returns loaders whose batches have rows of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from lightning_xai.data.base import Encoded, Encoder
from lightning_xai.data.batches.collate import Item, collate
from lightning_xai.data.batches.sampler import LengthBucketSampler, padding_fraction
from lightning_xai.data.corpora.encoded_source import EncodedSource
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.data.erasures import Removal, apply_erasures, check_removal
from lightning_xai.data.network_arguments import NetworkArguments
from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.split_checks import missing_split, report_unknown_tokens, warn_of_labels
from lightning_xai.functional.sizes import max_examples_of, require_max_examples, require_sizes, require_workers
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.types import Batch

MAIN_SPLITS = ("train", VALIDATION, "test")


class TextDataModule(LightningDataModule, NetworkArguments):
    """Encodes the splits of a source once into memory-mapped files, and makes batches of rows of similar length.

    An example's index is its row number in the full split, before `max_examples` leaves rows out.

    Args:
        source: loads the rows.
        encoder: turns rows into tokens.
        batch_size: largest number of rows in a training batch, per process.
        eval_batch_size: largest number of rows in an evaluation batch, per process.
        max_tokens_per_batch: largest number of tokens in a batch, padding included; None for no limit.
        num_workers: number of loader processes, which does not affect the batches.
        seed: seed of the shuffling, and of the random choice of training examples if `max_examples` limits them.
        max_examples: largest number of randomly chosen examples: one number for all splits, or split -> number.
        stratify: whether this choice keeps the share of each class, for sources with one label per example.
        extra_test_splits: splits to test besides "test"; by default, all except "train", "validation" and "test".
            Explanations of the validation split are measured only if this list names it.
        predict_split: the split that `trainer.predict` reads.
        tune_on_validation: whether tests begin with the validation split, to tune thresholds on it.
        erasures: folder that has, for every split, a store of the tokens to erase; None to erase nothing.
        erasure: how erased tokens are removed: "mask", "delete" or "positions", as in `removal.remove_tokens`.
        cache_dir: folder of the encoded splits; None for $LIGHTNING_XAI_CACHE or, if unset, ~/.cache/lightning_xai.

    Raises:
        ValueError: a size is not positive, or the encoder lacks a token that `erasure` needs. `setup`, which runs
            before training, raises ValueError for invalid rows, and for erasures that do not match the rows.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> data = TextDataModule(Planted(num_train=40), VocabularyEncoder(words=95), batch_size=8)
        >>> data.setup("fit")
        >>> [len(batch) for batch in data.train_dataloader()]
        unknown tokens: train 0.0%, validation 0.0%
        [8, 8, 8, 8, 8]
    """

    def __init__(
        self,
        source: TextSource,
        encoder: Encoder,
        batch_size: int = 16,
        eval_batch_size: int = 32,
        max_tokens_per_batch: int | None = 16384,
        num_workers: int = 0,
        seed: int = 0,
        max_examples: int | dict[str, int] | None = None,
        stratify: bool = False,
        extra_test_splits: list[str] | None = None,
        predict_split: str = "test",
        tune_on_validation: bool = True,
        erasures: str | None = None,
        erasure: Removal = "mask",
        cache_dir: str | None = None,
    ) -> None:
        super().__init__()
        require_sizes(batch_size=batch_size, eval_batch_size=eval_batch_size, max_tokens_per_batch=max_tokens_per_batch)
        require_max_examples(max_examples)
        require_workers(num_workers)
        check_removal(erasure, encoder)
        self.batch_size, self.eval_batch_size = batch_size, eval_batch_size
        self.max_tokens_per_batch, self.num_workers, self.seed = max_tokens_per_batch, num_workers, seed
        self.max_examples, self.stratify, self.extra_test_splits = max_examples, stratify, extra_test_splits
        self.predict_split, self.tune_on_validation = predict_split, tune_on_validation
        self.erasures, self.erasure = erasures, erasure
        self.encoded_source = EncodedSource(source, encoder, cache_dir)
        self.splits: dict[str, EncodedSplit] = {}  # the splits in use, after erasure
        self._unerased_splits: dict[str, EncodedSplit] = {}

    @property
    def source(self) -> TextSource:
        """The source of the rows."""
        return self.encoded_source.source

    @property
    def encoder(self) -> Encoder:
        """The encoder, which turns the rows into tokens."""
        return self.encoded_source.encoder

    @property
    def class_names(self) -> list[str]:
        """Names of the classes 0, 1, ..."""
        return self.encoded_source.class_names

    @property
    def num_classes(self) -> int:
        """Number of classes C."""
        return len(self.class_names)

    @property
    def multilabel(self) -> bool:
        """Whether an example may have several labels, or none."""
        return self.source.multilabel

    @property
    def text_is_private(self) -> bool:
        """Whether the texts must not be written outside the folder of the encoded corpora."""
        return self.encoded_source.text_is_private

    def _ensure_fitted_encoder(self) -> None:
        if not self.encoder.needs_fit:
            return
        chosen = self._chosen("train") if "train" in self.split_names else None
        self.encoded_source.fit_encoder(chosen)

    def state_dict(self) -> dict[str, Any]:
        """Returns what the encoder has learned. Checkpoints store this state, so that token ids keep their meaning."""
        return {"encoder": learned} if (learned := self.encoder.state_dict()) else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads the encoder's state from a checkpoint, so that token ids mean the same as in the saved network."""
        if state_dict["encoder"] != self.encoder.state_dict():
            self.encoder.load_state_dict(state_dict["encoder"])
            self._unerased_splits.clear()  # splits are encoded again at their next use
            self.splits.clear()

    @property
    def split_names(self) -> list[str]:
        """Names of the source's splits."""
        return list(self.encoded_source.table.num_rows)

    def columns(self, split: str) -> list[str]:
        """Returns the names of the columns of a split's rows."""
        return self.encoded_source.table.columns[split]

    @property
    def test_splits(self) -> list[str]:
        """Names of the splits to test, in the order of the loaders. If `tune_on_validation`, "validation" is first."""
        if (extra := self.extra_test_splits) is None:
            extra = [name for name in self.split_names if name not in MAIN_SPLITS]
        return list(dict.fromkeys([*([VALIDATION] if self.tune_on_validation else []), "test", *extra]))

    def prepare_data(self) -> None:
        """Encodes the splits that the current stage needs. Lightning calls this method in one process per machine."""
        for name in self._needed(None if self.trainer is None else self.trainer.state.fn):
            self.unerased_split(name)
        self.encoded_source.release()

    def setup(self, stage: str | None = None) -> None:
        """Opens the splits that `stage` needs (None for all stages), and encodes those that are not encoded yet."""
        limited = self.max_examples if isinstance(self.max_examples, dict) else {}
        for unknown in sorted(set(limited) - set(self.split_names)):
            raise ValueError(f"max_examples limits a split {unknown!r}, which does not exist: {self._existing()}")
        for name in self._needed(stage):
            self.split(name)
        self.encoded_source.release()

    def _needed(self, stage: str | None) -> list[str]:
        fit, test, predict = ["train", VALIDATION], self.test_splits, [self.predict_split]
        needed = {"fit": fit, "validate": [VALIDATION], "test": test, "predict": predict}
        return needed.get(stage or "", [*fit, *test, *predict])

    def split(self, name: str) -> EncodedSplit:
        """Returns a tokenized split without the tokens that `erasures` removes.

        Raises:
            ValueError: the split is unknown or empty, a row breaks the format of TextSource or has more than
                `max_tokens_per_batch` tokens, or the erasures do not match the rows.
        """
        if name not in self.splits:
            data = self.unerased_split(name)
            if self.erasures is not None:
                facts = self.encoder.unk_token_id, self.encoder.facts()
                data = apply_erasures(self.erasures, name, data, self.erasure, *facts)
            longest = int(data.lengths.max())
            if self.max_tokens_per_batch is not None and longest > self.max_tokens_per_batch:
                raise ValueError(
                    f"split {name!r} has a row of {longest} tokens, more than max_tokens_per_batch="
                    f"{self.max_tokens_per_batch}: raise max_tokens_per_batch, or lower the encoder's max_length"
                )
            self.splits[name] = data
        return self.splits[name]

    def unerased_split(self, name: str) -> EncodedSplit:
        """Returns a tokenized split with all its tokens."""
        if name not in self._unerased_splits:
            if name not in self.split_names:
                raise missing_split(name, self._existing())
            self._ensure_fitted_encoder()
            index = self._chosen(name)
            split = EncodedSplit(self.encoded_source.corpus(name, index), index)
            warn_of_labels(name, split, self.class_names)
            self._unerased_splits[name] = split
        return self._unerased_splits[name]

    def _existing(self) -> str:
        return f"the splits of {type(self.source).__name__} are {', '.join(self.split_names)}"

    def _chosen(self, name: str) -> np.ndarray:
        """Returns the row numbers that `max_examples` keeps, ascending. Only the choice for "train" uses `seed`."""
        limit, seed = max_examples_of(self.max_examples, name), self.seed if name == "train" else 0
        return self.encoded_source.choose(name, limit, seed, stratify=self.stratify)

    def collate(self, items: Sequence[Item]) -> Batch:
        """Returns the given examples as a batch."""
        return self._collate_function()(items)

    def _collate_function(self) -> partial[Batch]:
        # a partial of plain values, because a method would carry the whole data module to each loader process
        return partial(
            collate,
            pad_token_id=self.encoder.pad_token_id,
            num_classes=self.num_classes,
            multilabel=self.multilabel,
            has_rationales=self.encoded_source.table.has_rationales,
        )

    def sampler(self, split: str, *, shuffle: bool) -> LengthBucketSampler:
        """Returns a split's sampler. A batch has up to `batch_size` rows if `shuffle`, else up to `eval_batch_size`."""
        data, size = self.split(split), self.batch_size if shuffle else self.eval_batch_size
        return LengthBucketSampler(
            data, data.lengths, batch_size=size, max_tokens=self.max_tokens_per_batch, shuffle=shuffle, seed=self.seed
        )

    def _loader(self, split: str, *, shuffle: bool) -> DataLoader:
        data = self.split(split)
        # unknown tokens are not reported in `setup`, because a checkpoint may replace the vocabulary after `setup`
        report_unknown_tokens(self._unerased_splits, self.encoder)
        return DataLoader(
            data,
            batch_size=None,  # the sampler yields whole batches
            sampler=self.sampler(split, shuffle=shuffle),
            collate_fn=self._collate_function(),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
        )

    def train_dataloader(self) -> DataLoader:
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self._loader(VALIDATION, shuffle=False)

    def test_dataloader(self) -> list[DataLoader]:
        return [self._loader(split, shuffle=False) for split in self.test_splits]

    def predict_dataloader(self) -> DataLoader:
        return self.ordered_dataloader(self.predict_split)

    def ordered_dataloader(self, split: str) -> DataLoader:
        """Returns a loader for this process's share of a split. The rows are sorted by length, the longest first."""
        return self._loader(split, shuffle=False)

    def example(self, split: str, index: int) -> dict[str, Any]:
        """Returns the example with the given index, as a dict with the columns that TextSource describes."""
        data = self.split(split)
        return data.examples[data.position(index)]

    def encoded(self, split: str, index: int) -> Encoded:
        """Returns the tokens of the example with the given index, with their offsets into the text."""
        data = self.split(split)
        return data.encoded[data.position(index)]

    def padding_fraction(self, split: str) -> float:
        """Returns which fraction of the tokens in one epoch of a split is padding."""
        sampler = self.sampler(split, shuffle=split == "train")
        return padding_fraction(sampler.lengths, sampler.batches())

    def summary(self) -> dict[str, Any]:
        """Returns facts about the source, the encoder and the splits. The key "report" holds the source's report.

        The name of each split in use is a key, too. Its value has the facts from `EncodedSplit.summary`, the
        `padding_fraction`, `rationales_are_weak`, and `rows`: the number of rows in the full split.
        """
        facts = self.source.summary() | self.encoder.summary() | {"report": self.encoded_source.table.report}
        for name, data in self.splits.items():
            facts[name] = data.summary() | {"padding_fraction": self.padding_fraction(name)}
            facts[name]["rows"] = self.encoded_source.table.num_rows[name]
            facts[name]["rationales_are_weak"] = self.source.has_weak_rationales(name)
        return facts
