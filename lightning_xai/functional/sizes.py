"""Checks the sizes that users set: batch sizes, the number of examples and the number of processes."""

from __future__ import annotations

from collections.abc import Mapping


def require_sizes(**sizes: int | None) -> None:
    """Checks that each given size, such as `batch_size`, is at least 1 or None. None means that there is no limit.

    Raises:
        ValueError: a size is below 1.

    Example:
        >>> require_sizes(batch_size=8, max_tokens_per_batch=None)
    """
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} is {size}: give a number of at least 1")


def require_workers(num_workers: int) -> None:
    """Checks that the number of processes that load data is not negative.

    Raises:
        ValueError: `num_workers` is negative.

    Example:
        >>> require_workers(0)
    """
    if num_workers < 0:
        raise ValueError(
            f"num_workers is {num_workers}: give 0 to load data in the main process, or a number of extra processes"
        )


def require_max_examples(max_examples: int | Mapping[str, int] | None) -> None:
    """Checks that the limit on the number of examples, or the limit for each split, is at least 1 or None.

    Raises:
        ValueError: a limit is below 1.

    Example:
        >>> require_max_examples(100)
        >>> require_max_examples({"train": 0})
        Traceback (most recent call last):
        ValueError: max_examples.train is 0: give a number of at least 1
    """
    if isinstance(max_examples, Mapping):
        require_sizes(**{f"max_examples.{split}": size for split, size in max_examples.items()})
    else:
        require_sizes(max_examples=max_examples)


def max_examples_of(max_examples: int | Mapping[str, int] | None, split: str) -> int | None:
    """Returns the limit on the number of examples of a split, or None if the split has no limit.

    Example:
        >>> max_examples_of(100, "test"), max_examples_of({"train": 8}, "test"), max_examples_of(None, "test")
        (100, None, None)
    """
    return max_examples.get(split) if isinstance(max_examples, Mapping) else max_examples
