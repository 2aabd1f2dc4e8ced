"""Refuses configurations with a repeated key, because a YAML reader would silently keep only the key's last value."""

from __future__ import annotations

import yaml


def check_repeated_keys(text: str) -> None:
    """Raises ValueError if a mapping in a YAML text contains the same key twice.

    Example:
        >>> check_repeated_keys("methods: {gradient: 1, random: 2}")
        >>> check_repeated_keys("methods:\\n  gradient: 1\\n  gradient: 2")
        Traceback (most recent call last):
        ValueError: the key 'gradient' is in line 2 and again in line 3, so its first value would be lost: ...
    """
    waiting = [yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))]  # CSafeLoader is faster
    seen: set[int] = set()  # Python ids of visited nodes; with aliases, a node may contain itself
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            lines: dict[tuple[str, str], int] = {}  # tag and text of a key -> its line
            for key, value in node.value:
                name, line = (key.tag, str(key.value)), key.start_mark.line + 1
                if name in lines:
                    raise ValueError(
                        f"the key {key.value!r} is in line {lines[name]} and again in line {line}, so its first "
                        "value would be lost: rename or remove one of these two keys"
                    )
                lines[name] = line
                waiting.append(value)
