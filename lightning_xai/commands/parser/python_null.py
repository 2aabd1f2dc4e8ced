"""Reads None as null in the values of command-line options."""

from __future__ import annotations

import yaml


def with_null(text: str) -> str:
    """Returns the YAML text of an option's value, with null in place of None. Quoted texts are not changed.

    jsonargparse writes null as None in the value of an option that belongs to a class inside another class, such as
    --data.init_args.source.init_args.class_names. Texts of several lines, such as those of files, are returned
    unchanged, because None in a file may be the name of a class.

    Example:
        >>> with_null("None")
        'null'
        >>> with_null("{'far': {'joy': None, 'None': 'None'}}")
        "{'far': {'joy': null, 'None': 'None'}}"
    """
    if "None" not in text or "\n" in text.strip():
        return text
    try:
        tokens = [token for token in yaml.scan(text, Loader=yaml.SafeLoader) if isinstance(token, yaml.ScalarToken)]
    except yaml.YAMLError:
        return text  # the reader of the option raises a better error
    for token in reversed(tokens):
        if token.plain and token.value == "None":
            text = text[: token.start_mark.index] + "null" + text[token.end_mark.index :]
    return text
