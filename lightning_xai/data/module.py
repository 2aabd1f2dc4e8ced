"""The data module: a source and an encoder become length-bucketed loaders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from datasets import DatasetDict
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from lightning_xai.data.collate import Item, collate
from lightning_xai.data.encoded_split import EncodedSplit
from lightning_xai.data.encoding import Encoded, Encoder
from lightning_xai.data.erasures import Erasure, apply_erasures, check_erasure
from lightning_xai.data.sampler import LengthBucketSampler, padding_fraction
from lightning_xai.data.sources.base import TextSource, check_example
from lightning_xai.types import Batch

MAIN_SPLITS = ("train", "validation", "test")


class TextDataModule(LightningDataModule):
    """Loads a source, encodes it once a process, and batches rows of similar length.

    An example's index is its row in its split, before `max_examples` leaves any out.

    Args:
        source: where rows come from.
        encoder: how they become tokens.
        batch_size: most rows of a training batch on one process.
        eval_batch_size: most rows of a batch in evaluation.
        max_tokens_per_batch: most tokens of a batch, padding included; None for no limit.
        num_workers: loader processes; batches do not depend on it.
        seed: of shuffling, and of the random subset of "train" that `max_examples` takes.
        max_examples: most examples of a split, by its name; other splits keep the same ones for every seed.
        extra_test_splits: test splits beside "test"; None for all that the source has.
        predict_split: what `trainer.predict` reads.
        tune_on_validation: whether testing passes over the validation split first, to tune thresholds.
        erasures: folder with a store of erased tokens for every split, applied to all examples; None for none.
        erasure: what is done with erased tokens, see `lightning_xai.data.erasures.erase`.

    Raises:
        ValueError: a size is not positive, or erasures cannot be applied. `setup` raises it for bad data, before
            training.
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
        max_examples: dict[str, int] | None = None,
        extra_test_splits: list[str] | None = None,
        predict_split: str = "test",
        tune_on_validation: bool = True,
        erasures: str | None = None,
        erasure: Erasure = "mask",
    ) -> None:
        super().__init__()
        sizes = {"batch_size": batch_size, "eval_batch_size": eval_batch_size}
        sizes |= {"max_tokens_per_batch": max_tokens_per_batch}
        sizes |= {f"max_examples.{split}": size for split, size in (max_examples or {}).items()}
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ValueError(f"{name}={size} leaves nothing to load; set it to 1 or more")
        check_erasure(erasure, encoder)
        self.source = source
        self.encoder = encoder
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.max_tokens_per_batch = max_tokens_per_batch
        self.num_workers = num_workers
        self.seed = seed
        self.max_examples = max_examples or {}
        self.extra_test_splits = extra_test_splits
        self.predict_split = predict_split
        self.tune_on_validation = tune_on_validation
        self.erasures = erasures
        self.erasure = erasure
        self._rows: DatasetDict | None = None
        self._whole: dict[str, EncodedSplit] = {}  # without erasures
        self.splits: dict[str, EncodedSplit] = {}  # used so far

    def check_erasure(self, erasure: Erasure) -> None:
        """Raises ValueError if the encoder lacks a token that an erasure needs."""
        check_erasure(erasure, self.encoder)

    @property
    def class_names(self) -> list[str]:
        return self.source.class_names

    @property
    def num_classes(self) -> int:
        return len(self.source.class_names)

    @property
    def multilabel(self) -> bool:
        return self.source.multilabel

    @property
    def vocab_size(self) -> int:
        """Number of ids V that a network's embedding table needs rows for."""
        self._fit_encoder()
        return self.encoder.vocab_size

    @property
    def word_vectors(self) -> Tensor | None:
        """[V, D] pretrained embeddings of the ids, NaN in rows without one; None if there are none."""
        self._fit_encoder()
        return self.encoder.word_vectors

    def _fit_encoder(self) -> None:
        if not self.encoder.needs_fit:
            return
        if self._rows is None:  # a network asks for the size of its vocabulary before Lightning prepares the data
            self.prepare_data()
        if "train" not in self.rows:
            raise ValueError(f"a vocabulary is built from split 'train', but {self._available()}: give words instead")
        self.encoder.fit(self.rows["train"].select(self._subset("train", len(self.rows["train"]))))

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint has to hold for its network to read further texts."""
        learned = self.encoder.state_dict()
        return {"encoder": learned} if learned else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what a checkpoint's encoder learned, so that ids are those that its network knows."""
        if state_dict["encoder"] != self.encoder.state_dict():
            self.encoder.load_state_dict(state_dict["encoder"])
            self._whole.clear()  # encoded again at their next use
            self.splits.clear()

    def take_over(self, other: TextDataModule) -> None:
        """Uses what a data module of the same settings, erasures excepted, has loaded and encoded already."""
        self.source, self.encoder, self._rows, self._whole = other.source, other.encoder, other._rows, other._whole

    @property
    def rows(self) -> DatasetDict:
        """The source's splits, loaded once."""
        if self._rows is None:
            self._rows = self.source.load()
        return self._rows

    @property
    def test_splits(self) -> list[str]:
        """Names of the test loaders in their order: validation first if thresholds are tuned on it."""
        extra = self.extra_test_splits
        if extra is None:
            extra = [name for name in self.rows if name not in MAIN_SPLITS]
        return [*(["validation"] if self.tune_on_validation else []), "test", *extra]

    def prepare_data(self) -> None:
        self.source.prepare()

    def setup(self, stage: str | None = None) -> None:
        """Loads, checks and tokenizes the splits that the stage needs."""
        fit, test, predict = ["train", "validation"], self.test_splits, [self.predict_split]
        needed = {"fit": fit, "validate": ["validation"], "test": test, "predict": predict}
        for unknown in sorted(set(self.max_examples) - set(self.rows)):
            raise ValueError(f"max_examples names split {unknown!r}, but {self._available()}")
        for name in needed.get(stage, dict.fromkeys([*fit, *test, *predict])):
            self.split(name)

    def split(self, name: str) -> EncodedSplit:
        """Returns a split, tokenized and with its erasures at its first use.

        Raises:
            ValueError: the split is unknown or empty, or a row is not as TextSource promises.
        """
        if name not in self.splits:
            data = self.whole(name)
            if self.erasures is not None:
                data = apply_erasures(self.erasures, name, data, self.erasure, self.encoder.unk_token_id)
            longest = int(data.lengths.max())
            if self.max_tokens_per_batch is not None and longest > self.max_tokens_per_batch:
                raise ValueError(
                    f"split {name!r} has a row of {longest} tokens, over max_tokens_per_batch="
                    f"{self.max_tokens_per_batch}; raise that or lower the encoder's max_length"
                )
            self.splits[name] = data
        return self.splits[name]

    def whole(self, name: str) -> EncodedSplit:
        """Returns a split without its erasures."""
        if name not in self._whole:
            if name not in self.rows:
                raise ValueError(f"there is no split {name!r}: {self._available()}")
            rows = self.rows[name]
            missing = [column for column in ("text", "labels", "id") if column not in rows.column_names]
            if missing or not len(rows):
                problem = f"lacks column {missing[0]!r}" if missing else "is empty"
                raise ValueError(f"split {name!r} of {type(self.source).__name__} {problem}")
            index = self._subset(name, len(rows))
            examples = rows.select(index).to_list()
            for example in examples:
                check_example(example, name, self.num_classes, self.multilabel)
            self._fit_encoder()
            self._whole[name] = EncodedSplit(examples, self.encoder.encode_batch(examples), index)
        return self._whole[name]

    def _available(self) -> str:
        return f"{type(self.source).__name__} has {', '.join(self.rows)}"

    def _subset(self, name: str, num_rows: int) -> np.ndarray:
        """Returns the rows to use, ascending; they depend on the number of rows only, those of "train" on the seed."""
        size, seed = self.max_examples.get(name, num_rows), self.seed if name == "train" else 0
        if size >= num_rows:
            return np.arange(num_rows)
        return np.sort(np.random.default_rng((seed, num_rows)).permutation(num_rows)[:size])

    def collate(self, items: Sequence[Item]) -> Batch:
        """Returns the batch of the given examples."""
        return self._collate()(items)

    def _collate(self) -> partial:
        # a partial over plain values, so that loader processes do not receive the whole data module
        return partial(
            collate,
            pad_token_id=self.encoder.pad_token_id,
            num_classes=self.num_classes,
            multilabel=self.multilabel,
            has_rationales=any("rationales" in rows.column_names for rows in self.rows.values()),
        )

    def sampler(self, split: str, *, shuffle: bool) -> LengthBucketSampler:
        """Returns the sampler of a split, with the training or the evaluation batch size."""
        data = self.split(split)
        batch_size = self.batch_size if shuffle else self.eval_batch_size
        limits = {"batch_size": batch_size, "max_tokens": self.max_tokens_per_batch}
        return LengthBucketSampler(data, data.lengths, **limits, shuffle=shuffle, seed=self.seed)

    def _loader(self, split: str, *, shuffle: bool) -> DataLoader:
        return DataLoader(
            self.split(split),
            batch_size=None,  # the sampler yields whole batches
            sampler=self.sampler(split, shuffle=shuffle),
            collate_fn=self._collate(),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
        )

    def train_dataloader(self) -> DataLoader:
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self._loader("validation", shuffle=False)

    def test_dataloader(self) -> list[DataLoader]:
        return [self._loader(split, shuffle=False) for split in self.test_splits]

    def predict_dataloader(self) -> DataLoader:
        return self.ordered_dataloader(self.predict_split)

    def ordered_dataloader(self, split: str) -> DataLoader:
        """Returns a loader of this process's share of a split, sorted by length, never shuffled."""
        return self._loader(split, shuffle=False)

    def example(self, split: str, index: int) -> dict[str, Any]:
        """Returns the row: text, text_pair, labels, rationales (character spans) and id."""
        data = self.split(split)
        return data.examples[data.position(index)]

    def encoded(self, split: str, index: int) -> Encoded:
        """Returns the row's tokens with their offsets into the text."""
        data = self.split(split)
        return data.encoded[data.position(index)]

    def padding_fraction(self, split: str) -> float:
        """Returns the fraction of padding among all token positions of an epoch over the split."""
        sampler = self.sampler(split, shuffle=split == "train")
        return padding_fraction(sampler.lengths, sampler.batches())

    def summary(self) -> dict[str, Any]:
        """Returns facts about the source, the vocabulary and each split that was set up.

        Per split: examples, mean_tokens, truncated_fraction (at the encoder's limit), evidence_kept_fraction (mean over
        examples with evidence, None without any) and padding_fraction.
        """
        facts = self.source.summary() | self.encoder.summary()
        for name, data in self.splits.items():
            kept = [e.evidence_kept for e in data.encoded if e.evidence_kept is not None]
            facts[name] = {
                "examples": len(data),
                "mean_tokens": float(data.lengths.mean()),
                "truncated_fraction": float(np.mean([e.truncated for e in data.encoded])),
                "evidence_kept_fraction": float(np.mean(kept)) if kept else None,
                "padding_fraction": self.padding_fraction(name),
            }
        return facts
