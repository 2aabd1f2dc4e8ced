"""Checks the class ids in the config.json of a model folder."""

from __future__ import annotations

import json
import re
from pathlib import Path


def check_class_ids(config_file: Path, path: str) -> None:
    """Raises ValueError if a config.json has an `id2label` that does not map whole numbers to names.

    A missing or damaged file raises no error here, since transformers will report it. Error messages begin with `path`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (file := Path(folder, "config.json")).write_text('{"id2label": {"no": 0}}')
        ...     check_class_ids(file, "folder")
        Traceback (most recent call last):
        ValueError: folder: id2label in config.json is {'no': 0}: write it as {"0": "name", "1": "other name"}
    """
    try:
        id2label = json.loads(config_file.read_text(encoding="utf-8"))["id2label"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    names = id2label if isinstance(id2label, dict) else {"": ""}
    if id2label is None or all(re.fullmatch(r"\d+", key) and isinstance(names[key], str | int) for key in names):
        return
    shown = str(id2label) if len(str(id2label)) <= 60 else f"{str(id2label)[:57]}..."
    raise ValueError(f'{path}: id2label in config.json is {shown}: write it as {{"0": "name", "1": "other name"}}')
