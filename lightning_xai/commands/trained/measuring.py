"""Measures explanations of the examples in a pandas table, using the same callbacks as the command line."""

from __future__ import annotations

import json
import tempfile
import warnings
from argparse import ArgumentError
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from lightning import Trainer

from lightning_xai.callbacks.attributions import ComputeAttributions
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.commands.parser.choices import listed_choices
from lightning_xai.commands.parser.class_checks import CheckedParser
from lightning_xai.commands.parser.parts import SHIPPED, find_part
from lightning_xai.commands.parser.run_arguments import TRAINER_DEFAULTS
from lightning_xai.commands.terminal import one_line
from lightning_xai.commands.trained.trained_run import Methods, TrainedRun, chosen_methods
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.columns import RationaleFormat
from lightning_xai.data.sources.files import Files
from lightning_xai.objectives.evaluation import Evaluation, other_task
from lightning_xai.report.results import left_out_notes, undefined_notes
from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.facts import RunFacts
from lightning_xai.runs.progress import quiet, say
from lightning_xai.runs.splits import VALIDATION

OPTIONAL_COLUMNS = {"text_pair": "text_pair_column", "id": "id_column"}
LABEL_COLUMNS, RATIONALE_COLUMNS = ("label", "labels"), ("rationales", "rationale")


def measure(
    loaded: TrainedRun,
    examples: pd.DataFrame,
    methods: Methods,
    *,
    preset: str | AttributionEvaluation = "eraser",
    validation: pd.DataFrame | None = None,
    max_examples: int | None = None,
    rationale_format: RationaleFormat = "char_spans",
    skip_unfit: bool = False,
    batch_size: int = 32,
) -> pd.DataFrame:
    """Explains given examples, measures the explanations, and returns the table of results. No files remain.

    Args:
        loaded: the network and its encoder.
        examples: table of examples, as `Run.measure` describes.
        methods: attribution methods.
        preset: name of a file in configs/presets, path of such a file, or an AttributionEvaluation.
        validation: table of examples on which thresholds are tuned; None if the preset tunes none.
        max_examples: largest number of examples used from each table; None uses all. They are chosen at random, but
            each call chooses the same ones.
        rationale_format: format of the rationales, as in `Run.measure`.
        skip_unfit: whether to leave out methods and metrics that fail in the preflight (a trial on short texts).
        batch_size: largest number of examples in one batch.

    Raises:
        ValueError: a table has no rows or the wrong format; the preset is unknown; the preset tunes thresholds, but
            `validation` is None; or a method or metric fails in the preflight.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> words = VocabularyEncoder(words=15)
        >>> network = TrainedNetwork(random_bert(), ["bad", "good"], encoder=words.facts())
        >>> loaded = TrainedRun("memory", None, network, words)
        >>> examples = pd.DataFrame({"text": ["w1 w2 w3", "w4 w5 w6"], "label": ["good", "good"]})
        >>> table = measure(loaded, examples, "Random", preset="sparsity")
        unknown tokens: test 0.0%
        >>> sorted(set(table["method"]))
        ['', 'Random']
    """
    evaluation = evaluation_of(preset)
    computing = ComputeAttributions(chosen_methods(methods))
    if validation is None and evaluation.needs_validation_in_test:
        raise ValueError(
            f"preset {evaluation.preset!r} tunes thresholds on a validation split: pass `validation`, a table like "
            "`examples`, or choose another preset"
        )
    splits = {"test": examples} | ({} if validation is None else {VALIDATION: validation})
    network = loaded.trained.network
    device = network.embedding_matrix.device
    kernel: Any = network.attention_implementation
    results = ResultsFile(RunFacts(*loaded.name))
    preflight = Preflight(skip_unfit=skip_unfit, remedy="skip_unfit=True")
    options: dict[str, Any] = dict(TRAINER_DEFAULTS)
    with tempfile.TemporaryDirectory() as folder, quiet(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="GPU available but not used")
        data = TextDataModule(
            files_of(splits, Path(folder), loaded, rationale_format),
            loaded.encoder,
            eval_batch_size=batch_size,
            max_examples=None if max_examples is None else dict.fromkeys(splits, max_examples),
            tune_on_validation=validation is not None,
            cache_dir=folder,
        )
        trainer = Trainer(
            **options,
            accelerator="cuda" if device.type == "cuda" else "cpu",
            devices=[device.index or 0] if device.type == "cuda" else 1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            default_root_dir=folder,
            callbacks=[results, preflight, computing, evaluation],
        )
        try:
            trainer.test(Evaluation.of(loaded.trained, loaded.path), datamodule=data, verbose=False)
        finally:
            network.set_attention(kernel)
            network.to(device)  # at the end of a test, Lightning moves the network to the CPU
    assert results.table is not None
    measured = results.table[results.table["preset"] != ""]
    said = {failure.reason for failure in preflight.left_out.values()}
    for split, rows in measured.groupby("split", sort=False):
        for note in [*undefined_notes(rows), *left_out_notes(rows[~rows["left_out"].isin(said)])]:
            say(f"{split}: {note}")
    return results.table.assign(checkpoint=loaded.checkpoint)


