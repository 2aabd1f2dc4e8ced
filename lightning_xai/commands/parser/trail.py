"""Reads the parser's error messages. They are trees of keys and class paths, with sentences as leaves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile

NOISE = (
    "Does not validate", "Subtypes:", "Errors:", "Given value type:", "Subclass types expect", "a class path (",
    "a dict ", "Expected a <class 'NoneType'>",
)  # fmt: skip
_KEY = re.compile(r'Parser key "([^"]+)":')
_CLASS = re.compile(r"Problem with given class_path '([^']+)':")
_CALLABLE = re.compile(r"expects a function or a callable class: ")
_BUILT = re.compile(r"(?:Got|Given) value: Namespace\(class_path='([^']+)'")
_SPEC = re.compile(r"\.? Got value: Namespace\(class_path=")
_GOT = re.compile(r"\.? Got value: (.*)")


@dataclass(eq=False)
class Node:
    """A key or a class of a configuration, as a node of the parser's error message.

    Args:
        indent: number of spaces before the node's line in the message.
        name: the key, or the class path.
        is_class: whether the node is a class.
        value: value of the key; None if the message does not show it.

    Example:
        >>> Node(0, "seed_everything", is_class=False).value is None
        True
    """

    indent: int
    name: str
    is_class: bool
    value: str | None = None


@dataclass(frozen=True)
class Problem:
    """The most likely cause of a parser's error message.

    If the declared type of an argument is a union, the parser's message names a problem for each type in the union,
    although the user meant only one of these types.

    Args:
        path: keys and classes that lead to the problem, from the outermost to the innermost.
        sentences: the parser's sentences about the last node of `path`.

    Example:
        >>> Problem([Node(0, "seed", False)], ["Expected a <class 'int'>"]).value is None
        True
    """

    path: list[Node]
    sentences: list[str]

    @property
    def value(self) -> str | None:
        """The value that the parser rejected; None if the message does not show it."""
        innermost = list(takewhile(lambda node: not node.is_class, reversed(self.path)))
        return next((node.value for node in innermost if node.value is not None), None)


def read_problem(message: str) -> Problem | None:
    """Returns the most deeply nested problem in a message, or None if the message names no key.

    If the declared type of an argument is a union, the message has a branch for each type in the union. The deepest
    branch is probably about the type that the user meant.

    Example:
        >>> message = '''Parser key "model":
        ...   Does not validate against any of the Union subtypes
        ...   Errors:
        ...     - Problem with given class_path 'a.Net':
        ...         Parser key "dropout":
        ...           Expected a <class 'float'>. Got value: high
        ...     - Expected a <class 'NoneType'>'''
        >>> problem = read_problem(message)
        >>> [node.name for node in problem.path], problem.sentences, problem.value
        (['model', 'a.Net', 'dropout'], ["Expected a <class 'float'>"], 'high')
    """
    stack: list[Node] = []
    leaves: list[tuple[list[Node], str]] = []
    for number, line in enumerate(lines := message.splitlines()):
        text = line.strip()
        indent = _indent(line)
        if not text:
            continue
        while stack and stack[-1].indent >= indent:
            stack.pop()
        text = text.removeprefix("- ")
        if text.startswith("Given value:") and stack:
            given = _SPEC.split(text.removeprefix("Given value:").strip())[0]
            nested = re.match(r"NestedArg\(key='[^']*', val=(.*)\)", given)
            stack[-1].value = stack[-1].value or (nested[1].strip("'\"") if nested else given)
            continue
        if text.startswith(NOISE):
            continue
        while text:
            key, built = _KEY.match(text), _CLASS.match(text)
            called = _CALLABLE.search(text)
            if key or built:
                key_or_class = key or built
                assert key_or_class is not None
                stack.append(Node(indent, key_or_class[1], is_class=built is not None))
                text = text[key_or_class.end() :].strip()
            elif called:
                path = _built_class(lines, number)
                if path:
                    stack.append(Node(indent, path, is_class=True))
                text = text[called.end() :]
            else:
                text = _SPEC.split(text)[0]
                got = _GOT.search(text)
                if got and stack:
                    stack[-1].value = got[1]
                leaves.append((list(stack), _GOT.split(text)[0]))
                break
    deepest = max((len(path) for path, _ in leaves), default=0)
    if not deepest:
        return None
    first = next(path for path, _ in leaves if len(path) == deepest)
    sentences = [text for path, text in leaves if len(path) == deepest and path[-1] is first[-1]]
    return Problem(first, list(dict.fromkeys(sentences)))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _built_class(lines: list[str], number: int) -> str | None:
    """Returns the path of the class that line `number` is about; None if the message shows no class path.

    The class paths are in values at the ends of lines. The search begins in a block: line `number` and the lines
    indented below it. The last class path in the block is the result; paths before it belong to nested classes. A block
    without a class path is about one type of a union. The parser shows the value once, after the blocks of all types of
    the union, so the result is then the first class path after the block.
    """
    below = takewhile(lambda line: _indent(line) > _indent(lines[number]), lines[number + 1 :])
    own = _BUILT.findall("\n".join([lines[number], *below]))
    return own[-1] if own else next(iter(_BUILT.findall("\n".join(lines[number:]))), None)
