"""Shortens an error of transformers or peft to one line, for messages about a file that these packages refuse."""

from __future__ import annotations


def first_line_of(error: Exception) -> str:
    """Returns the first line of an error's text, or the name of the error's class if the text is empty.

    The text of a KeyError follows the name of its class. If torch refuses pickled code, a sentence about this replaces
    torch's text.

    Example:
        >>> [first_line_of(error) for error in (ValueError("no such key\\nsecond line"), KeyError("size"), EOFError())]
        ['no such key', "KeyError 'size'", 'EOFError']
    """
    text = str(error).strip()
    if "weights_only" in text:  # torch's own message would advise users to run the file's code
        return "the file is damaged or holds pickled code, which is not run"
    name = type(error).__name__
    return (f"{name} {text}" if isinstance(error, KeyError) else text.splitlines()[0]) if text else name
