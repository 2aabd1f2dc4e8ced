"""The parser of the commands that carry out runs."""

from __future__ import annotations

from lightning.pytorch.cli import LightningArgumentParser

from lightning_xai.commands.class_checks import ChecksClasses


class RunParser(ChecksClasses, LightningArgumentParser):
    """Lightning's parser with a check of all classes of a configuration before any of them is built.

    Example:
        >>> RunParser(exit_on_error=False).parse_object({})
        Namespace()
    """
