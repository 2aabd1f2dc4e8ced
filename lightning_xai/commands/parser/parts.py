"""Finds files of a configuration's parts (data, networks, methods, ...), among the user's and the shipped files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import get_loader, set_loader

from lightning_xai.commands.parser.choices import listed_choices
from lightning_xai.commands.parser.old_objectives import with_terms
from lightning_xai.commands.parser.python_null import with_null
from lightning_xai.commands.parser.repeated_keys import check_repeated_keys

_PACKAGE = Path(__file__).parents[2]
# configs/ is inside the package in a wheel, and beside the package in a git checkout
SHIPPED = next(folder for folder in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if folder.is_dir())

# last word of an option, such as "network" for --model.network -> subfolders of configs/ with files for this option
FOLDERS: dict[str, tuple[str, ...]] = {
    "data": ("data",),
    "network": ("network",),
    "callbacks": ("methods", "presets", "callbacks", "chains"),
}
# key of FOLDERS -> the option that takes a file from these folders
OPTIONS = {"data": "--data", "network": "--model.init_args.network", "callbacks": "--trainer.callbacks+"}
_ALL_FOLDERS = tuple(folder for folders in FOLDERS.values() for folder in folders)
PARSER_MODE = "omegaconf+"  # resolves interpolations, including relative ones, after command-line options are applied


def find_part(name: str, kind: str) -> str:
    """Searches ./configs and the shipped configurations for the file of a part (data, network, ...). Returns its path.

    Args:
        name: file name, with or without its folder in configs/, such as "vader.yaml" or "data/vader.yaml".
        kind: a key of FOLDERS. Only files of this kind are found.

    Raises:
        ValueError: there is no such file. The message names the right option if a shipped file of another kind has this
            name; otherwise, it lists the shipped files of this kind.

    Example:
        >>> Path(find_part("vader.yaml", "data")).parts[-2:]
        ('data', 'vader.yaml')
        >>> Path(find_part("er.yaml", "callbacks")).parts[-2:]
        ('presets', 'er.yaml')
    """
    folders = FOLDERS[kind]
    for base in (Path("configs"), SHIPPED):
        for path in [base / name, *(base / folder / name for folder in folders)]:
            if path.is_file() and path.relative_to(base).parts[0] in folders and ".." not in path.parts:
                return str(path)
    if (right := right_option(name)) is not None and not right.startswith(OPTIONS[kind]):
        raise ValueError(f"{name} is no file for {kind}: give it as {right}")
    known = [
        path.relative_to(SHIPPED / folder).as_posix() if len(folders) == 1 else path.relative_to(SHIPPED).as_posix()
        for folder in folders
        for path in sorted((SHIPPED / folder).rglob("*.yaml"))
    ]
    own = get_close_matches(name, [path.name for path in Path().glob("*.y*ml")], n=1)
    places = " or ".join(f"configs/{folder}" for folder in folders)
    listed = listed_choices([*own, *known], name)
    raise ValueError(f"there is no file {name!r} for {kind}, here or in {places}: choose one of {listed}")


def right_option(name: str) -> str | None:
    """Returns the right option for a shipped file, followed by the file's name; None if there is no such file.

    Error messages suggest this option if a user gave the file by a wrong option.

    Args:
        name: file name, with or without its folder in configs/ and its ending.

    Example:
        >>> right_option("vader"), right_option("presets/er.yaml"), right_option("tm.yaml")
        ('--data vader.yaml', '--trainer.callbacks+ presets/er.yaml', '--config tm.yaml')
    """
    file = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if ".." in file.parts or file.is_absolute():
        return None
    if (SHIPPED / file).is_file() and len(file.parts) == 1:
        return f"--config {file.as_posix()}"
    for kind, folders in FOLDERS.items():
        for folder in folders:
            if (SHIPPED / folder / file).is_file() or (file.parts[0] == folder and (SHIPPED / file).is_file()):
                inner = file if file.parts[0] == folder or len(folders) == 1 else folder / file
                return f"{OPTIONS[kind]} {inner.as_posix()}"
    return None


def with_part_paths(argv: Sequence[str]) -> list[str]:
    """Returns a command line in which each part's file name, such as vader.yaml, is replaced by the file's path.

    Example:
        >>> argv = with_part_paths(["test", "--data", "vader.yaml", "--trainer.callbacks+=er.yaml"])
        >>> [Path(argument).name for argument in argv]
        ['test', '--data', 'vader.yaml', 'er.yaml']
    """
    arguments: list[str] = []
    for argument in argv:
        option, joined, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        name = option or (arguments[-1] if arguments else "")
        kind = name.removeprefix("--").rstrip("+").rpartition(".")[2] if name.startswith("--") else ""
        if kind in FOLDERS and value.endswith((".yaml", ".yml")) and not Path(value).is_file():
            value = find_part(value, kind)
        arguments.append(f"{option}{joined}{value}")
    return arguments


def find_shipped_parts() -> None:
    """Allows configurations to name shipped parts, such as "data/vader.yaml".

    A shipped file is used only if the configuration's own folder has no such file. (While the parser reads a
    configuration, this folder is the working directory.) The parser then also replaces old objectives (see
    `with_terms`), refuses a configuration that repeats a key, and reads None as null in options (see `with_null`).
    """
    load = get_loader("yaml")

    def load_checked(text: str) -> Any:
        value = load(with_null(text))
        if isinstance(value, dict | list):
            check_repeated_keys(text)
        return _with_shipped(value)

    set_loader(PARSER_MODE, load_checked, (yaml.YAMLError,))


def _with_shipped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_shipped(item) for key, item in with_terms(value).items()}
    if isinstance(value, list):
        return [_with_shipped(item) for item in value]
    if not isinstance(value, str) or not value.endswith((".yaml", ".yml")) or os.path.isfile(value):
        return value
    shipped = SHIPPED / value
    in_part_folder = Path(value).parts[0] in _ALL_FOLDERS and ".." not in Path(value).parts
    return str(shipped) if in_part_folder and shipped.is_file() else value
