"""Reads the settings in a configuration file, and in the files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from lightning_xai.commands.parser.repeated_keys import check_repeated_keys


def content_of(file: Path) -> Any:
    """Returns the settings in a YAML file, without resolving interpolations.

    Raises:
        ValueError: the file sets a key twice.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "tm.yaml")
        >>> _ = file.write_text("data: data/vader.yaml")
        >>> content_of(file)
        {'data': 'data/vader.yaml'}
    """
    try:
        check_repeated_keys(file.read_text(encoding="utf-8"))  # OmegaConf's error for such a key is no ValueError
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return OmegaConf.to_container(OmegaConf.load(file), resolve=False)


def followed(value: Any, folder: Path) -> tuple[Any, Path]:
    """Returns the content and the folder of the file at the path `value` if this ends in .yaml or .yml.

    Otherwise, or if there is no such file, returns `value` and `folder`.

    Example:
        >>> followed("no_such_file.yaml", Path("configs"))[0]
        'no_such_file.yaml'
    """
    if isinstance(value, str) and value.endswith((".yaml", ".yml")) and (folder / value).is_file():
        file = folder / value
        return followed(OmegaConf.to_container(OmegaConf.load(file), resolve=False), file.parent)
    return value, folder
