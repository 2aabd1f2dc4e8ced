"""Fills in an encoder's missing path: the tokenizer with which a network in the configuration was trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from lightning_xai.commands.trained.explainer import facts_or_configuration
from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.tokenizers.own_tokenizer import has_tokenizer
from lightning_xai.functional.model_files.model_folders import is_hub_id
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import checkpoint_path, read_encoder
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.runs.encoder_facts import short_facts, tokenizer_at
from lightning_xai.runs.folder import RunFolder


def fill_encoder_path(config: Namespace) -> None:
    """Takes a missing `path` and `max_length` of the data's TokenizerEncoder from a network in the configuration.

    The networks are tried in this order: the network of an Evaluation, a classifier with a path, a teacher or other
    trained network. The `path` is taken from the first network that has a tokenizer, and `max_length` from the first
    network that records the `max_length` of its training.

    Args:
        config: configuration of a subcommand, changed in place.

    Raises:
        ValueError: the path is missing, and no network in `config` has a tokenizer, or a network that is tried before
            the first one with a tokenizer was trained with an encoder without a path. Or `max_length` is missing, and
            no network records with which length it was trained.

    Example:
        >>> from lightning_xai.models.hf_classifier import HFClassifier  # only imported classes are recognized
        >>> no_path = Namespace(path=None)
        >>> encoder = Namespace(class_path="lightning_xai.data.encoding.TokenizerEncoder", init_args=no_path)
        >>> path = Namespace(path="google-bert/bert-base-uncased")
        >>> network = Namespace(class_path="lightning_xai.models.hf_classifier.HFClassifier", init_args=path)
        >>> fill_encoder_path(Namespace(model=Namespace(network=network), data=Namespace(encoder=encoder)))
        >>> encoder.init_args.path
        'google-bert/bert-base-uncased'
    """
    for key, encoder in _specs(config.get("data"), "data", TokenizerEncoder):
        if encoder["init_args"].get("path") is None:
            encoder["init_args"]["path"] = _network_tokenizer(config.get("model"), f"{key}.init_args.path")
        if encoder["init_args"].get("max_length", 0) is None:
            encoder["init_args"]["max_length"] = _network_length(config.get("model"), f"{key}.init_args.max_length")


def check_network_tokenizer(config: Namespace, model: Any, data: Any) -> None:
    """Checks that the data are encoded with the tokenizer of every pretrained network in the configuration.

    If `model` is an Evaluation whose network has a learned vocabulary, the data module adopts this vocabulary.

    Raises:
        ValueError: the data are encoded with another tokenizer.

    Example:
        >>> check_network_tokenizer(Namespace(model=Namespace(init_args=Namespace())), model=None, data=None)
    """
    if isinstance(data, TextDataModule):
        if isinstance(model, Evaluation):
            data.take_encoder(model.encoder, model.path)
        for _, network in _specs(config.get("model"), "model", Classifier):
            arguments = network["init_args"]
            path = arguments.get("path")
            if path is not None and arguments.get("pretrained", True):  # random weights work with any tokenizer
                data.take_encoder(tokenizer_at(path), path)


def write_encoder(run: RunFolder, data: Any) -> None:
    """Writes facts about the data's encoder, and the class names, to the manifest of a run.

    Example:
        >>> write_encoder(RunFolder(Path("no/such/run")), data=None)  # does nothing without a TextDataModule
    """
    if isinstance(data, TextDataModule):
        run.write_manifest(encoder=short_facts(data.encoder_facts()), class_names=list(data.class_names))


def _network_tokenizer(model: Any, key: str) -> str:
    """Returns the path of the tokenizer of the first network in the configuration `model` that has one."""
    for path in _network_paths(model):
        spec = _encoder_spec(path)
        network_path = (spec.get("init_args") or {}).get("path")
        if network_path is None:
            kind = spec["class_path"].rpartition(".")[2]
            raise ValueError(
                f"{key} is missing, and {path} was trained with {kind}, which has no path: set the class_path of the "
                f"encoder to {spec['class_path']}"
            )
        if network_path != path or is_hub_id(path) or has_tokenizer(path):
            return network_path
    other = ", or give --data.init_args.encoder VocabularyEncoder for a network that has none"
    needs_no_tokenizer = key == "data.init_args.encoder.init_args.path" and next(_network_paths(model), None) is None
    raise ValueError(
        f"{key} is missing, and no network in this configuration has a tokenizer: set this path to a folder, a hub id "
        f"or package:NAME/FOLDER{other if needs_no_tokenizer else ''}"
    )


def _network_length(model: Any, key: str) -> int:
    """Returns the `max_length` used to train the first network in the configuration `model` that records it."""
    for path in _network_paths(model):
        length = (_encoder_spec(path).get("init_args") or {}).get("max_length")
        if length is not None:
            return int(length)
    raise ValueError(
        f"{key} is missing, and no network in this configuration records the max_length of its training: set this "
        "max_length to a number of tokens"
    )


def _network_paths(model: Any) -> Iterator[str]:
    for base in (Evaluation, Classifier):
        paths = (spec["init_args"].get("path") for _, spec in _specs(model, "model", base))
        yield from (path for path in paths if path is not None)
    for option in ("teacher", "explained"):
        trained = model["init_args"].get(option) if model and model.get("init_args") else None
        if isinstance(trained, str) and not trained.endswith(".yaml"):
            yield trained


def _encoder_spec(path: str) -> dict[str, Any]:
    """Returns the `class_path` and `init_args` of the encoder with which the network at `path` was trained."""
    checkpoint = checkpoint_path(path)
    run = RunFolder.of_checkpoint(checkpoint) if checkpoint else RunFolder(Path(path))
    return facts_or_configuration(read_encoder(path), path, run.config_file)


def _specs(config: Any, key: str, base: type) -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, entry) for each entry of a configuration whose `class_path` names `base` or a subclass."""
    if isinstance(config, Namespace | dict):
        if config.get("class_path") in _class_paths(base) and config.get("init_args") is not None:
            yield key, config
        parts = list((vars(config) if isinstance(config, Namespace) else config).items())
    else:
        parts = list(enumerate(config)) if isinstance(config, list) else []
    for name, part in parts:
        yield from _specs(part, f"{key}.{name}", base)


def _class_paths(base: type) -> set[str]:
    names = {f"{base.__module__}.{base.__qualname__}"}
    subclasses: list[type] = base.__subclasses__()
    return names.union(*map(_class_paths, subclasses))
