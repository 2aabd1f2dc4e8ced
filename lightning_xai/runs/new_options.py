"""Prepares the settings of a run for a comparison with a run of an older version of the package.

New options, which the older run lacks, are left out if they have their default value.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.settings import flat


def without_new_options(settings: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `settings` without those that `other` lacks and that have the default value of their argument.

    Args:
        settings: dotted name -> setting.
        other: settings of another run, which may be from an older version of the package.

    Example:
        >>> name = "lightning_xai.callbacks.heatmaps.Heatmaps"
        >>> older = {"one.class_path": name, "one.init_args.num_documents": 3}
        >>> without_new_options(older | {"one.init_args.max_image_tokens": 400}, older) == older
        True
        >>> without_new_options(older | {"one.init_args.max_image_tokens": 90}, older) == older
        False
    """
    return {
        name: value
        for name, value in settings.items()
        if name in other or not _is_default(name, value, settings, other)
    }


def _is_default(name: str, value: Any, settings: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    owner, _, argument = name.rpartition(".init_args.")
    class_path = settings.get(f"{owner}.class_path")
    if not isinstance(class_path, str) or other.get(f"{owner}.class_path") != class_path:
        return False
    defaults = _defaults(class_path)
    return argument in defaults and defaults[argument] == value


@cache
def _defaults(class_path: str) -> dict[str, Any]:
    """Returns the defaults of a class's arguments: dotted name -> default. Returns {} if the class is unknown."""
    try:
        parents = imported_class(class_path, object).__mro__
    except ValueError:
        return {}
    defaults: dict[str, Any] = {}
    # a class may pass arguments on to its parents, so their defaults count, too, unless the class has its own
    for parent in reversed(parents):
        if not inspect.isfunction(constructor := vars(parent).get("__init__")):
            continue
        parameters = inspect.signature(constructor).parameters
        defaults |= {
            name: one.default for name, one in parameters.items() if one.default is not inspect.Parameter.empty
        }
    return flat(json.loads(json.dumps(defaults, default=_plain)))


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else str(value)
