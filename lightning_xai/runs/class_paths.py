"""Imports classes that configurations or checkpoints name, and checks their base classes before they are called."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from typing import Any


def require_derived(value: Any, bases: Sequence[type], *, key: str, class_path: str) -> None:
    """Raises ValueError unless `value` is a class that is derived from one of `bases` and is not abstract.

    Only real ancestors count, not abstract classes or protocols that merely recognize `value` by its methods.

    Args:
        value: object that the class path names.
        bases: classes; at least one must be an ancestor of `value`.
        key: name of the setting that holds the class path, for the message.
        class_path: dotted name of `value`, for the message.

    Example:
        >>> require_derived(bool, [int], key="flag", class_path="builtins.bool")
        >>> require_derived(print, [int], key="flag", class_path="builtins.print")
        Traceback (most recent call last):
        ValueError: flag names builtins.print, which is not a class: name a class derived from int
    """
    wanted = " or ".join(dict.fromkeys(base.__name__ for base in bases))
    if not isinstance(value, type):
        problem = "is not a class"
    elif not any(base in value.__mro__ for base in bases):
        problem = f"is not derived from {wanted}"
    elif inspect.isabstract(value):
        problem = "is abstract"
    else:
        return
    raise ValueError(f"{key} names {class_path}, which {problem}: name a class derived from {wanted}")


def imported_class(class_path: str, base: type, *, key: str = "class_path") -> type[Any]:
    """Returns the class with a dotted name. Imports its module, but calls none of the module's functions or classes.

    Args:
        class_path: dotted name of the class.
        base: required ancestor of the class.
        key: name of the setting that holds the class path, for messages.

    Raises:
        ValueError: the name cannot be imported, or is not a class derived from `base`.

    Example:
        >>> imported_class("collections.OrderedDict", dict).__name__
        'OrderedDict'
        >>> imported_class("os.system", dict, key="network")
        Traceback (most recent call last):
        ValueError: network names os.system, which is not a class: name a class derived from dict
    """
    module, _, name = class_path.rpartition(".")
    try:
        value = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:  # ValueError: the name has no module
        raise ValueError(
            f"{key} names {class_path}, which cannot be imported ({error}): install its package or correct the name"
        ) from error
    require_derived(value, [base], key=key, class_path=class_path)
    return value
