"""Finds models: in a folder, on the Hugging Face hub, or in a folder inside an installed package."""

import importlib.util
from pathlib import Path


def resolve_model_path(path: str) -> str:
    """Returns a path or hub id that transformers can load.

    Args:
        path: a folder, a hub id, or "package:NAME/FOLDER" for a folder inside an installed package. Folders and hub
            ids are returned unchanged. The package is located, not imported.

    Raises:
        ValueError: the package is not installed, or it has no such folder.

    Example:
        >>> resolve_model_path("bert-base-uncased")
        'bert-base-uncased'
        >>> Path(resolve_model_path("package:lightning_xai/runs")).name
        'runs'
    """
    if not path.startswith("package:"):
        return path
    name, _, inner = path.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{path}: package {name!r} is not installed; run: pip install {name.replace('_', '-')}")
    folder = Path(list(spec.submodule_search_locations)[0]) / inner
    if not folder.is_dir():
        raise ValueError(f"{path}: package {name!r} has no folder {inner!r}")
    return str(folder)
