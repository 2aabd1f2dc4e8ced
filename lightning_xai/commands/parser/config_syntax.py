"""Checks, before parsing, that the configuration files of a command are valid YAML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse._loaders_dumpers import get_yaml_default_loader

from lightning_xai.commands.parser.choices import shortened
from lightning_xai.runs.files.text_files import read_text

ENDINGS = (".yaml", ".yml")
DEEPEST = 50  # largest allowed depth of nested mappings and lists


def check_files(argv: Sequence[str]) -> None:
    """Raises ValueError if a YAML file is not valid. Checks files that `argv` names, and files that these files name.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "tm.yaml")
        >>> _ = file.write_text("model: [1,")
        >>> check_files(["fit", "--config", str(file)])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: .../tm.yaml, line 2: did not find expected node content; correct the YAML there
    """
    checked: set[Path] = set()
    for option, argument in zip(["", *argv[:-1]], argv, strict=True):
        value = argument.rpartition("=")[2]
        named = option in ("-c", "--config") or argument.startswith("--config=")
        if (named or value.endswith(ENDINGS)) and Path(value).is_file():
            _check(Path(value), (dict,) if named else (dict, list), checked)


def _check(file: Path, kinds: tuple[type, ...], checked: set[Path]) -> None:
    if file.resolve() in checked:
        return
    checked.add(file.resolve())
    content = _read(file)
    if not isinstance(content, kinds):
        raise ValueError(f"{file} contains {shortened(content, 30)!r}, not settings: write `name: value` in each line")
    for text in _texts(content, file):
        if text.endswith(ENDINGS) and (file.parent / text).is_file():
            _check(file.parent / text, (dict, list), checked)


def _read(file: Path) -> Any:
    try:
        content = yaml.load(read_text(file, has_option=False), get_yaml_default_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{file}, line {mark.line + 1}" if mark else str(file)
        raise ValueError(f"{place}: {shortened(error.problem or error, 100)}; correct the YAML there") from error
    except yaml.YAMLError as error:
        raise ValueError(f"{file}: {shortened(error, 100)}; correct the YAML") from error
    if content is None:
        raise ValueError(f"{file} is empty: write settings into this file, or do not use it")
    return content


def _texts(value: Any, file: Path, depth: int = 0) -> Iterator[str]:
    """Yields all strings among the values of nested dictionaries and lists."""
    if depth > DEEPEST:
        raise ValueError(
            f"{file} has more than {DEEPEST} nested levels: perhaps an alias (*name) is inside its own anchor (&name)"
        )
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item, file, depth + 1)
    elif isinstance(value, str):
        yield value
