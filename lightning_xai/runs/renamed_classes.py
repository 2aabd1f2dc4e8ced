"""Old and current names of class paths and arguments, so that networks and encoders of older runs can still be built.

Nothing has been renamed since format 2 was introduced. If you move or rename a network, an encoder, or an argument of
either, add an entry here.
"""

from __future__ import annotations

from typing import Any

# old class path -> current class path
MOVED_CLASS_PATHS: dict[str, str] = {}
# current class path -> {old argument: current argument}
RENAMED_ARGUMENTS: dict[str, dict[str, str]] = {}


def current_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns `spec` ("class_path" and "init_args") with current names, also in the specs among its arguments.

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