def evaluation_of(preset: str | AttributionEvaluation) -> AttributionEvaluation:
    """Returns the AttributionEvaluation that a preset's file defines.

    Args:
        preset: name of a file in configs/presets, with or without .yaml; path of such a file; or an
            AttributionEvaluation, which is returned unchanged.

    Raises:
        ValueError: there is no such file, or it does not define an AttributionEvaluation.

    Example:
        >>> [metric.name for metric in evaluation_of("eraser").metrics]
        ['rationale', 'comprehensiveness', 'sufficiency']
    """
    if isinstance(preset, AttributionEvaluation):
        return preset
    file = preset if preset.endswith((".yaml", ".yml")) else f"{preset}.yaml"
    if not Path(file).is_file():
        if "/" not in file and not any((base / "presets" / file).is_file() for base in (Path("configs"), SHIPPED)):
            known = listed_choices([path.stem for path in (SHIPPED / "presets").glob("*.yaml")], preset)
            raise ValueError(f"there is no preset {preset!r}: choose one of {known}, or give the path of a file")
        file = find_part(file if "/" in file else f"presets/{file}", "callbacks")
    parser = CheckedParser(exit_on_error=False)
    parser.add_subclass_arguments(AttributionEvaluation, "preset")
    content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    class_path = str(content.get("class_path")) if isinstance(content, dict) else ""
    imported_class(class_path, AttributionEvaluation, key=f"preset {preset}")
    try:
        return parser.instantiate(parser.parse_object({"preset": content})).preset
    except ArgumentError as error:
        raise ValueError(f"preset {file}: {one_line(str(error))}") from error


def files_of(
    splits: dict[str, pd.DataFrame], folder: Path, loaded: TrainedRun, rationale_format: RationaleFormat
) -> Files:
    """Writes tables to JSON Lines files in a folder, and returns the source that reads them.

    Args:
        splits: name of a split -> its table.
        folder: folder for the files.
        loaded: the network. The labels in the tables must be classes of this network.
        rationale_format: format of the rationales, as in `Run.measure`.

    Raises:
        ValueError: a table is not a DataFrame, has no rows, lacks the texts or labels, has lists of labels although
            the network is single-label, or has a cell that JSON cannot represent.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network = TrainedNetwork(random_bert(), ["bad", "good"])
        >>> loaded = TrainedRun("memory", None, network, VocabularyEncoder(words=15))
        >>> table = pd.DataFrame({"text": ["fine plot"], "label": ["good"], "rationales": [[(0, 4)]]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files_of({"test": table}, Path(folder), loaded, "char_spans").load()["test"][0]["rationales"]
        [{'label': 1, 'spans': [[0, 4]]}]
    """
    for split, table in splits.items():
        name = "validation" if split == VALIDATION else "examples"
        if not isinstance(table, pd.DataFrame) or not len(table):
            problem = "has no rows" if isinstance(table, pd.DataFrame) else f"is a {type(table).__name__}"
            raise ValueError(f"{name} {problem}: give a pandas DataFrame with the columns text and label")
        for needed in (("text",), LABEL_COLUMNS):
            if not set(needed) & set(table.columns):
                has = ", ".join(map(str, table.columns))
                raise ValueError(f"{name} has no column {' or '.join(needed)}; it has {has}: rename a column")
        multilabel = [name for name in LABEL_COLUMNS if name in table and table[name].map(_is_list).any()]
        if multilabel and not loaded.trained.network.multilabel:
            raise ValueError(other_task(loaded.path, Path(loaded.path), network_is_multilabel=False))
        rows = table.to_dict("records")
        lines = [json.dumps({str(k): _plain(v) for k, v in row.items()}, default=_refuse) for row in rows]
        (folder / f"{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    columns = [str(column) for table in splits.values() for column in table.columns]
    rationales = [name for name in RATIONALE_COLUMNS if name in columns]
    optional: dict[str, Any] = {argument: name for name, argument in OPTIONAL_COLUMNS.items() if name in columns}
    known = {"text", *LABEL_COLUMNS, *OPTIONAL_COLUMNS}
    if not rationales and (unread := [name for name in dict.fromkeys(columns) if name not in known]):
        wanted = " or ".join(RATIONALE_COLUMNS)
        say(f"no column is named {wanted}, so there are no rationales; columns that are not read: {', '.join(unread)}")
    return Files(
        {split: str(folder / f"{split}.jsonl") for split in splits},
        label_column=next((name for name in LABEL_COLUMNS if name in columns), LABEL_COLUMNS[0]),
        rationale_column=rationales[0] if rationales else None,
        rationale_format=rationale_format,
        class_names=loaded.trained.class_names,
        multilabel=loaded.trained.network.multilabel,
        **optional,
    )


def _is_list(cell: Any) -> bool:
    return isinstance(cell, list | tuple | np.ndarray)


def _plain(cell: Any) -> Any:
    """Converts a cell of a table to types that JSON has: missing values to None, arrays and tuples to lists."""
    if isinstance(cell, np.ndarray | list | tuple):
        return [_plain(item) for item in cell]
    if isinstance(cell, dict):
        return {key: _plain(item) for key, item in cell.items()}
    if isinstance(cell, np.generic):
        cell = cell.item()
    return None if pd.api.types.is_scalar(cell) and pd.isna(cell) else cell


def _refuse(cell: Any) -> None:
    raise ValueError(f"{cell!r} is a {type(cell).__name__}: write it as a string, a number or a list")
