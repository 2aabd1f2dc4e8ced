"""Records the arguments with which an object was constructed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any


def arguments_of(cls: type, self: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor call by name, defaults included.

    Example:
        >>> class Words:
        ...     def __init__(self, count, lowercase=True):
        ...         pass
        >>> arguments_of(Words, None, [3], {})
        {'count': 3, 'lowercase': True}
    """
    # `bind_partial` accepts missing arguments, but `bind` does not. Copying an object calls __new__ without arguments;
    # in all other calls, __init__ itself raises the error for a missing argument
    bound = inspect.signature(cls.__init__).bind_partial(self, *args, **kwargs)  # type: ignore[misc]
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name != next(iter(bound.signature.parameters))}
