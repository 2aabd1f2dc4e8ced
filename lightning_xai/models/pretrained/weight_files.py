"""Finds the files of a model's weights, in a folder or in the cache of the Hugging Face hub."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
    cached_file,
)

from lightning_xai.functional.model_files.file_digest import sha256_of
from lightning_xai.functional.model_files.model_folders import is_gguf, located, resolve_model_path


def weight_files(path: str) -> list[Path]:
    """Returns the files with a model's weights, in alphabetical order.

    Args:
        path: folder, hub id, "package:NAME/FOLDER", or GGUF file, which is then the only result. A folder's files are
            best_model.pt if it exists, otherwise all safetensors files, or all .bin files if there are none. For a hub
            id, the files are chosen in the order of transformers: safetensors before .bin, and a single file before
            shards.

    Raises:
        ValueError: there are no weights, or the index of the shards refers to files outside its own folder.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "config.json"):
        ...         _ = (Path(folder) / name).write_text("")
        ...     [file.name for file in weight_files(folder)]
        ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    """
    if is_gguf(path):
        return [Path(located(path))]
    folder = Path(resolve_model_path(path))
    for pattern in ("best_model.pt", "*.safetensors", "*.bin"):
        files = sorted(folder.glob(pattern))
        if files:
            return files
    if not folder.is_dir():
        for name in (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_NAME, WEIGHTS_INDEX_NAME):
            file = _on_hub(path, name)
            if file is not None:
                return _shards(path, file) if name.endswith(".index.json") else [file]
    raise ValueError(f"{path}: neither a folder with .safetensors or .bin weights nor an id on the Hugging Face hub")


def hash_of_files(files: Iterable[Path]) -> str:
    """Concatenates the contents of files, and returns the first 12 hex digits of their SHA-256 hash.

    Example:
        >>> hash_of_files([])
        'e3b0c44298fc'
    """
    return sha256_of(*files)[:12]


def _on_hub(path: str, name: str) -> Path | None:
    try:
        file = cached_file(path, name)
    except OSError:  # for example, the id is unknown, or there is no connection
        return None
    return None if file is None else Path(file)


def _shards(path: str, index: Path) -> list[Path]:
    names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    if any(Path(name).name != name for name in names):
        raise ValueError(f"{path}: {index.name} names files outside the model's folder")
    files = [_on_hub(path, name) for name in names]
    for name, file in zip(names, files, strict=True):
        if file is None:
            raise ValueError(f"{path}: the shard {name} is missing, but {index.name} names it: copy the shard again")
    return [file for file in files if file is not None]
