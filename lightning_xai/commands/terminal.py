"""Error messages for users, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def one_line(message: str) -> str:
    """Returns a parser's message in one line, without the types that the parser tried; long parts are cut.

    Example:
        >>> one_line("Parser key 'seed':\\n  Subtypes: (int, bool)\\n  - not a number")
        "Parser key 'seed': not a number"
    """
    noise = ("Does not validate", "Subtypes:", "Errors:", "Given value type:", "- Expected a <class 'NoneType'>")
    lines = [line.strip().removeprefix("- ") for line in message.splitlines() if not line.strip().startswith(noise)]
    shown = [line if len(line) < 120 else f"{line[:117]}..." for line in lines if line]
    return " ".join(shown)


def message_for_user(error: BaseException) -> str | None:
    """Returns the message in one line if this package raised the error as a ValueError, else None.

    Example:
        >>> from lightning_xai.runs.store import RaggedStore
        >>> try:
        ...     RaggedStore("no/such/folder")
        ... except ValueError as error:
        ...     message_for_user(error)
        'no/such/folder is not a store (it has no store.json): check the path'
    """
    cause: BaseException | None = error
    while cause is not None and "jsonargparse" in _raised_in(cause).parts:  # jsonargparse wraps errors of constructors
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ValueError) and _raised_in(cause).is_relative_to(PACKAGE):
        return " ".join(str(cause).split("\n"))
    return None


def _raised_in(error: BaseException) -> Path:
    """Returns the source file that raised an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename) if frames else Path()
