"""Rewrites each of the parser's errors as one line: the wrong key and value, possible choices, and a help command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from jsonargparse._link_arguments import ActionLink
from jsonargparse._parameter_resolvers import get_signature_parameters
from jsonargparse._util import import_object

from lightning_xai.commands.parser.choices import listed_choices, shortened
from lightning_xai.commands.parser.class_help import abstract_class_problem, derived_classes, derived_names
from lightning_xai.commands.parser.config_syntax import ENDINGS
from lightning_xai.commands.parser.declared_types import alternatives, bases_of, is_callable_type, item_types
from lightning_xai.commands.parser.parts import FOLDERS, find_part
from lightning_xai.commands.parser.trail import Node, Problem, read_problem
from lightning_xai.commands.terminal import foreign_class, one_line

TYPES = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text", "list": "a list",
    "dict": "a mapping of names to values",
}  # fmt: skip
NOT_FINITE = ("nan", "inf", "infinity")
MOST_CLASSES = 4  # a message names the classes that have a given argument only if there are at most this many
_NOT_A_CLASS = re.compile(
    r"No module named|has no attribute|Expected a dot import path|Unexpected import path|Expected a path|is abstract"
)
_UNKNOWN = re.compile(r"Option '([^']+)' is not accepted|does not accept option '([^']+)'")
_REQUIRED = re.compile(r"the following arguments are required: (.*)")


def explained(message: str, parser: Any) -> str:
    """Returns a parser's error message, rewritten as one line.

    Args:
        message: the parser's message.
        parser: the parser that raised the error.

    Example:
        >>> from jsonargparse import ArgumentParser
        >>> parser = ArgumentParser(prog="run.py explain")
        >>> explained('Parser key "seed":\\n  Expected a <class \\'int\\'>. Got value: x', parser)
        'seed is x: give a whole number; run.py explain --help lists all options'
    """
    parser = _subparser(parser)
    command = f"run.py {parser.prog.split()[-1]}"
    foreign = foreign_class(message)
    if foreign is not None:
        return f"{foreign}; {command} --help lists all options"
    problem = read_problem(message)
    if problem is None:
        return _about_options(one_line(message), parser, command)
    return _Explanation(problem, parser, command).line()


def _subparser(parser: Any) -> Any:
    """Returns the subcommand's parser if there is exactly one subcommand, and otherwise `parser` itself."""
    subcommands = getattr(parser, "_subcommands_action", None)
    parsers = list(subcommands._name_parser_map.values()) if subcommands is not None else []
    return parsers[0] if len(parsers) == 1 else parser


def _about_options(text: str, parser: Any, command: str) -> str:
    """Returns the error message for an option that is unknown, missing or without a value."""
    lists = f"{command} --help lists all options"
    known = [option.removeprefix("--") for action in parser._actions for option in action.option_strings[:2]]
    unknown, required = _UNKNOWN.search(text), _REQUIRED.search(text)
    given = re.match(r"unrecognized arguments: (.+)", text)
    if unknown or given:
        option = (unknown[1] or unknown[2]) if unknown else given[1] if given else ""
        if option.endswith(ENDINGS) and not option.startswith("--"):
            return f"{shortened(option)} is not an option of {command}: put --config or --data before it; {lists}"
        name = option.removeprefix("--").partition("=")[0].partition(" ")[0]
        return f"{shortened(option)} is not an option of {command}: choose one of {_nearest(known, name)}; {lists}"
    if required:
        names = [name.strip().rpartition(".")[2] for name in required[1].split(",")]
        remedy = (
            "name a configuration, such as --config tm.yaml, or give "
            if "model" in names or "data" in names
            else "give "
        )
        return f"{command} lacks {' and '.join(names)}: {remedy}{' and '.join(f'--{name}' for name in names)}; {lists}"
    return f"{shortened(text, 200)}; {lists}"


def _nearest(known: Sequence[str], name: str) -> str:
    """Lists options for a message. The option that is most similar to `name` comes first.

    If there are options with the same parent key as `name`, only these are listed.
    """
    beside = [option for option in known if option.rpartition(".")[0] == name.rpartition(".")[0]]
    options = [option for option in (beside or known) if not option.endswith(("help", "+", "print_shtab", "-h"))]
    return listed_choices(options or known, name)


