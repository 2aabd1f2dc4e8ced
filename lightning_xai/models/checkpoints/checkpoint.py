"""Loads trained networks from checkpoints, Hugging Face folders and released weights, without running pickled code."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lightning_xai.functional.model_files.model_folders import resolve_model_path
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.loading import build_network, load_weights, read_tensors
from lightning_xai.models.checkpoints.released import is_released, load_released, released_encoder
from lightning_xai.models.pretrained.adapters import find_adapter
from lightning_xai.models.pretrained.lora import merge_adapters
from lightning_xai.models.pretrained.pretrained_weights import refuse_gaps
from lightning_xai.models.pretrained.transformers_config import read_config
from lightning_xai.models.pretrained.weight_files import hash_of_files, weight_files
from lightning_xai.models.scorer.explained_file import AML, PRETRAINED, explained_path
from lightning_xai.runs.encoder_facts import tokenizer_at
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.files.checkpoint_files import require_whole
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.format import FORMAT, format_of, is_current
from lightning_xai.runs.progress import say

_HF_CLASSIFIER = "lightning_xai.models.hf_classifier.HFClassifier"


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network, and the facts that are stored with its weights.

    Attributes:
        network: the network, in eval mode, on the CPU.
        class_names: names of the classes in the order of the logits; None if the file has no class names. A checkpoint
            has class names if the network was trained with a data module.
        decision_threshold: probability above which a class is predicted: the tuned value if the file has one (after
            multi-label training), 0.5 otherwise.
        encoder: facts about the text encoder with which the network was trained, as returned by `read_encoder`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> trained = TrainedNetwork(random_bert(), class_names=["no", "yes"])
        >>> trained.decision_threshold, trained.encoder
        (0.5, None)
    """

    network: Classifier
    class_names: list[str] | None
    decision_threshold: float = 0.5
    encoder: dict[str, Any] | None = None


def load_trained(path: str, *, trust_remote_code: bool = False) -> TrainedNetwork:
    """Returns the trained network at `path`. The global random state does not change.

    For a checkpoint of an AML run, which contains a scorer, the result is the network that the scorer explains.

    Args:
        path: a .ckpt file of any objective; a run folder with checkpoints/best.ckpt or (if best.ckpt is missing)
            checkpoints/last.ckpt; a Hugging Face model with a classification head (folder, hub id or
            "package:NAME/FOLDER"); or a folder of released PLM-CA weights (best_model.pt, config.yaml,
            target_tokenizer.json).
        trust_remote_code: whether Python code in a Hugging Face folder may run.

    Raises:
        ValueError: there is no network at `path`, the file contains pickled code, or a weight is missing, is unknown,
            or has another shape than in the network.

    Example:
        >>> import tempfile
        >>> from lightning_xai.models.hf_classifier import HFClassifier
        >>> config = {"model_type": "bert", "vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1}
        >>> network = HFClassifier(config=config | {"num_attention_heads": 2, "intermediate_size": 4})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     network.transformer.save_pretrained(folder)
        ...     trained = load_trained(folder)
        >>> trained.class_names, trained.decision_threshold
        (['LABEL_0', 'LABEL_1'], 0.5)
        >>> torch.equal(trained.network.embedding_matrix, network.embedding_matrix)
        True
    """
    # if weights were created in a caller's inference mode, no gradients could be computed later
    with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
        if is_released(path):
            trained = TrainedNetwork(*load_released(Path(path)), released_encoder(Path(path)))
        elif checkpoint_path(path) is not None:
            trained = _load_checkpoint(path, trust_remote_code=trust_remote_code)
        else:
            trained = _load_huggingface(path, trust_remote_code=trust_remote_code)
        refuse_gaps(trained.network.weight_gaps, path)
        merge_adapters(trained.network)
    trained.network.eval()
    return trained


