"""Two parts that configurations name: data with short test texts only, and a callback that writes the top words."""

from pathlib import Path

import numpy as np
import pandas as pd
from lightning import LightningModule, Trainer

from lightning_xai.callbacks.base import ExplainedBatch, ExplainedCallback, data_of
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.data.module import TextDataModule


class ShortTexts(TextDataModule):
    """Data of which only short texts are tested.

    Args:
        longest: largest number of tokens of a test text that may be explained.
        **kwargs: arguments of TextDataModule.
    """

    def __init__(self, longest: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.longest = longest

    def _chosen(self, name: str) -> np.ndarray:
        if name != "test":
            return super()._chosen(name)
        assert isinstance(self.max_examples, dict)
        encoded = EncodedSplit(self.encoded_source.corpus(name)).encoded
        short = [row for row in range(len(encoded)) if 0 < sum(encoded[row].token_mask) <= self.longest]
        order = np.random.default_rng(len(encoded)).permutation(short)
        return np.sort(order[: self.max_examples["test"]])


class TopWords(ExplainedCallback):
    """Writes each tested text, its number of tokens, and the top words of each method to top_words.csv.

    A word is text without white space. Its score is the largest score of its tokens.

    Args:
        num_words: number of words to mark for each method.
    """

    only_evaluates = True

    def __init__(self, num_words: int = 3) -> None:
        super().__init__()
        self.num_words = num_words
        self._rows: list[dict[str, object]] = []

    def on_explained(self, explained: ExplainedBatch) -> None:
        data = data_of(self.trainer)
        for row, index in enumerate(explained.batch.index.tolist()):
            text = data.example(explained.split, index)["text"]
            offsets = data.encoded(explained.split, index).text_offsets
            for method, attribution in explained.attributions.items():
                mask = attribution.token_mask[row, : len(offsets)].tolist()
                scores = attribution.scores[row, 0, : len(offsets)].tolist()
                kept = [(offset, score) for offset, score, may in zip(offsets, scores, mask, strict=True) if may]
                predicted = data.class_names[int(attribution.targets[row, 0])]
                self._rows.append(
                    {
                        "index": index, "tokens": len(kept), "predicted": predicted, "method": method,
                        "text": marked(text, kept, self.num_words),
                    }
                )  # fmt: skip

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        pd.DataFrame(self._rows).to_csv(Path(trainer.default_root_dir) / "top_words.csv", index=False)
        self._rows = []


def marked(text: str, scored: list[tuple[tuple[int, int], float]], num_words: int) -> str:
    """Returns a text with asterisks around its top words."""
    words, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        scores = [score for (begin, end), score in scored if begin < start + len(word) and end > start]
        words.append((word, max(scores, default=-float("inf"))))
        start += len(word)
    order = sorted(range(len(words)), key=lambda place: -words[place][1])[:num_words]
    return " ".join(f"*{word}*" if place in order else word for place, (word, _) in enumerate(words))