class _Explanation:
    """Composes the error message for a problem in a configuration.

    Args:
        problem: the problem, from `read_problem`.
        parser: parser of the command.
        command: the command, such as "run.py fit".
    """

    def __init__(self, problem: Problem, parser: Any, command: str) -> None:
        self.problem, self.parser, self.command = problem, parser, command
        self.hints = self._declared_types()
        self.owner = next((node for node in reversed(problem.path) if node.is_class), None)

    def line(self) -> str:
        """Returns the error message, in one line."""
        text = " ".join(self.problem.sentences)
        place, value = self._place(), self.problem.value
        unknown, required = _UNKNOWN.search(text), _REQUIRED.search(text)
        if unknown and self.owner:
            names = self._arguments_of(self.owner)
            if not names:
                return f"{place}.init_args.{unknown[1]}: {_short(self.owner)} has no arguments, so remove this setting"
            return (
                f"{place}.init_args.{unknown[1]} is not an argument of {_short(self.owner)}: "
                f"choose one of {listed_choices(names, unknown[1])}{self._classes_with(unknown[1])}; {self._help()}"
            )
        # a class path may name something else, such as a function, which then seems to lack required arguments
        if required and self.owner and not isinstance(_imported(self.owner.name), type):
            return f"{place} names {self.owner.name}, which is not a class: name a class, or remove this setting"
        if required and self.owner:
            return f"{place} lacks {required[1]}, which {_short(self.owner)} needs: set it in init_args; {self._help()}"
        expected = _expected(self.problem.sentences)
        if place == "seed_everything":  # a bool is allowed too, but messages should not suggest one
            expected = ["a whole number"]
        if str(value).lower().lstrip("+-.") in NOT_FINITE:  # Python reads these words as numbers, YAML as text
            expected = ["a finite number" if kind == TYPES["float"] else kind for kind in expected]
        if _NOT_A_CLASS.search(text) and (not expected or _may_be_class(value)):
            return self._about_class(place, text)
        if expected:
            return f"{place} is {shortened(value)}: give {' or '.join(expected)}; {self._help()}"
        if text.startswith("Not a valid subclass"):
            return self._about_class(place, text)
        return f"{place}: {shortened(text, 160)}; {self._help()}"

    def _about_class(self, place: str, text: str) -> str:
        last = self.problem.path[-1]
        named = re.search(r"Expected a dot import path string: (\S+)|import path format: (\S+)", text)
        value = last.name if last.is_class else (named[1] or named[2]) if named else self.problem.value or ""
        if value.endswith(ENDINGS):
            return self._about_file(place, value)
        bases = [base for base, _ in bases_of(self._members(last))]
        choices = [name for base in bases for name in derived_names(base)]
        kind = f"subclass of {' or '.join(dict.fromkeys(base.__name__ for base in bases))}" if bases else "class"
        if abstract := re.search(r"(\S+) is abstract", text):
            return f"{place} {abstract_class_problem(_imported(abstract[1]), choices)}"
        reason = re.search(r"No module named '[^']+'|has no attribute '[^']+'", text)
        detail = f" ({reason[0]})" if reason else ""
        no_module = detail.startswith(" (No module") and "." in value
        what = f"which cannot be imported{detail}" if no_module else f"not a {kind}{detail}"
        short = value.rpartition(".")[2]
        listed = f"choose one of {listed_choices(choices, short)}, or a dotted path" if choices else "correct the name"
        return f"{place} is {shortened(value)!r}, {what}: {listed}"

    def _about_file(self, place: str, value: str) -> str:
        kind = next((node.name.rpartition(".")[2] for node in reversed(self.problem.path) if not node.is_class), "")
        if kind in FOLDERS:
            name = value.rpartition("/")[2]
            try:
                find_part(name, kind)
            except ValueError as error:
                return shortened(f"{place}: {error}".replace(repr(name), repr(value)), 280)
            return f"{place}: there is no file {value}; give only the name of the file, or correct its folder"
        return f"{place}: there is no file {value}, relative to the folder of the file that names it: correct the path"

    def _help(self) -> str:
        """Returns the end of an error message: the help command for the arguments of one class, or for all options."""
        if self.owner is None:
            return f"{self.command} --help lists all options"
        top, first = self.problem.path[0], self.problem.path[1] if len(self.problem.path) > 1 else None
        known = self.owner.name.startswith(("lightning_xai.", "lightning.", "torch."))
        short = _short(self.owner) if known else self.owner.name  # a user's own class needs its dotted path
        if first is self.owner:
            return f"{self.command} --{top.name}.help {short} lists its arguments"
        return f"run.py --help {short} lists its arguments"

    def _classes_with(self, argument: str) -> str:
        """Returns text in parentheses that lists the classes that have this argument.

        A class is listed only if it is imported and allowed in place of the class that lacks the argument. Returns ""
        if no class has the argument, or if more than MOST_CLASSES (4) have it.
        """
        assert self.owner is not None
        argument = argument.partition(".")[0]
        bases = [base for base, _ in bases_of(self._members(self.owner))]
        classes = {derived for base in bases for derived in derived_classes(base)}
        named = sorted(c.__name__ for c in classes if argument in _annotations_of(c))
        return f" ({argument} is an argument of {', '.join(named)})" if 0 < len(named) <= MOST_CLASSES else ""

    def _place(self) -> str:
        """Returns the dotted key with the problem, such as "trainer.callbacks[Heatmaps].init_args.splits".

        Brackets after the key of a list or mapping hold the class of the item that has the problem.
        """
        parts: list[str] = []
        for node in self.problem.path:
            if not node.is_class:
                parts.append(node.name)
            elif node.name and parts and self._is_item(node):
                parts[-1] += f"[{_short(node)}]"
        place = ".init_args.".join(parts)
        links = getattr(getattr(self.parser, "_links_group", None), "_group_actions", [])
        sources = {link._target: link._source[0] for link in links if isinstance(link, ActionLink)}
        # if the parser copied the value to `place` from another key, the message names that key, which the user set
        return sources.get(place, place)

    def _members(self, node: Node) -> list[Any]:
        """Returns the declared types of a key's value and, for lists and mappings among them, the types of their items.

        If `node` is a class, the key is the one whose value names this class.
        """
        at = self.problem.path.index(node)
        key = node if not node.is_class else self.problem.path[at - 1]
        members = list(alternatives(self.hints.get(key))) if self.hints.get(key) is not None else []
        return members + _items(members)

    def _is_item(self, node: Node) -> bool:
        key = self.problem.path[self.problem.path.index(node) - 1]
        members = list(alternatives(self.hints.get(key))) if self.hints.get(key) is not None else []
        return bool(bases_of(_items(members)))

    def _declared_types(self) -> dict[Node, Any]:
        """Returns key -> declared type, for the configuration keys that lead to the problem."""
        hints: dict[Node, Any] = {}
        owner: Node | None = None
        for node in self.problem.path:
            if node.is_class:
                owner = node
            elif owner is None:
                actions = [action for action in self.parser._actions if action.dest == node.name]
                hints[node] = getattr(actions[0], "_typehint", None) if actions else None
            else:
                hints[node] = self._annotations(owner).get(node.name)
        return hints

    def _annotations(self, owner: Node) -> dict[str, Any]:
        built = _imported(owner.name)
        return {} if built is None else _annotations_of(built)

    def _arguments_of(self, owner: Node) -> list[str]:
        """Returns the names of those arguments of a class that a user may give.

        If the declared type is a Callable, the first arguments of the class are left out, because the code that calls
        the Callable passes them.
        """
        members = self._members(owner)
        given = [get_args(hint)[0] for hint in members if is_callable_type(hint) and get_args(hint)]
        skipped = len(given[0]) if given and isinstance(given[0], list) else 0
        return list(self._annotations(owner))[skipped:]


