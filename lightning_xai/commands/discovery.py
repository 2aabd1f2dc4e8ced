"""Finding the package's classes."""

from __future__ import annotations

import importlib
import pkgutil

import lightning_xai


def import_all() -> None:
    """Imports every module of the package, so that its classes are known by their short names."""
    for package in ("data", "data.sources", "models", "attributions", "metrics", "objectives", "callbacks", "chains"):
        parent = importlib.import_module(f"{lightning_xai.__name__}.{package}")
        for module in pkgutil.iter_modules(parent.__path__, f"{parent.__name__}."):
            importlib.import_module(module.name)
