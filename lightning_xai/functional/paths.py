"""Where models live: a folder, a Hugging Face hub id, or a folder inside an installed package."""

import importlib.util
from pathlib import Path


def resolve_model_path(path: str) -> str:
    """Returns what transformers can load: `path` itself, or the folder that "package:NAME/FOLDER" stands for.

    The package is located, not imported.

    Raises:
        ValueError: the package or its folder is not installed.
    """
    if not path.startswith("package:"):
        return path
    name, _, folder = path.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"{path}: package {name!r} is not installed; run: pip install {name.replace('_', '-')}")
    found = Path(list(spec.submodule_search_locations)[0]) / folder
    if not found.is_dir():
        raise ValueError(f"{path}: package {name!r} has no folder {folder!r}")
    return str(found)
