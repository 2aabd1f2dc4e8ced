"""Replaces a part of a run, such as its data, if a later file or option gives another file for this part.

The parser merges the arguments of two values of the same class. After --data other.yaml, arguments that other.yaml
leaves out would keep the values of the earlier data.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from jsonargparse._parameter_resolvers import get_signature_parameters

from lightning_xai.commands.parser.class_help import class_named
from lightning_xai.commands.parser.config_files import with_config_paths
from lightning_xai.commands.parser.data_links import LINKED
from lightning_xai.commands.parser.file_contents import content_of, followed
from lightning_xai.commands.parser.parts import SHIPPED
from lightning_xai.commands.parser.term_files import with_merged_terms
from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.settings import flat

DATA, NETWORK = "data", "model.init_args.network"  # settings whose value may be a file that describes a whole part
# settings that a new file does not reset: the command sets all but the cache, which may have to stay in its folder
KEPT = {f"{DATA}.init_args.seed", *(f"{NETWORK}.init_args.{name}" for name in LINKED)}
CACHE = ".cache_dir"
Spec = Mapping[str, Any]  # a class: {"class_path": ..., "init_args": {...}}


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
    data. Arguments that an option sets between the two files are kept.

    Example:
        >>> argv = with_replaced_parts(["fit", "--config", "configs/fresh.yaml", "--data", "configs/data/sst.yaml"])
        >>> argv[5:]  # fresh.yaml has a VocabularyEncoder with explain_pair=False
        ['--data.init_args.encoder.init_args={"explain_pair": true}']
    """
    arguments: list[str] = []
    known: dict[str, Any] = {}  # setting -> what the files so far say about it
    since = dict.fromkeys((DATA, NETWORK), 0)  # setting -> position after the last file that describes it as a whole
    for place, argument in enumerate(argv):
        arguments.append(argument)
        option, value = _option_and_value(argv, place)
        if not (value.endswith((".yaml", ".yml")) or option in ("-c", "--config")) or not Path(value).is_file():
            continue
        if option in ("-c", "--config"):
            content = content_of(Path(value))
            given = {key: _part(content, key, Path(value).parent) for key in since}
        else:
            given = {key: _whole(value, Path()) for key in since if option in (f"--{key}", f"--{_short(key)}")}
        for key, (part, is_file) in given.items():
            is_whole = is_file and isinstance(part, Mapping) and "class_path" in part
            if is_whole and isinstance(known.get(key), Mapping):
                arguments += _resets(known[key], part, key, _set_by_options(argv[since[key] : place]))
            if is_whole or known.get(key) is None:
                since[key] = place + 1
            known[key] = part if is_whole else _merged(known.get(key), part)
    return arguments


def _option_and_value(argv: Sequence[str], place: int) -> tuple[str, str]:
    """Returns the option to which the word at `place` belongs, and the option's value or a part of it."""
    option, joined, value = argv[place].partition("=")
    if option.startswith("-"):
        return option, value if joined else ""
    return argv[place - 1] if place else "", argv[place]


def _set_by_options(argv: Sequence[str]) -> set[str]:
    """Returns the short names of all settings that options set, also of those inside a value such as {"path": "a"}."""
    names: set[str] = set()
    for place in range(len(argv)):
        option, value = _option_and_value(argv, place)
        if option.startswith("--"):
            given: Any = value
            with suppress(yaml.YAMLError):  # the parser raises a better error
                given = yaml.safe_load(value) if value.startswith("{") else value
            names.update(_short(name) for name in flat(given, option.strip("-+")))
    return names


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


def _resets(earlier: Spec, later: Spec, key: str, options: Set[str]) -> Iterator[str]:
    """Yields options that set each argument that `earlier` sets and `later` leaves out to its default.

    Args:
        earlier: what earlier files say about a class.
        later: what the new file says about it; it has a class_path.
        key: the setting whose value is the class.
        options: short names of settings that are kept, because an option sets them.
    """
    arguments = later.get("init_args") or {}
    defaults = _defaults_of(str(later["class_path"]))
    left_out = {}
    for name, value in (earlier.get("init_args") or {}).items():
        setting = f"{key}.init_args.{name}"
        if name in arguments:
            inner = arguments[name] if isinstance(arguments[name], Mapping) else {"class_path": arguments[name]}
            if isinstance(value, Mapping) and "class_path" in value and isinstance(inner.get("class_path"), str):
                yield from _resets(value, inner, setting, options)
        elif name in defaults and setting not in KEPT and not setting.endswith(CACHE):
            if not any(f"{option}.".startswith(f"{_short(setting)}.") for option in options):
                left_out[name] = defaults[name]
    if left_out:
        yield f"--{key}.init_args={json.dumps(left_out)}"


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