def checkpoint_path(path: str) -> Path | None:
    """Returns `path` if it is a file; the best (or else the last) checkpoint if it is a run folder; otherwise None.

    Raises:
        ValueError: `path` names a .ckpt or .pt file that does not exist, or the folder of an experiment.

    Example:
        >>> checkpoint_path("no/such/run") is None
        True
    """
    file = Path(path)
    if file.is_file():
        return file
    if file.suffix in (".ckpt", ".pt"):
        raise ValueError(f"{path}: no such checkpoint")
    best, runs = RunFolder(file).best_checkpoint, [run for run in runs_of(file) if run.config_file.is_file()]
    if best is None and runs and not (file / "config.json").is_file():
        raise ValueError(f"{path} is an experiment: give one of its runs, such as {runs[0].path}")
    return best


def read_checkpoint(path: str) -> dict[str, Any]:
    """Returns the content of a checkpoint file, or of the best (or else the last) checkpoint in a run folder.

    Raises:
        ValueError: there is no checkpoint, or the checkpoint contains pickled code, comes from a newer version of the
            package, or was not written by an objective.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".ckpt") as file:
        ...     torch.save({"format": 2, "network": {}, "state_dict": {}}, file.name)
        ...     sorted(read_checkpoint(file.name))
        ['format', 'network', 'state_dict']
    """
    file = checkpoint_path(path)
    if file is None:
        raise ValueError(f"{path}: neither a checkpoint nor a run folder with checkpoints/best.ckpt or last.ckpt")
    require_whole(file)
    checkpoint = read_tensors(file)
    if "network" not in checkpoint or "state_dict" not in checkpoint:
        raise ValueError(
            f"{file} lacks a description of the network, or the network's weights, so no run of this package wrote it: "
            "give a checkpoint that a run of this package wrote"
        )
    if format_of(checkpoint) > FORMAT:
        raise ValueError(
            f"{file} has format {format_of(checkpoint)}, but this version reads formats up to {FORMAT}: update "
            "the package"
        )
    return checkpoint


