"""Checks, before parsing, the syntax of a command's YAML files, and that --config gives the configurations of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse._loaders_dumpers import get_yaml_default_loader

from lightning_xai.commands.parser.choices import shortened
from lightning_xai.commands.parser.parts import OPTIONS, SHIPPED, right_option
from lightning_xai.runs.files.compressed_files import kind_of
from lightning_xai.runs.files.text_files import read_text

ENDINGS = (".yaml", ".yml")
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")  # endings of files with rows
OF_RUNS = ("model", "data", "trainer", "checkpoint")  # entries that only the configuration of a run has
PARTS = ("data", "model.network", "trainer.callbacks")  # settings whose value may be the name of a YAML file
DEEPEST = 50  # largest allowed depth of nested mappings and lists


def check_files(argv: Sequence[str]) -> None:
    """Raises ValueError if a YAML file is not valid, or if it is given to the wrong option or setting.

    --config takes the configuration of a run. Settings such as `data` (see PARTS) take a file for one part of a run.
    All files in `argv` are checked, and also the files whose paths occur in a checked file.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "tm.yaml")
        >>> _ = file.write_text("model: [1,")
        >>> check_files(["fit", "--config", str(file)])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: .../tm.yaml, line 2: did not find expected node content; correct the YAML there
    """
    checked: set[tuple[Path, bool]] = set()  # (file, whether it is the value of a setting in PARTS)
    for before, argument in zip(["", *argv[:-1]], argv, strict=True):
        value = argument.rpartition("=")[2]
        option = argument.partition("=")[0] if "=" in argument else before
        named = option in ("-c", "--config")
        if option == "--data" and kind_of(value) in TABLES and Path(value).is_file():
            raise ValueError(
                f"--data is {value}, but takes a YAML file: copy configs/data/files.yaml, name {Path(value).name} "
                "under data_files, and give the copy by --data"
            )
        if (named or value.endswith(ENDINGS)) and Path(value).is_file():
            key = "" if named or not option.startswith("--") else option.removeprefix("--").rstrip("+")
            _check(Path(value), (dict,) if named else (dict, list), checked, key)


def describes_run(content: Any) -> bool:
    """Returns whether the content of a file is the configuration of a run, and not that of a class or of a search.

    Example:
        >>> describes_run({"trainer": {"callbacks": []}}), describes_run({"class_path": "TextDataModule"})
        (True, False)
    """
    return isinstance(content, dict) and "class_path" not in content and not content.keys().isdisjoint(OF_RUNS)


def _check(file: Path, kinds: tuple[type, ...], checked: set[tuple[Path, bool]], key: str) -> None:
    """Checks a file, and the files that it names. `key` is the setting whose value is the file."""
    is_part = key.replace(".init_args.", ".") in PARTS
    if (file.resolve(), is_part) in checked:
        return
    checked.add((file.resolve(), is_part))
    content = _read(file)
    if not isinstance(content, kinds):
        raise ValueError(f"{file} contains {shortened(content, 30)!r}, not settings: write `name: value` in each line")
    if kinds == (dict,) and isinstance(content, dict) and "class_path" in content:  # --config takes a whole run
        part = f"{file} has a class_path, so it describes one part of a run, not a run"
        raise ValueError(f"{part}: give it by {_option_for(file)}")
    if is_part and describes_run(content):
        raise ValueError(f"{key} is {file}, which is the configuration of a run: give this file by --config")
    for name, text in _texts(content, file, key):
        if text.endswith(ENDINGS) and (file.parent / text).is_file():
            _check(file.parent / text, (dict, list), checked, name)


def _option_for(file: Path) -> str:
    """Returns the option that takes `file`, which describes one part of a run.

    The kind of part is known only for files that the package ships. For any other file, lists the options of all parts.
    """
    shipped = file.resolve().is_relative_to(SHIPPED.resolve())
    right = right_option(file.resolve().relative_to(SHIPPED.resolve()).as_posix()) if shipped else None
    return right or f"the option for its class: {', '.join(OPTIONS.values())}"


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


def _texts(value: Any, file: Path, key: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yields all strings in nested dictionaries and lists, each after its dotted key, which begins with `key`."""
    if depth > DEEPEST:
        raise ValueError(
            f"{file} has more than {DEEPEST} nested levels: perhaps an alias (*name) is inside its own anchor (&name)"
        )
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else ((key, item) for item in value)
        for name, item in items:
            inner = f"{key}.{name}" if key and isinstance(value, dict) else str(name)
            yield from _texts(item, file, inner, depth + 1)
    elif isinstance(value, str):
        yield key, value
