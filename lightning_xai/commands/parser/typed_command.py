"""Makes a command from a typed function: its parameters become options, and its docstring becomes the help text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser, auto_cli

from lightning_xai.commands.parser.class_checks import ChecksClasses


class WordListParser(ChecksClasses, ArgumentParser):
    """A parser that reads a sequence from several words, as in `runs/a runs/b --metric accuracy macro_f1`.

    A plain ArgumentParser reads a sequence from one word, as in `[runs/a,runs/b] --metric [accuracy,macro_f1]`.

    Example:
        >>> def add(numbers: Sequence[int]) -> None:
        ...     print(sum(numbers))
        >>> parser = WordListParser()
        >>> names = parser.add_function_arguments(add, as_group=False, as_positional=True)
        >>> parser.parse_args(["1", "2"]).numbers
        [1, 2]
    """

    item_types: dict[str, Any] = {}  # parameter that is a sequence -> type of the sequence's items

    def add_function_arguments(self, function: Callable, *args: Any, **kwargs: Any) -> list[str]:
        """Adds an argument for each parameter of a function, and records which parameters are sequences."""
        hints = get_type_hints(function)
        self.item_types = {name: get_args(hint)[0] for name, hint in hints.items() if get_origin(hint) is Sequence}
        return super().add_function_arguments(function, *args, **kwargs)

    def add_argument(self, *names: Any, **kwargs: Any) -> Any:
        """Adds one argument.

        A positional sequence may be empty, so that the function itself can raise an error that says what to give.
        """
        name = names[0].lstrip("-")
        if name in getattr(self, "item_types", {}):  # `self` has no item_types if it is a group of arguments
            del kwargs["action"]  # jsonargparse's own action would parse one word as the whole sequence
            option = names[0].startswith("-")
            kwargs |= {"type": self.item_types[name], "nargs": "+" if option else "*"}
            kwargs["default"] = list(kwargs.get("default") or ())  # a copy, because the parser changes the list
            names = names[:1]  # drops the option --name+, which would append to the sequence
        return super().add_argument(*names, **kwargs)


def run_command(function: Callable[..., None], argv: Sequence[str], *, name: str, as_positional: bool = True) -> None:
    """Parses a command line and calls a function with the parsed values.

    Args:
        function: function to call.
        argv: words after the name of the command.
        name: name of the command, such as "racu".
        as_positional: whether parameters without a default become positional arguments instead of required options.

    Raises:
        argparse.ArgumentError: an option is unknown, or a value does not have its parameter's type.

    Example:
        >>> def add(numbers: Sequence[int], scale: int = 1) -> None:
        ...     print(scale * sum(numbers))
        >>> run_command(add, ["1", "2", "--scale", "10"], name="add")
        30
    """
    auto_cli(
        function,
        args=list(argv),
        parser_class=WordListParser,
        prog=f"run.py {name}",
        as_positional=as_positional,
        exit_on_error=False,
        allow_abbrev=False,
    )