def stored_encoder(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Returns the facts that a checkpoint contains about the text encoder, in the format of `runs.encoder_facts`.

    A checkpoint of an older version contains only the vocabulary that the encoder learned, or nothing.

    Example:
        >>> stored_encoder({"TextDataModule": {"encoder": {"words": ["a"]}}})
        {'learned': {'words': ['a']}}
    """
    facts = dict(checkpoint.get("encoder") or {})
    # Lightning stores the state of a data module under the name of its class
    data = checkpoint.get(facts.pop("data_module", "TextDataModule"), {})
    return facts | {"learned": data.get("encoder", {})}


def read_encoder(path: str) -> dict[str, Any]:
    """Returns facts about the text encoder of the trained network at `path`, without building the network.

    Args:
        path: as in `load_trained`. A Hugging Face encoder without a classification head is allowed, too.

    Returns:
        For a checkpoint: the facts that it stores. For a Hugging Face model or released weights: the class and the path
        of a text encoder that uses the model's own tokenizer; the tokenizer's files may be missing. For released
        weights, also the length to which the encoder cuts texts.

    Raises:
        ValueError: the checkpoint cannot be read.

    Example:
        >>> read_encoder("google-bert/bert-base-uncased")["init_args"]
        {'path': 'google-bert/bert-base-uncased'}
    """
    if is_released(path):
        return released_encoder(Path(path))
    return tokenizer_at(path) if checkpoint_path(path) is None else stored_encoder(read_checkpoint(path))


def check_format(checkpoint: dict[str, Any], path: str | Path = "this checkpoint") -> None:
    """Raises ValueError unless a checkpoint has the current format, which is needed to resume a fit or to test a run.

    Example:
        >>> check_format({"format": FORMAT})
        >>> check_format({}, "old.ckpt")
        Traceback (most recent call last):
        ValueError: old.ckpt has format 1, but only checkpoints of format 2 can be resumed or tested: fit ...
    """
    if not is_current(checkpoint):
        raise ValueError(
            f"{path} has format {format_of(checkpoint)}, but only checkpoints of format {FORMAT} can be resumed or "
            "tested: fit the network again, or use evaluate.yaml"
        )


def checkpoint_hash(path: str) -> str:
    """Returns the first 12 hex digits of the SHA-256 hash of the file or files that hold the weights.

    Args:
        path: a checkpoint file, a run folder (its best or else last checkpoint), a folder with weights, or a hub id.

    Raises:
        ValueError: there are no weights.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".ckpt") as file:
        ...     checkpoint_hash(file.name) == hash_of_files([])  # an empty file
        True
    """
    file = checkpoint_path(path)
    return hash_of_files([file] if file else weight_files(path))


def _load_checkpoint(path: str, *, trust_remote_code: bool) -> TrainedNetwork:
    checkpoint = read_checkpoint(path)
    if AML in checkpoint:
        facts = checkpoint[AML]["explained"]
        explained = explained_path(facts, path, checkpoint_hash)
        if PRETRAINED not in facts:
            return load_trained(explained, trust_remote_code=trust_remote_code)
        spec = checkpoint["network"]
        spec = {**spec, "init_args": {**spec["init_args"], "path": explained, "config": None, "pretrained": True}}
        network = build_network(spec, trust_remote_code=trust_remote_code)
        return TrainedNetwork(network, checkpoint.get("class_names"), encoder=stored_encoder(checkpoint))
    state = checkpoint["state_dict"]
    network = build_network(checkpoint["network"], trust_remote_code=trust_remote_code)
    prefix = "network."
    load_weights(network, {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}, path)
    threshold = float(state.get("decision_threshold", 0.5))
    if _missed_its_bounds(Path(path)):
        say(f"{path}: no epoch met the bounds, so there is no best checkpoint, and the last one is used")
    return TrainedNetwork(network, checkpoint.get("class_names"), threshold, stored_encoder(checkpoint))


def _missed_its_bounds(folder: Path) -> bool:
    with suppress(ValueError):  # the checkpoint can be used even if the manifest is damaged or has an old format
        return RunFolder(folder).missed_its_bounds
    return False


def _load_huggingface(path: str, *, trust_remote_code: bool) -> TrainedNetwork:
    config = read_config(path, None, dropout=None, trust_remote_code=trust_remote_code)
    names = config.architectures or []
    has_head = any(name.endswith("ForSequenceClassification") for name in names)
    if not has_head and find_adapter(resolve_model_path(path)) is None:
        raise ValueError(
            f"{path} has no classification head ({names}): fine-tune it first, with run.py fit --config "
            f"supervised.yaml --model.init_args.network.init_args.path {path} --data YOUR_DATA"
        )
    class_names = [str(name) for name in ordered_class_names(dict(config.id2label or {}), path)]
    arguments = {
        "path": path,
        "num_classes": len(class_names),
        "multilabel": config.problem_type == "multi_label_classification",
        "trust_remote_code": trust_remote_code,
    }
    spec = {"class_path": _HF_CLASSIFIER, "init_args": arguments}
    network = build_network(spec, trust_remote_code=trust_remote_code)
    return TrainedNetwork(network, class_names, encoder=tokenizer_at(path))


def ordered_class_names(id2label: Mapping[Any, str], path: str) -> list[str]:
    """Returns the names of the classes 0 to C - 1, given the entry `id2label` of a config.

    Raises:
        ValueError: the ids are not 0 to C - 1, or two classes have the same name.

    Example:
        >>> ordered_class_names({1: "yes", 0: "no"}, "folder")
        ['no', 'yes']
        >>> ordered_class_names({1: "no", 2: "yes"}, "folder")
        Traceback (most recent call last):
        ValueError: folder: id2label has the ids 1, 2: number the classes from 0 to 1 in config.json
    """
    if sorted(id2label) != list(range(len(id2label))):
        ids = ", ".join(str(label) for label in sorted(id2label))
        raise ValueError(
            f"{path}: id2label has the ids {ids}: number the classes from 0 to {len(id2label) - 1} in config.json"
        )
    names = [id2label[label] for label in range(len(id2label))]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"{path}: id2label gives two classes the name {twice!r}: give every class its own name in config.json"
        )
    return names
