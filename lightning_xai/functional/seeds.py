"""Random numbers that depend on the example, but not on the batch, the process or earlier random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from lightning_xai.types import TextInputs


def check_seed(seed: int) -> None:
    """Checks that `seed` is not negative.

    Raises:
        ValueError: `seed` is negative.

    Example:
        >>> check_seed(-1)
        Traceback (most recent call last):
        ValueError: seed is -1: give an integer of at least 0
    """
    if seed < 0:
        raise ValueError(f"seed is {seed}: give an integer of at least 0")


def example_indices(inputs: TextInputs) -> list[int] | list[None]:
    """Returns the indices of the B examples as a list. If the inputs have no index, every entry of the list is None.

    Example:
        >>> example_indices(TextInputs.of_ids([[5, 6], [7, 8]]))
        [0, 1]
    """
    return [None] * len(inputs) if inputs.index is None else inputs.index.tolist()


def example_generator(
    seed: int, index: int | None, method: str, stream: Sequence[int] | None = None
) -> np.random.Generator:
    """Returns a random generator for an example. The generated numbers depend only on the arguments.

    Args:
        seed: seed of the method, non-negative.
        index: index of the example in its split.
        method: name of the method, for the error message and for the default of `stream`.
        stream: integers that distinguish this generator from others with the same seed and index, for example a class
            id or the index of a sample. The default is the bytes of `method`.

    Raises:
        ValueError: `index` is None.

    Example:
        >>> example_generator(0, 7, "LIME").integers(10, size=4).tolist()
        [9, 0, 8, 6]
        >>> example_generator(0, 8, "LIME").integers(10, size=4).tolist()
        [5, 9, 0, 6]
    """
    if index is None:
        raise ValueError(
            f"inputs.index is None, but {method} needs it as seed: set inputs.index to each example's row in the split"
        )
    return np.random.default_rng([seed, index, *(method.encode() if stream is None else stream)])


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Sets the seed of the global random generators of torch and numpy at the start of the context.

    At the end of the context, the former states of these generators are restored.

    Example:
        >>> with global_seed(3):
        ...     first = torch.rand(1), np.random.rand()
        >>> with global_seed(3):
        ...     print(first == (torch.rand(1), np.random.rand()))
        True
    """
    numpy_state = np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
