"""Determines which values an argument's declared type allows: derived classes, collections or plain data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from jsonargparse._typehints import accepts_any_value, get_subclass_or_closed_types


def alternatives(hint: Any) -> Iterator[Any]:
    """Yields the members of a union type, including those of unions inside it, or the type itself if it is not a union.

    Example:
        >>> list(alternatives(int | list[str] | None))
        [<class 'int'>, list[str], <class 'NoneType'>]
    """
    if get_origin(hint) is Annotated:
        yield from alternatives(hint.__origin__)
    elif hasattr(hint, "__supertype__"):  # NewType
        yield from alternatives(hint.__supertype__)
    elif type(hint).__name__ == "TypeAliasType":
        yield from alternatives(hint.__value__)
    elif get_origin(hint) is Union or type(hint).__name__ == "UnionType":
        for member in get_args(hint):
            yield from alternatives(member)
    else:
        yield hint


def is_callable_type(hint: Any) -> bool:
    """Returns whether a type is `Callable`, with or without types in brackets.

    Example:
        >>> is_callable_type(Callable[[int], str]), is_callable_type(dict)
        (True, False)
    """
    return (get_origin(hint) or hint) is Callable


def bases_of(hints: Sequence[Any]) -> list[tuple[type, Any]]:
    """Returns (base class, type) for each type in `hints` whose values may be given by a class path.

    The class path must name a subclass of the base class. The base class of a Callable is the type that it returns.

    Example:
        >>> from torch.optim import Optimizer
        >>> [base.__name__ for base, _ in bases_of([int, Optimizer, dict[str, Any]])]
        ['Optimizer']
    """
    return [
        (get_origin(base) or base, hint)
        for hint in hints
        for base in get_subclass_or_closed_types(hint, callable_return=True) or ()
    ]


def takes_data(hint: Any) -> bool:
    """Returns whether a type allows dictionaries.

    Example:
        >>> takes_data(Any), takes_data(dict[str, Any]), takes_data(list)
        (True, True, False)
    """
    return accepts_any_value(hint) or _is_kind_of(hint, Mapping)


def takes_text(hint: Any) -> bool:
    """Returns whether an argument of this type takes a string as plain text, and not as the name of a class.

    Example:
        >>> takes_text(str), takes_text(Callable), takes_text(None)
        (True, False, False)
    """
    return hint not in (None, type(None)) and not is_callable_type(hint) and not bases_of([hint])


def item_types(hints: Sequence[Any], key: Any = None) -> list[Any]:
    """Returns the declared types of a collection's items or, with `key`, of the value that a mapping has for this key.

    Example:
        >>> item_types([list[int], tuple[str, ...], None])
        [<class 'int'>, <class 'str'>]
        >>> item_types([dict[str, bool]], key="flag")
        [<class 'bool'>]
    """
    types: list[Any] = []
    for hint in hints:
        arguments = [argument for argument in get_args(hint) if argument is not Ellipsis]
        if accepts_any_value(hint):
            types.append(hint)
        elif _is_kind_of(hint, Mapping):
            fields = get_type_hints(hint) if hasattr(hint, "__required_keys__") else {}  # a TypedDict
            types += [fields.get(key) or (arguments[1] if len(arguments) == 2 else Any)] if key is not None else []
        elif _is_kind_of(hint, Iterable) and key is None:
            types += arguments or [Any]
    return types


def _is_kind_of(hint: Any, collection: type) -> bool:
    origin = get_origin(hint) or hint
    return inspect.isclass(origin) and issubclass(origin, collection)
