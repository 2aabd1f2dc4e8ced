"""Converts GGUF files (quantized language models) to folders that transformers can load."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lightning_xai.functional.model_files.cache_folder import cache_folder
from lightning_xai.functional.model_files.file_digest import sha256_of

_NEEDED = ("gguf", "accelerate")


def converted_folder(file: str | Path) -> Path:
    """Returns a folder with the config, the weights (in float32) and the tokenizer from a GGUF file.

    The file is converted only once. The folder is in the cache (`LIGHTNING_XAI_CACHE`, or ~/.cache/lightning_xai), and
    its name contains a hash of the file.

    Raises:
        ValueError: there is no such file, a package is missing, transformers cannot read the file, or the tokenizer has
            more ids than the embedding table has rows.

    Example:
        >>> converted_folder("no/such/file.gguf")
        Traceback (most recent call last):
        ValueError: no/such/file.gguf: no such GGUF file
    """
    file = Path(file)
    if not file.is_file():
        raise ValueError(f"{file}: no such GGUF file")
    cache = cache_folder(None) / "gguf"
    status = file.stat()
    folder = cache / f"{file.stem}-{_hash(str(file), status.st_size, status.st_mtime_ns)}"
    if not folder.is_dir():
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise ValueError(
                f"{file.name}: converting a GGUF file needs {' and '.join(missing)}: run pip install "
                "'lightning_xai[decoder]'"
            )
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=folder.name, dir=cache))
        try:
            _convert(file, made)
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # if the folder exists, another process made it first
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder


@lru_cache
def _hash(file: str, size: int, changed: int) -> str:
    """Returns the first 12 hex digits of a file's SHA-256 hash.

    The result is cached until the file's size or modification time changes.
    """
    return sha256_of(Path(file))[:12]


def _convert(file: Path, folder: Path) -> None:
    """Writes the model of a GGUF file into a folder, in float32.

    If the output layer is tied to the embedding table, it stays tied.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        network: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # transformers and gguf raise errors of many types for files that they cannot read
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{file}: the GGUF file cannot be read ({reason}): download it again") from error
    rows = network.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise ValueError(
            f"{file}: the tokenizer has {len(tokenizer)} ids, but the embedding table has only {rows} rows: choose "
            "another GGUF file"
        )
    network.hf_quantizer = None  # otherwise, transformers would not save the weights, which are no longer quantized
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(network.config, name):
            delattr(network.config, name)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
