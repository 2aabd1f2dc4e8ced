"""Checks that a user's own part (such as a method, a metric or a source) fits the base class from which it derives."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType
from typing import Any

PACKAGE = __name__.partition(".")[0]


def require_object(part: object, base: type) -> None:
    """Raises ValueError unless `part` is an object of a class that derives from `base` and fits it (`require_fit`).

    Example:
        >>> class Base:
        ...     pass
        >>> require_object(Base(), Base)
        >>> require_object(Base, Base)
        Traceback (most recent call last):
        ValueError: Base is a class, not an object: pass Base()
    """
    if isinstance(part, type) and issubclass(part, base):
        require_fit(part)
        parameters = inspect.signature(part).parameters.values()
        needed = [
            p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        raise ValueError(f"{part.__name__} is a class, not an object: pass {part.__name__}({', '.join(needed)})")
    if not isinstance(part, base):
        raise ValueError(f"{_shown(part)} is not {_with_article(base)}: derive its class from {base.__name__}")
    require_fit(type(part))


def require_maker(make: object, base: type, *arguments: str) -> None:
    """Raises ValueError unless `make` is a function or a subclass of `base`, and can be called with `arguments`.

    A subclass must also pass `require_fit`.

    Args:
        make: the class or function, which is called to build objects.
        base: the base class of the objects.
        arguments: names of the arguments with which `make` is called.

    Example:
        >>> class Base:
        ...     def __init__(self, network, scale):
        ...         pass
        >>> require_maker(lambda network: Base(network, scale=2), Base, "network")
        >>> require_maker(Base(None, scale=2), Base, "network")
        Traceback (most recent call last):
        ValueError: Base(...) is an object, not a class: pass Base, or lambda network: Base(...)
        >>> require_maker(Base, Base, "network")
        Traceback (most recent call last):
        ValueError: Base(network) fails (missing a required argument: 'scale'): pass lambda network: Base(...)
    """
    call = ", ".join(arguments)
    if isinstance(make, base):
        name = type(make).__name__
        raise ValueError(f"{name}(...) is an object, not a class: pass {name}, or {_maker(name, call)}")
    name = getattr(make, "__name__", base.__name__)
    if isinstance(make, type) and issubclass(make, base):
        require_fit(make)
    elif isinstance(make, type) or not callable(make):
        raise ValueError(f"{_shown(make)} is not a subclass of {base.__name__}: derive the class from {base.__name__}")
    try:
        inspect.signature(make).bind(*arguments)
    except TypeError as error:
        name, made = ("make", base.__name__) if name == "<lambda>" else (name, name)
        raise ValueError(f"{name}({call}) fails ({error}): pass {_maker(made, call)}") from error


def require_type(value: object, kind: type, subject: str, remedy: str) -> None:
    """Raises ValueError if the result of the user's method `subject` has another type than `kind`.

    Example:
        >>> require_type(1, str, "Mine.describe", "return a text")
        Traceback (most recent call last):
        ValueError: Mine.describe returned int: return a text
    """
    if not isinstance(value, kind):
        raise ValueError(f"{subject} returned {type(value).__name__}: {remedy}")


def require_fit(part_class: type) -> None:
    """Checks that a class defines all abstract methods, and that each override accepts the arguments of its original.

    Only overrides of this package's methods are checked, and only if the original is abstract or has a docstring. This
    package gives required arguments by position, so the override may rename them.

    Raises:
        ValueError: a method is missing or has other parameters, or a property is overridden by a method or vice versa.

    Example:
        >>> from lightning_xai.types import Selector
        >>> class Mine(Selector):
        ...     def require_selection(self, strict):
        ...         pass
        >>> require_fit(Mine)  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        ValueError: Mine.require_selection has the parameters (self, strict), not those of Selector.require_selection:
        write def require_selection(self)
    """
    for base, name, theirs in _documented(part_class):
        own, subject = inspect.getattr_static(part_class, name), f"{part_class.__name__}.{name}"
        if isinstance(theirs, property | cached_property):
            if getattr(own, "__isabstractmethod__", False):
                raise ValueError(f"{subject} is missing: define it as an attribute or with @property")
            if _is_method(own):
                raise ValueError(f"{subject} is a method, not a property: write @property in the line before its def")
            continue
        definition = f"{name}({_parameters(theirs)})"
        if getattr(own, "__isabstractmethod__", False):
            raise ValueError(f"{subject} is missing: define {definition}")
        if not callable(own) and not _is_method(own) and (_is_property(own) or not hasattr(own, "__get__")):
            raise ValueError(f"{subject} is {_shown(own)}, not a method: write def {definition}")
        if _is_method(own) and not _accepts(own, theirs):
            rule = f"{subject} has the parameters ({_parameters(own)})"
            raise ValueError(f"{rule}, not those of {base.__name__}.{name}: write def {definition}")


def _documented(part_class: type) -> Iterator[tuple[type, str, Any]]:
    """Yields (class, name, member) for public methods and properties of this package's classes in the class's MRO.

    A method or property without a docstring is left out unless it is abstract. If `part_class` overrides a method, the
    package's original is yielded.
    """
    for base in part_class.__mro__:
        if base.__module__.partition(".")[0] == PACKAGE:
            for name, member in vars(base).items():
                described = getattr(member, "__doc__", None) or getattr(member, "__isabstractmethod__", False)
                if not name.startswith("_") and described and (_is_method(member) or _is_property(member)):
                    yield base, name, member


def _is_method(member: object) -> bool:
    return isinstance(member, FunctionType | staticmethod | classmethod)


def _is_property(member: object) -> bool:
    return isinstance(member, property | cached_property)


def _signature(method: Any) -> inspect.Signature:
    return inspect.signature(getattr(method, "__func__", method))


def _accepts(own: Any, theirs: Any) -> bool:
    """Returns whether `own` accepts every call of `theirs` that gives the required arguments by position."""
    given = list(_signature(theirs).parameters.values())
    given = given if isinstance(theirs, staticmethod) else given[1:]
    positional = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in positional if p.default is p.empty]
    keywords = {p.name: None for p in given if p.kind is p.KEYWORD_ONLY}
    needed = {p.name: None for p in given if p.kind is p.KEYWORD_ONLY and p.default is p.empty}
    options = {p.name: None for p in positional if p.default is not p.empty}
    own_self = [] if isinstance(own, staticmethod) else [None]
    calls = [
        (required, needed),
        (required, options | keywords),
        ([p.name for p in positional], keywords),
    ]
    for arguments, named in calls:
        try:
            _signature(own).bind(*own_self, *arguments, **named)
        except TypeError:
            return False
    return True


def _parameters(method: Any) -> str:
    """Returns the parameters of a method as in its def, without types."""
    signature = _signature(method)
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))[1:-1]


def _maker(name: str, call: str) -> str:
    return f"lambda {call}: {name}(...)" if call else f"lambda: {name}(...)"


def _shown(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else " ".join(repr(value).split())[:60]


def _with_article(base: type) -> str:
    return f"{'an' if base.__name__[0] in 'AEIOU' else 'a'} {base.__name__}"
