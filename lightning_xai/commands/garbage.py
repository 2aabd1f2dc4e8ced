"""Pauses Python's garbage collector while a command starts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Pauses the collector inside the block, unless it is off already.

    Imports and parsers make many objects that stay. The collector would examine them again and again, for a quarter of
    the start-up time. If the block imports modules, the collector also leaves out all present objects later.

    Example:
        >>> with without_collections():
        ...     gc.isenabled()
        False
        >>> gc.isenabled()
        True
    """
    was_on, num_modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > num_modules:
            gc.freeze()
        if was_on:
            gc.enable()
