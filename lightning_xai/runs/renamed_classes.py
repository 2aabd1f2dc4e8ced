"""Class paths and arguments that were renamed, so that networks and encoders of older runs are built all the same.

Format 2 renamed none of them yet. Whoever moves or renames a network, an encoder or one of their arguments adds a line.
"""

from __future__ import annotations

from typing import Any

# class path before -> class path now
MOVED_CLASS_PATHS: dict[str, str] = {}
# class path now -> {argument before: argument now}
RENAMED_ARGUMENTS: dict[str, dict[str, str]] = {}


def current_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns {"class_path", "init_args"} in today's names; classes among the arguments are translated too.

    Example:
        >>> spec = {"class_path": "mine.Network", "init_args": {"size": 3}}
        >>> current_spec(spec) == spec
        True
    """
    class_path = MOVED_CLASS_PATHS.get(spec["class_path"], spec["class_path"])
    renamed = RENAMED_ARGUMENTS.get(class_path, {})
    arguments = spec.get("init_args") or {}
    return spec | {
        "class_path": class_path,
        "init_args": {renamed.get(name, name): _current_value(value) for name, value in arguments.items()},
    }


def _current_value(value: Any) -> Any:
    return current_spec(value) if isinstance(value, dict) and "class_path" in value else value
