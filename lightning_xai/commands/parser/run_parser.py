"""The parser of the commands fit, validate, test and predict."""

from __future__ import annotations

from typing import Any

import yaml
from jsonargparse import ArgumentParser, Namespace
from lightning.pytorch.cli import LightningArgumentParser

from lightning_xai.commands.parser.class_checks import ChecksClasses


class RunParser(ChecksClasses, LightningArgumentParser):
    """Lightning's parser, extended: it checks all classes of a configuration before it builds any of them.

    Example:
        >>> RunParser(exit_on_error=False).parse_object({})
        Namespace()
    """


def as_data(parser: ArgumentParser, config: Namespace) -> dict[str, Any]:
    """Returns a parsed configuration as plain values, without checking it again.

    Example:
        >>> parser = RunParser(exit_on_error=False)
        >>> seed = parser.add_argument("--seed", type=int, default=0)
        >>> as_data(parser, parser.parse_object({"seed": 3}))
        {'seed': 3}
    """
    options: dict[str, bool] = {"skip_unset": False, "skip_link_targets": False, "skip_validation": True}
    return yaml.safe_load(parser.dump(config, format="yaml", **options))
