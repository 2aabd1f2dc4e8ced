"""Checks a VerbalizerLM: predicted classes, the verbalizers' probability, and predictions for texts of fill tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from lightning import Callback, LightningModule, Trainer

from lightning_xai.callbacks.base import data_of, is_dry_run, network_of, split_of_loader
from lightning_xai.callbacks.cost import NO_COST
from lightning_xai.callbacks.result_rows import ResultRow
from lightning_xai.models.verbalizer_lm import VerbalizerLM
from lightning_xai.runs.files.whole_files import write_json
from lightning_xai.runs.progress import say
from lightning_xai.runs.ranks import gather
from lightning_xai.runs.splits import log_prefix
from lightning_xai.types import Batch, TextInputs


class _Text(NamedTuple):
    label: int
    predicted: int
    mass: float  # total probability that the next token is a verbalizer
    filled: tuple[int, ...]  # one predicted class per fill token, after this token has replaced all explainable tokens


def shares(texts: Sequence[_Text], class_names: Sequence[str], fills: Sequence[str]) -> dict[str, float]:
    """Returns the values, by name, that Verbalizers reports for the texts of a split.

    The values are the fraction of texts for which each class is predicted, the mean total probability of the
    verbalizers, and two values for each fill token. They are measured on texts in which this token replaces every
    explainable token: the accuracy, and the fraction of texts with the class that is predicted most often.

    Example:
        >>> texts = [_Text(0, 1, 0.75, (0,)), _Text(1, 1, 0.25, (0,))]
        >>> values = shares(texts, ["bad", "good"], ["pad"])
        >>> values["predicted good"], values["mass on verbalizers"]
        (1.0, 0.5)
        >>> values["accuracy filled with 'pad'"], values["largest predicted share filled with 'pad'"]
        (0.5, 1.0)
    """
    count = len(texts)
    fractions = {
        f"predicted {name}": sum(text.predicted == c for text in texts) / count for c, name in enumerate(class_names)
    }
    fractions["mass on verbalizers"] = sum(text.mass for text in texts) / count
    for i, fill in enumerate(fills):
        answers = [text.filled[i] for text in texts]
        fractions[f"accuracy filled with {fill!r}"] = sum(text.filled[i] == text.label for text in texts) / count
        fractions[f"largest predicted share filled with {fill!r}"] = Counter(answers).most_common(1)[0][1] / count
    return fractions


def filled(inputs: TextInputs, fill_id: int) -> TextInputs:
    """Returns the inputs with every explainable token replaced by the token `fill_id`.

    Example:
        >>> filled(TextInputs.of_ids([[1, 5, 6]], special_ids=[1]), 9).input_ids.tolist()
        [[1, 9, 9]]
    """
    return replace(inputs, input_ids=inputs.input_ids.masked_fill(inputs.token_mask, fill_id))


class Verbalizers(Callback):
    """Adds checks of a VerbalizerLM to the results table of a test, and writes the prompt into the run's folder.

    The values are the fraction of texts for which each class is predicted, the mean probability that the next token is
    a verbalizer, and two values for each fill token. They are measured on texts in which this token replaces every
    explainable token: the accuracy, and the fraction of texts with the class that is predicted most often. If this
    accuracy is far from chance, the filled texts still hold evidence for or against their classes. If the fraction is
    near 1, the fill token itself may be evidence for that class. In both cases, erasing tokens by replacing them with
    this fill token is not neutral.

    Args:
        fills: fill tokens: "mask", "pad", "unk" or any string that the tokenizer turns into exactly one token. Each
            fill token costs one forward pass per text.

    Raises:
        ValueError: at the start of a test, if the network is not a VerbalizerLM, or if a fill is not exactly one token.

    Example:
        >>> Verbalizers(["unk", " the"]).result_rows()
        []
    """

    only_evaluates: ClassVar[bool] = True

    def __init__(self, fills: list[str] | None = None) -> None:
        self.fills = fills or []
        self._fill_ids: list[int] = []
        self._texts: dict[str, dict[int, _Text]] = {}  # split -> index of the example -> text
        self._rows: list[ResultRow] = []

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        network, data = network_of(pl_module), data_of(trainer)
        if not isinstance(network, VerbalizerLM):
            raise ValueError(
                f"the callback Verbalizers needs a VerbalizerLM, not {type(network).__name__}: remove this callback"
            )
        self._fill_ids = [data.encoder.id_of_fill(fill) for fill in self.fills]
        self._texts, self._rows = {}, []
        prompt = getattr(data.encoder, "prompt", None)
        if prompt is not None and trainer.is_global_zero and not is_dry_run(trainer):
            write_prompt(Path(trainer.default_root_dir), prompt())

    @torch.no_grad()
    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        network: Any = network_of(pl_module)
        predicted, mass = outputs["probs"].argmax(dim=1).tolist(), network.verbalizer_mass(batch.inputs).tolist()
        per_fill = [network(filled(batch.inputs, i)).logits.argmax(dim=1).tolist() for i in self._fill_ids]
        answers = list(zip(*per_fill, strict=True)) or [()] * len(batch)
        texts = map(_Text, batch.labels.tolist(), predicted, mass, answers)
        split = self._texts.setdefault(split_of_loader(trainer, dataloader_idx), {})
        split.update(zip(batch.index.tolist(), texts, strict=True))

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        joined: dict[str, dict[int, _Text]] = {}
        for part in gather(self._texts):
            for split, texts in part.items():
                joined.setdefault(split, {}).update(texts)
        for split, texts in joined.items():
            values = shares(list(texts.values()), data_of(trainer).class_names, self.fills)
            say(f"{split}: {', '.join(f'{name} {value:.1%}' for name, value in values.items())}")
            self._rows += [
                ResultRow(
                    split=split, preset="", method="", metric=name, value=value, num_examples=len(texts),
                    num_skipped=0, num_evidence_cut=0, **NO_COST,
                )
                for name, value in values.items()
            ]  # fmt: skip
            for logger in trainer.loggers:
                logger.log_metrics({f"{log_prefix(split)}/{name}": value for name, value in values.items()})

    def result_rows(self) -> list[ResultRow]:
        """Returns the rows that the last test adds to the results table."""
        return self._rows


def write_prompt(folder: Path, prompt: Mapping[str, Any]) -> None:
    """Writes a prompt, with its few-shot examples, to prompt_<hash>.json in `folder`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_prompt(Path(folder), {"hash": "12ab", "text": "Text: {text}"})
        ...     [file.name for file in Path(folder).iterdir()]
        ['prompt_12ab.json']
    """
    write_json(folder / f"prompt_{prompt['hash']}.json", dict(prompt))