def _items(members: Sequence[Any]) -> list[Any]:
    hints = [hint for key in (None, "") for hint in item_types(members, key)]
    return [member for hint in hints for member in alternatives(hint)]


def _may_be_class(value: str | None) -> bool:
    """Returns whether a value looks like the name of a class or of a YAML file, not like a number or another word."""
    name = (value or "").rpartition(".")[2]
    return name[:1].isupper() or (value or "").endswith(ENDINGS)


def _imported(path: str) -> Any:
    """Returns the object that a dotted path names; None if it cannot be imported."""
    try:
        return import_object(path)
    except (ImportError, AttributeError, ValueError):
        return None


def _annotations_of(built: Any) -> dict[str, Any]:
    """Returns the annotation of each argument of a class or function."""
    return {parameter.name: parameter.annotation for parameter in get_signature_parameters(built, logger=False)}


def _short(node: Node) -> str:
    return node.name.rpartition(".")[2]


def _expected(sentences: Iterable[str]) -> list[str]:
    """Returns, in plain words, the types that the sentences of a parser's error message say were expected."""
    types: list[str] = []
    for sentence in sentences:
        built_in = re.match(r"Expected an? <class '(\w+)'>", sentence)
        literal = re.match(r"Expected an? typing.Literal\[(.*)\]", sentence)
        other = re.match(r"Expected (an? tuple with \d+ elements)", sentence)
        if built_in:
            types.append(TYPES.get(built_in[1], built_in[1]))
        elif literal:
            types.append(f"{'one of ' * (',' in literal[1])}{literal[1]}".replace("'", ""))
        elif other:
            types.append(other[1])
    return list(dict.fromkeys(types))
