"""Finds adapters that the package peft wrote to a network's folder, and merges them into the network's weights."""

from __future__ import annotations

import importlib
import importlib.util
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor
from transformers import PreTrainedModel
from transformers.utils.peft_utils import find_adapter_config_file

from lightning_xai.models.pretrained.refusals import first_line_of

_HOW_TO_MERGE = (
    "merge the adapter and its base: PeftModel.from_pretrained(base, folder).merge_and_unload().save_pretrained(merged)"
)
_PREFIX = "base_model.model."


class Adapter(NamedTuple):
    """The paths of an adapter and of the network that it adapts (its base).

    Example:
        >>> Adapter("runs/lora", "bert-base-uncased", beside_base=False).base
        'bert-base-uncased'
    """

    path: str
    base: str  # folder or hub id of the adapted network
    beside_base: bool  # whether the base is in the adapter's folder


def find_adapter(path: str) -> Adapter | None:
    """Returns the adapter in a folder or a hub model, or None if there is no adapter.

    Raises:
        ValueError: there is an adapter, but it does not name its base, or peft is not installed.

    Example:
        >>> find_adapter("no/such/folder") is None
        True
    """
    try:
        file = find_adapter_config_file(path)
    except OSError:  # `path` is not a folder and cannot be a hub id
        return None
    if file is None:
        return None
    if importlib.util.find_spec("peft") is None:
        raise ValueError(f"{path} holds an adapter ({Path(file).name}): install peft, or {_HOW_TO_MERGE}")
    beside_base = (Path(path) / "config.json").is_file()
    base = path if beside_base else json.loads(Path(file).read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not base:
        raise ValueError(f"{path}: the adapter does not name its base (base_model_name_or_path): {_HOW_TO_MERGE}")
    return Adapter(path, str(base), beside_base)


@contextmanager
def base_folder(adapter: Adapter) -> Iterator[str]:
    """Yields a path from which transformers loads an adapter's base without the adapter.

    From a folder with both adapter and base, transformers would load both. In this case, the path is a temporary folder
    with links to the base's files only.

    Example:
        >>> with base_folder(Adapter("runs/lora", "bert-base-uncased", beside_base=False)) as path:
        ...     path
        'bert-base-uncased'
    """
    if not adapter.beside_base:
        yield adapter.base
        return
    with tempfile.TemporaryDirectory() as view:
        for file in Path(adapter.path).resolve().iterdir():
            if not file.name.startswith("adapter_"):
                (Path(view) / file.name).symlink_to(file)
        yield view


def adapter_weights(adapter: Adapter) -> dict[str, Tensor]:
    """Returns an adapter's weights under the names that they have in the adapted network. Needs peft.

    Raises:
        ValueError: the weights are missing or cannot be read.
    """
    peft: Any = importlib.import_module("peft")
    try:
        weights = peft.load_peft_weights(adapter.path, device="cpu")
    # every exception is caught, because peft reads several file formats, and raises errors of many types
    except Exception as error:
        raise ValueError(f"{adapter.path}: the adapter's weights cannot be read ({first_line_of(error)})") from error
    return {name.removeprefix(_PREFIX): weight for name, weight in weights.items()}


def trained_head_size(weights: dict[str, Tensor]) -> int | None:
    """Returns the number of classes of the head that an adapter's weights contain, or None if they contain no head.

    Example:
        >>> import torch
        >>> trained_head_size({"classifier.weight": torch.zeros(3, 8)})
        3
    """
    heads = ("classifier.weight", "score.weight", "out_proj.weight")  # the last layer of a head
    return next((len(weight) for name, weight in weights.items() if name.endswith(heads)), None)


def merge_adapter(network: PreTrainedModel, adapter: Adapter) -> PreTrainedModel:
    """Returns the base network with the adapter merged into its weights. Needs peft.

    Raises:
        ValueError: the adapter does not fit the base, or peft cannot merge adapters of this kind.
    """
    peft: Any = importlib.import_module("peft")
    given = adapter_weights(adapter)
    try:
        adapted = peft.PeftModel.from_pretrained(network, adapter.path)
        used = {name.removeprefix(_PREFIX) for name in peft.get_peft_model_state_dict(adapted)}
        merged = adapted.merge_and_unload()
    # peft raises errors of many types; each means that the merged network would differ from the trained network
    except Exception as error:
        raise ValueError(f"{adapter.path}: the adapter does not fit {adapter.base} ({first_line_of(error)})") from error
    if used != set(given):
        name = min(used ^ set(given))
        raise ValueError(f"{adapter.path}: the adapter does not fit {adapter.base}: only one of the two has {name}")
    return merged
