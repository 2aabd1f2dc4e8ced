"""Records the arguments with which an object was constructed."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any


def arguments_of(cls: type, self: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns name -> argument for a constructor call, defaults included.

    Example:
        >>> class Words:
        ...     def __init__(self, count, lowercase=True):
        ...         pass
        >>> arguments_of(Words, None, [3], {})
        {'count': 3, 'lowercase': True}
    """
    # unlike `bind`, `bind_partial` accepts missing arguments. They are normal if an object is copied, because copying
    # calls __new__ without arguments. In all other calls, __init__ itself raises the error for a missing argument
    bound = inspect.signature(cls.__init__).bind_partial(self, *args, **kwargs)  # type: ignore[misc]
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name != next(iter(bound.signature.parameters))}
