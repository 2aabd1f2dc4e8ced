"""Turns errors of the parser and of libraries into one-line messages for users."""

from __future__ import annotations

import re
import traceback
from argparse import ArgumentError
from pathlib import Path

from omegaconf.errors import OmegaConfBaseException

from lightning_xai.commands.library_errors import library_message

PACKAGE = Path(__file__).parents[1]
OTHER_TYPE = (  # phrases with which the parser reports a value of a wrong type
    "Expected a", "Does not validate", "Not a valid subclass", "Problem with given class_path",
    "a class path ", "a dict ",
)  # fmt: skip


_FOREIGN_CLASS = re.compile(  # two forms of the parser's message about a class with a wrong base class
    r"Import path (?P<path>\S+) does not correspond to a subclass of (?P<base>\w+)"
    r"|Expected '(?P<name>[\w.]+)' to be a (?:subclass of|function that returns) "
    r"(?:<class '|Union\[)?(?P<returned>[\w.]+(?:(?:, | \| )[\w.]+)*)"
)


def foreign_class(message: str) -> str | None:
    """Rewords, as one line, a parser's message that a class has the wrong base class. Returns None for other messages.

    Example:
        >>> nested = 'Parser key "model":\\n  Parser key "network":\\n    Import path '
        >>> foreign_class(nested + "os.system does not correspond to a subclass of Classifier")
        'model.init_args.network names os.system, which is not a class derived from Classifier'
    """
    matches = list(_FOREIGN_CLASS.finditer(message))
    if not matches:
        return None
    key = ".init_args.".join(re.findall(r'Parser key "([^"]+)"', message[: matches[0].start()]))
    named = (match["base"] or re.sub(r", | \| ", " or ", match["returned"].rstrip(".")) for match in matches)
    bases = " or ".join(dict.fromkeys(named))
    return f"{key} names {matches[0]['path'] or matches[0]['name']}, which is not a class derived from {bases}"


def unknown_argument(message: str) -> str | None:
    """Rewords Python's message about an unknown argument, and says that `dict_kwargs` must not contain this argument.

    Returns None for other messages.

    Example:
        >>> unknown_argument("LIME.__init__() got an unexpected keyword argument 'num_sampels'")
        'num_sampels is not an argument of LIME: remove it from dict_kwargs'
    """
    match = re.search(r"(?:(\w+)\.__init__\(\) )?got an unexpected keyword argument '(\w+)'", message)
    if match is None:
        return None
    return f"{match[2]} is not an argument of {match[1] or 'the class'}: remove it from dict_kwargs"


def one_line(message: str) -> str:
    """Returns a parser's message as one line, without the list of types that the parser tried. Long lines are cut.

    Example:
        >>> one_line("Parser key 'seed':\\n  Subtypes: (int, bool)\\n  - not a number")
        "Parser key 'seed': not a number"
    """
    known = foreign_class(message) or unknown_argument(message)
    if known is not None:
        return known
    noise = ("Does not validate", "Subtypes:", "Errors:", "Given value type:", "- Expected a <class 'NoneType'>")
    lines = [line.strip().removeprefix("- ") for line in message.splitlines() if not line.strip().startswith(noise)]
    shown = [line if len(line) < 120 else f"{line[:117]}..." for line in lines if line]
    return " ".join(shown)


def reasons(message: str) -> str:
    """Returns those sentences of a parser's message that explain the error.

    If a declared type has alternatives, the parser also lists an error for each alternative that the user did not mean.
    These errors are left out. If no sentence is left, the whole message is returned as one line.

    Example:
        >>> reasons("Errors:\\n  - Expected a <class 'float'>\\n  - num_points is 1: give at least 2")
        'num_points is 1: give at least 2'
    """
    listed = [line.strip()[2:] for line in message.splitlines() if line.strip().startswith("- ")]
    relevant = [line for line in listed if not line.startswith(OTHER_TYPE) and "__init__() " not in line]
    return "; ".join(dict.fromkeys(unknown_argument(line) or line for line in relevant)) or one_line(message)


def message_for_user(error: BaseException) -> str | None:
    """Returns a one-line message for an error that the user can correct, and None for other errors.

    Users can correct errors of the parser, ValueErrors of this package, and the errors listed in `library_errors`.

    Example:
        >>> from lightning_xai.runs.stores.store import RaggedStore
        >>> try:
        ...     RaggedStore("no/such/folder")
        ... except ValueError as error:
        ...     message_for_user(error)
        'no/such/folder is not a store (it has no store.json): check the path'
    """
    if isinstance(error, ArgumentError):
        return str(error)
    from_parser = _is_of_parser(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ValueError) and _raised_in(cause).is_relative_to(PACKAGE):
            return " ".join(str(cause).split("\n"))
        cause = (cause.__cause__ or cause.__context__) if from_parser else None  # the parser may wrap errors
    if isinstance(error, OmegaConfBaseException):
        reason = str(error).splitlines()[0]
        return f"{error.full_key or 'a setting'}: {reason}; define the key that ${{...}} names, or correct the name"
    if from_parser and isinstance(error, ValueError):
        return reasons(str(error))
    return library_message(error)


def _is_of_parser(error: BaseException) -> bool:
    return not {"jsonargparse", "omegaconf"}.isdisjoint(_raised_in(error).parts)


def _raised_in(error: BaseException) -> Path:
    """Returns the source file that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename) if frames else Path()
