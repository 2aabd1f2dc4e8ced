"""Imports all classes that a configuration may name."""

from __future__ import annotations

import importlib
import pkgutil

import lightning_xai
from lightning_xai.commands.garbage import without_collections


def import_all() -> None:
    """Imports the packages whose classes a configuration may name, so that the parser finds them by short names.

    Example:
        >>> import sys
        >>> import_all()
        >>> "lightning_xai.attributions.gradient" in sys.modules
        True
    """
    with without_collections():
        for package in (
            "data", "data.sources", "models", "attributions", "metrics", "objectives", "objectives.terms", "callbacks",
            "chains",
        ):  # fmt: skip
            parent = importlib.import_module(f"{lightning_xai.__name__}.{package}")
            for module in pkgutil.iter_modules(parent.__path__, f"{parent.__name__}."):
                importlib.import_module(module.name)
