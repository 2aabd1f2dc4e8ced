"""Parsers that check each class in a configuration against the declared base class, before any class is built.

Without this check, jsonargparse would call any function that a configuration names for an argument of type Callable,
Any or dict.
"""

from __future__ import annotations

from argparse import ArgumentError
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser, Namespace, set_parsing_settings
from jsonargparse._common import parser_context
from jsonargparse._link_arguments import ActionLink
from jsonargparse._subcommands import get_subcommand
from jsonargparse._typehints import (
    ActionTypeHint,
    accepts_any_value,
    adapt_partial_callable_class,
    is_subclass_spec,
)
from jsonargparse._util import import_object, object_path_serializer
from omegaconf import OmegaConf

from lightning_xai.commands.parser.declared_types import (
    alternatives,
    bases_of,
    is_callable_type,
    item_types,
    takes_data,
    takes_text,
)
from lightning_xai.commands.parser.errors import explained
from lightning_xai.runs.class_paths import require_derived


class ChecksClasses:
    """Mixin for parsers. It raises ValueError if a class path names a function or a class with the wrong base class.

    If an argument's declared type is a class, a class path may name this class or a derived class. If the declared type
    is Any or dict, a class path is plain data, from which nothing is built. The mixin checks a configuration after it
    is parsed, before it is printed, and before its classes are built.

    Example:
        >>> from torch.optim import Optimizer
        >>> def train(optimizer: Callable[[list], Optimizer]) -> None: ...
        >>> parser = CheckedParser(exit_on_error=False)
        >>> names = parser.add_function_arguments(train, as_group=False)
        >>> parser.parse_object({"optimizer": {"class_path": "os.system", "init_args": {"command": "ls"}}})
        Traceback (most recent call last):
        ValueError: optimizer names os.system, which is not a class: name a class derived from Optimizer
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        set_parsing_settings(
            instantiate_subclass_spec_in_any=False,
            config_read_mode_urls_enabled=False,
            config_read_mode_fsspec_enabled=False,  # disabled here, because Lightning enables it
        )
        super().__init__(*args, **kwargs)

    def add_function_arguments(self, function: Callable, *args: Any, **kwargs: Any) -> list[str]:
        """Adds a function's parameters as arguments."""
        # jsonargparse also calls this method if a class path names a function. It may then pass `linked_targets`, which
        # the parent's method does not accept
        kwargs.pop("linked_targets", None)
        parser: Any = super()
        return parser.add_function_arguments(function, *args, **kwargs)

    def validate(self, namespace: Namespace, *args: Any, **kwargs: Any) -> None:
        """Checks a configuration. The parser calls this method after parsing and before printing."""
        parser: Any = super()
        parser.validate(namespace, *args, **kwargs)
        if not self._is_nested:
            with_checked_classes(self, namespace)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raises an ArgumentError with a one-line message. The parser calls this method if the input is wrong."""
        parser: Any = super()
        # each message must be rewritten exactly once. So the parser of a nested class leaves the message as it is: the
        # outermost parser rewrites it. A message that a subcommand's parser has rewritten stays as it is
        is_explained = self._is_nested or getattr(ex, "is_explained", False)
        try:
            parser.error(message if is_explained else explained(message, self), ex)
        except ArgumentError as error:
            error.is_explained = not self._is_nested  # type: ignore[attr-defined]
            raise
        raise AssertionError("the error method of a parser must raise an error or exit, but it returned")

    def dump(self, *args: Any, **kwargs: Any) -> str:
        """Returns a configuration as text, with omegaconf's interpolations resolved.

        First removes all resolvers except omegaconf's own, because a module of a class in the
        configuration may have registered a resolver that runs code.
        """
        OmegaConf.clear_resolvers()
        parser: Any = super()
        return parser.dump(*args, **kwargs)

    def instantiate(self, namespace: Namespace, *args: Any, **kwargs: Any) -> Namespace:
        """Builds the classes of a configuration, after checking all of them."""
        if not self._is_nested:
            namespace = with_checked_classes(self, namespace)
        parser: Any = super()
        return parser.instantiate(namespace, *args, **kwargs)

    @property
    def _is_nested(self) -> bool:
        """Whether this parser parses the arguments of a nested class, which the outermost parser checks."""
        return getattr(self, "_inner_parser", False)


class CheckedParser(ChecksClasses, ArgumentParser):
    """An ArgumentParser that checks the classes of a configuration, as ChecksClasses describes.

    Example:
        >>> CheckedParser(exit_on_error=False).parse_object({})
        Namespace()
    """


def with_checked_classes(parser: Any, config: Namespace) -> Namespace:
    """Checks all classes of a parsed configuration, and returns a copy of it.

    In the copy, an entry that has a `class_path`, but whose declared type is Any or dict, is a plain dictionary.

    Args:
        parser: parser of the configuration.
        config: the configuration, parsed but not yet built.

    Raises:
        ValueError: a class path names a function or a class that is not derived from the declared base, or an entry has
            a class path, but its declared type allows neither a class nor a dictionary.

    Example:
        >>> parser = CheckedParser(exit_on_error=False)
        >>> arguments = parser.add_argument("--anything", type=Any)
        >>> config = parser.parse_object({"anything": {"class_path": "collections.Counter"}})
        >>> with_checked_classes(parser, config).anything
        {'class_path': 'collections.Counter'}
    """
    config = config.clone()
    _check_arguments(parser, config, "")
    return config


def _check_arguments(parser: Any, config: Namespace, prefix: str) -> None:
    """Checks all arguments in `config`, and replaces each value by the result of `_Argument.checked`."""
    targets = [action.target[1] if isinstance(action, ActionLink) else action for action in parser._actions]
    for action in dict.fromkeys(targets):
        if isinstance(action, ActionTypeHint) and config.get(action.dest) is not None:
            # jsonargparse caches a parser for each class and context. The check uses the context in which jsonargparse
            # will build the class, and therefore gets the parser that will build it
            with parser_context(parent_parser=parser, nested_links=ActionLink.get_nested_links(parser, action)):
                argument = _Argument(action, prefix + action.dest)
                config[action.dest] = argument.checked(config[action.dest], [action._typehint])
    subcommand, subparser = get_subcommand(parser, config, fail_no_subcommand=False)
    if subcommand is not None:
        _check_arguments(subparser, config[subcommand], prefix)


class _Argument:
    """Checks the value of one argument.

    Args:
        action: the parser's object for the argument.
        key: dotted name of the argument, or of an entry inside its value, for messages.
    """

    def __init__(self, action: Any, key: str) -> None:
        self.action = action
        self.key = key

    def checked(self, value: Any, hints: Sequence[Any]) -> Any:
        """Checks a value and returns it.

        Where the declared type is Any or dict, an entry with a `class_path` is returned as a plain dictionary, not as
        a class to build.

        Args:
            value: the value, parsed but not yet built.
            hints: declared types. The value matches at least one of them.

        Raises:
            ValueError: an entry has a class path, but its declared type allows neither a class nor a dictionary; or the
                class path does not name a class derived from the declared type.
        """
        members = [member for hint in hints for member in alternatives(hint)]
        if isinstance(value, str):
            if value == self.action.default or any(map(takes_text, members)):
                return value
            value = Namespace(class_path=value)
        if is_subclass_spec(value) and isinstance(value["class_path"], str):
            return self._checked_class(value, members)
        if isinstance(value, Namespace) and bases_of(members):
            return self._checked_fields(value, members)
        if isinstance(value, (Namespace, dict, MappingProxyType)):
            return {name: self._part(name).checked(item, item_types(members, name)) for name, item in _items(value)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = {name: self._part(name).checked(item, [hint]) for name, item, hint in _fields(value)}
            return type(value)(**fields)
        if isinstance(value, (list, tuple, set, frozenset, deque)):
            hints = item_types(members)
            return type(value)(self._part(place).checked(item, hints) for place, item in enumerate(value))
        if callable(value) or any(base in type(value).__mro__ for base, _ in bases_of(members)):
            self._check_object(value, members)
        return value

    def _part(self, name: Any) -> _Argument:
        return _Argument(self.action, f"{self.key}.{name}")

    def _checked_class(self, spec: Any, members: Sequence[Any]) -> Any:
        """Checks a class path and the arguments for its class."""
        bases = bases_of(members)
        if not bases:
            if any(takes_data(member) for member in members):
                return _as_data(spec)
            raise ValueError(f"{self.key} names {spec['class_path']}, but does not take a class: remove the class_path")
        named = import_object(spec["class_path"])
        require_derived(named, [base for base, _ in bases], key=self.key, class_path=spec["class_path"])
        hint = next(hint for base, hint in bases if base in named.__mro__)
        skipped = adapt_partial_callable_class(hint, spec)[1] if is_callable_type(hint) else None
        self._check_arguments_of(named, spec.get("init_args"), skipped, f"{self.key}.init_args.")
        if spec.get("dict_kwargs"):
            spec["dict_kwargs"] = _as_data(spec["dict_kwargs"])
        return spec

    def _checked_fields(self, fields: Namespace, members: Sequence[Any]) -> Namespace:
        """Checks the arguments of an entry without a class_path, such as the fields of a dataclass."""
        for base, _ in bases_of(members):
            self._check_arguments_of(base, fields, None, f"{self.key}.")
        return fields

    def _check_arguments_of(self, built: type, arguments: Any, skipped: Any, prefix: str) -> None:
        if isinstance(arguments, Namespace):
            options = getattr(self.action, "sub_add_kwargs", {})
            _check_arguments(ActionTypeHint.get_class_parser(built, options, skip_args=skipped), arguments, prefix)

    def _check_object(self, value: Any, members: Sequence[Any]) -> None:
        """Raises ValueError if a function or object does not fit the declared type. The default is always allowed."""
        path = _import_path(value)
        if value is self.action.default or path == self.action.default or any(map(accepts_any_value, members)):
            return
        bases = [base for base, _ in bases_of(members)]
        if isinstance(value, type):
            bases = [base for hint in members if get_origin(hint) is type for base in get_args(hint)]
        if not bases:
            raise ValueError(f"{self.key} is {path}, but takes no class or function: give another value")
        require_derived(value, bases, key=self.key, class_path=path)


def _import_path(value: Any) -> str:
    try:
        return object_path_serializer(value)
    except ValueError:  # the object cannot be imported; it may be a closure
        return repr(value)


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    """Returns the items of a dictionary or namespace, without the entry that jsonargparse adds for the source file."""
    items = vars(value) if isinstance(value, Namespace) else value
    return [(name, item) for name, item in items.items() if name != "__path__"]


def _fields(value: Any) -> Iterable[tuple[str, Any, Any]]:
    """Returns the names, values and declared types of a named tuple's fields."""
    hints = get_type_hints(type(value))
    return [(name, getattr(value, name), hints.get(name, Any)) for name in value._fields]


def _as_data(value: Any) -> Any:
    """Returns a copy of a value in which all namespaces, including nested ones, are replaced by dictionaries."""
    if isinstance(value, (Namespace, dict)):
        return {name: _as_data(item) for name, item in _items(value)}
    return [_as_data(item) for item in value] if isinstance(value, list) else value
