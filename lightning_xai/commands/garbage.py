"""Pauses Python's garbage collector while a command starts."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections(*, freeze: bool = False) -> Iterator[None]:
    """Context manager that pauses the garbage collector, unless it is off already.

    Imports and parsers create many objects that live as long as the process. The collector would examine them again and
    again, which takes a quarter of the start-up time.

    Args:
        freeze: if True, and if the block imports modules, the collector will forever ignore all objects that exist at
            the end of the block. Set this only at the start of a process; otherwise, objects of a run could also stay
            in memory forever.

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
        if freeze and len(sys.modules) > num_modules:
            gc.freeze()
        if was_on:
            gc.enable()
