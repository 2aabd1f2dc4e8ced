"""Reads config.yaml in a folder of released PLM-CA weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lightning_xai.functional.model_files.downloads import RELEASED

WEIGHTS, SETTINGS, CLASSES = "best_model.pt", "config.yaml", "target_tokenizer.json"
ARCHIVE = f"the released archive, {RELEASED}"
# names of settings in config.yaml that change the forward pass -> the only values that this package supports
_FORWARD_PASS = {"scale": 1, "mask_input": False, "cross_attention": True}
_SEGMENT_LENGTH = 128  # number of tokens in a segment if config.yaml has no model.configs.chunk_size
_MAX_LENGTH = 6000  # number of tokens after which documents are cut off if config.yaml has no data.max_length


class ReleasedSettings(NamedTuple):
    """Settings of released weights: path of the encoder's folder, tokens in a segment, most tokens in a document."""

    model_path: str
    segment_length: int
    max_length: int


def released_settings(folder: Path) -> ReleasedSettings:
    """Returns the settings in config.yaml of a folder of released weights.

    Raises:
        ValueError: config.yaml is missing or damaged, does not name an encoder, has a length that is not a positive
            whole number, or changes the forward pass in a way that this package does not support.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / SETTINGS).write_text("model: {configs: {model_path: roberta, scale: 2}}")
        >>> released_settings(folder)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: .../config.yaml: scale is 2, but this package computes PLM-CA with scale 1 only: ...
    """
    file = folder / SETTINGS
    if not file.is_file():
        raise ValueError(f"{folder} has no {SETTINGS}: copy it from {ARCHIVE}, next to {WEIGHTS}")
    try:
        settings = OmegaConf.load(file)
    except (yaml.YAMLError, UnicodeError, OSError, OmegaConfBaseException) as error:
        raise ValueError(f"{file} is not a YAML file of settings: copy it again from {ARCHIVE}") from error
    model_path = _value(settings, "model.configs.model_path", file)
    if not isinstance(model_path, str) or not model_path:
        raise ValueError(f"{file} has no model.configs.model_path, the encoder's folder: use the released file")
    for name, needed in _FORWARD_PASS.items():
        given = _value(settings, f"model.configs.{name}", file)
        if given is not None and given != needed:
            raise ValueError(
                f"{file}: {name} is {_yaml(given)}, but this package computes PLM-CA with {name} {_yaml(needed)} only: "
                "evaluate such weights with the authors' code"
            )
    return ReleasedSettings(
        model_path,
        _length(settings, "model.configs.chunk_size", _SEGMENT_LENGTH, file),
        _length(settings, "data.max_length", _MAX_LENGTH, file),
    )


def _value(settings: Any, name: str, file: Path) -> Any:
    """Returns the value of a setting; None if it is missing. Other settings of the file may refer to unknown values."""
    if not isinstance(settings, DictConfig):
        return None
    try:
        return OmegaConf.select(settings, name)
    except OmegaConfBaseException as error:
        raise ValueError(f"{file}: {name} cannot be read: write its value into the file") from error


def _length(settings: Any, name: str, default: int, file: Path) -> int:
    value = _value(settings, name, file)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{file}: {name} is not a positive whole number: copy the file again from {ARCHIVE}")
    return value


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
