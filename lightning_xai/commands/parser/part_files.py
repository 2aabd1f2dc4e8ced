"""Replaces a part of a run, such as its data, if a later file or option gives another file for this part.

The parser merges the arguments of two values of the same class. After --data other.yaml, arguments that other.yaml
leaves out would keep the values of the earlier data.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse._parameter_resolvers import get_signature_parameters

from lightning_xai.commands.parser.class_help import class_named
from lightning_xai.commands.parser.config_files import with_config_paths
from lightning_xai.commands.parser.data_links import LINKED
from lightning_xai.commands.parser.file_contents import content_of, followed
from lightning_xai.commands.parser.parts import SHIPPED
from lightning_xai.commands.parser.term_files import with_merged_terms
from lightning_xai.runs.class_paths import imported_class

REPLACED = ("data", "model.init_args.network")  # settings whose value may be a file that describes a whole part
KEPT = {"seed", "cache_dir", *LINKED}  # the command sets the others; a cache may have to stay in its folder
Spec = dict[str, Any]  # a class: {"class_path": ..., "init_args": {...}}


def with_merged_files(argv: Sequence[str]) -> list[str]:
    """Returns a command line in which --config names paths, and later files count together with earlier ones.

    Terms of several files are merged (see `with_merged_terms`), and parts are replaced (see `with_replaced_parts`).

    Raises:
        ValueError: as in `with_config_paths` and `with_merged_terms`.

    Example:
        >>> [Path(argument).name for argument in with_merged_files(["fit", "--config=roar.yaml"])]
        ['fit', '--config', 'roar.yaml']
    """
    return with_replaced_parts(with_merged_terms(with_config_paths(argv)))


def with_replaced_parts(argv: Sequence[str]) -> list[str]:
    """Adds options to a command line that make a file for a part replace the part of earlier --config files.

    These options follow the option that names the new file. They set each argument that an earlier file sets, and that
    the new file leaves out, to its default. They also do so for classes inside the part, such as the source of the
    data. Arguments that earlier options set are kept.

    Example:
        >>> argv = with_replaced_parts(["fit", "--config", "configs/fresh.yaml", "--data", "configs/data/sst.yaml"])
        >>> argv[5:]  # fresh.yaml has a VocabularyEncoder with explain_pair=False
        ['--data.init_args.encoder.init_args.explain_pair=true']
    """
    arguments: list[str] = []
    known: dict[str, Any] = {}  # setting -> what the files so far say about it
    for place, argument in enumerate(argv):
        arguments.append(argument)
        option, joined, value = argument.partition("=")
        if not joined:
            option, value = (argv[place - 1], argument) if place else ("", "")
        if not value.endswith((".yaml", ".yml")) and option not in ("-c", "--config") or not Path(value).is_file():
            continue
        if option in ("-c", "--config"):
            content = content_of(Path(value))
            given = {key: _part(content, key, Path(value).parent) for key in REPLACED}
        else:
            given = {key: _whole(value, Path()) for key in REPLACED if option in (f"--{key}", f"--{_short(key)}")}
        for key, (part, is_file) in given.items():
            if is_file and isinstance(known.get(key), dict) and isinstance(part, dict):
                arguments += [f"--{name}={_text(default)}" for name, default in _defaults(known[key], part, key)]
            known[key] = part if is_file else _merged(known.get(key), part)
    return arguments


def _text(default: Any) -> str:
    return default if isinstance(default, str) else json.dumps(default)


def _short(key: str) -> str:
    return key.replace(".init_args.", ".")


def _part(content: Any, key: str, folder: Path) -> tuple[Any, bool]:
    """Returns what a configuration sets for the setting `key`, and whether it names a file there."""
    for name in key.split("."):
        content, folder = followed(content, folder)
        if not isinstance(content, Mapping) or name not in content:
            return None, False
        content = content[name]
    return _whole(content, folder)


def _whole(value: Any, folder: Path) -> tuple[Any, bool]:
    """Returns a value in which the contents of files replace their paths, and whether the value itself is a path."""
    content, place = followed(value, folder)
    if content is value and isinstance(value, str) and value.endswith((".yaml", ".yml")):
        content, place = followed(value, SHIPPED)
    if isinstance(content, Mapping):
        content = {name: _whole(item, place)[0] for name, item in content.items()}
    return content, content is not value and isinstance(value, str)


def _merged(earlier: Any, later: Any) -> Any:
    """Returns settings in which those of a later file are added to those of an earlier file."""
    if not (isinstance(earlier, Mapping) and isinstance(later, Mapping)):
        return earlier if later is None else later
    return {**earlier, **{name: _merged(earlier.get(name), value) for name, value in later.items()}}


def _defaults(earlier: Spec, later: Spec, key: str) -> Iterator[tuple[str, Any]]:
    """Yields (setting, default) for each argument of a class that `earlier` sets and `later` leaves out."""
    if "class_path" not in later:
        return
    arguments = later.get("init_args") or {}
    defaults = _defaults_of(str(later["class_path"]))
    for name, value in (earlier.get("init_args") or {}).items():
        setting = f"{key}.init_args.{name}"
        if name in arguments:
            if isinstance(value, Mapping) and isinstance(arguments[name], Mapping):
                yield from _defaults(dict(value), arguments[name], setting)
        elif name in defaults and name not in KEPT:
            yield setting, defaults[name]


def _defaults_of(class_path: str) -> dict[str, Any]:
    """Returns argument -> default of a class, without defaults that an option cannot express."""
    try:
        described = imported_class(class_path, object) if "." in class_path else class_named(class_path)
    except ValueError:
        return {}  # the parser raises a better error
    plain = (bool, int, float, str, list, dict, tuple, type(None))
    parameters = get_signature_parameters(described, logger=False)
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty and isinstance(parameter.default, plain)
    }
