"""Merges an objective's terms from several configuration files. A file changes only terms that it names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning_xai.commands.parser.choices import listed_choices
from lightning_xai.commands.parser.class_help import derived_names
from lightning_xai.commands.parser.file_contents import content_of, followed
from lightning_xai.commands.parser.old_objectives import with_terms
from lightning_xai.objectives.terms.base import Term

TERMS = "model.init_args.terms"


def merged_terms(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the terms of an earlier file, updated by the terms of a later file.

    A term that only one file names is kept. If both files name a term, but with different `class_path`s, the later
    file's term replaces the earlier one. If the `class_path` is the same, or the later file has none, the later file
    only changes the arguments that it names. A term that is null in the later file is removed.

    Example:
        >>> first = {"igr": {"class_path": "A", "init_args": {"weight": 1, "wrt": "table"}}, "vat": {"class_path": "B"}}
        >>> merged_terms(first, {"igr": {"init_args": {"weight": 0}}, "vat": None})
        {'igr': {'class_path': 'A', 'init_args': {'weight': 0, 'wrt': 'table'}}}
    """
    merged = dict(earlier)
    for name, term in later.items():
        before = merged.get(name)
        if term is None:
            merged.pop(name, None)
        elif not (isinstance(term, Mapping) and isinstance(before, Mapping)):
            merged[name] = term
        elif not _same_class(term.get("class_path"), before.get("class_path")):
            merged[name] = term
        else:
            arguments = {**(before.get("init_args") or {}), **(term.get("init_args") or {})}
            merged[name] = {**before, **term, **({"init_args": arguments} if arguments else {})}
    return merged


def _same_class(later: str | None, earlier: str | None) -> bool:
    """Returns whether a later class path names the same class as an earlier one.

    If `later` is None, the class is the same. A name without a module matches the same name in any module.
    """
    if later is None or earlier is None:
        return later is None
    if "." in later and "." in earlier:
        return later == earlier
    return later.rpartition(".")[2] == earlier.rpartition(".")[2]


def with_merged_terms(argv: Sequence[str]) -> list[str]:
    """Adds an option with the merged terms to a command line, if at least two of its --config files set terms.

    Without this option, the parser would keep only the last file's terms. `terms: null` in a file removes the terms of
    all earlier files.

    Raises:
        ValueError: an option sets an argument of a term that neither a file nor an earlier option names; or one of
            several files sets terms that cannot be known, because it refers to them by an interpolation, or by the path
            of a missing file.

    Example:
        >>> with_merged_terms(["fit", "--config", "configs/igr.yaml"])  # one file: nothing to merge
        ['fit', '--config', 'configs/igr.yaml']
    """
    places = [place for place, argument in enumerate(argv[:-1]) if argument in ("-c", "--config")]
    all_terms = [(argv[place + 1], terms) for place in places for terms in _terms_in(Path(argv[place + 1]))]
    merged: dict[str, Any] = {}
    for file, terms in all_terms:
        if isinstance(terms, str):
            if len(all_terms) == 1:
                return list(argv)
            raise ValueError(f"{file} takes its terms from {terms!r}: write them into it, so that all files count")
        merged = {} if terms is None else merged_terms(merged, terms)
    _check_options(argv, merged)
    if len(all_terms) < 2:
        return list(argv)
    end = places[-1] + 2  # the merged terms come right after the files, so that later arguments can change single terms
    return [*argv[:end], f"--{TERMS}={json.dumps(merged or None)}", *argv[end:]]  # null and {} would differ as settings


def _check_options(argv: Sequence[str], terms: Mapping[str, Any]) -> None:
    """Raises ValueError if an option sets an argument of a term that neither `terms` nor an earlier option names."""
    known = set(terms)
    for argument in argv:
        option = argument.partition("=")[0]
        if option in (f"--{TERMS}", "--model.init_args", "--model"):
            return  # the value of this option may add terms, so later options cannot be checked
        name, _, argument_of_term = option.removeprefix(f"--{TERMS}.").partition(".")
        if option.startswith(f"--{TERMS}.") and not argument_of_term:
            known.add(name)
        elif option.startswith(f"--{TERMS}.") and name not in known:
            has = f"the terms are {', '.join(sorted(known))}" if known else "the configuration has no terms"
            raise ValueError(
                f"there is no term {name} for {option} ({has}): correct the name, or put --{TERMS}.{name} CLASS before "
                f"this option; CLASS is one of {listed_choices(derived_names(Term), name)}"
            )


def _terms_in(file: Path) -> list[Any]:
    """Returns a list with one item: the terms that a file sets, directly or in a file to which it refers.

    If the file names an old objective that is now a term, the item holds this term. Paths of YAML files in the terms
    are made absolute. The item is None if the file sets `terms` to null, and a text if the terms cannot be known,
    because a setting is an interpolation or the path of a missing file. The list is empty if the file sets no terms.
    """
    settings: Any = content_of(file) if file.is_file() else None
    folder = file.parent
    for key in TERMS.split("."):
        if isinstance(settings, dict):
            settings = with_terms(settings)
        if not isinstance(settings, dict) or key not in settings:
            return [settings] if isinstance(settings, str) and _is_reference(settings) else []
        settings, folder = followed(settings[key], folder)
    if not isinstance(settings, dict):
        return [settings] if settings is None or isinstance(settings, str) else []
    opened = {name: followed(term, folder) for name, term in settings.items()}
    return [{name: _with_absolute_paths(term, place.absolute()) for name, (term, place) in opened.items()}]


def _is_reference(text: str) -> bool:
    return "${" in text or text.endswith((".yaml", ".yml"))


def _with_absolute_paths(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: _with_absolute_paths(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_absolute_paths(item, folder) for item in value]
    is_file = isinstance(value, str) and value.endswith((".yaml", ".yml")) and (folder / value).is_file()
    return str(folder / value) if is_file else value
