"""The suffix that a command adds to the names of the files that it writes, so that they do not replace other files."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from lightning import Trainer

from lightning_xai.callbacks.base import callbacks_of


@runtime_checkable
class NamesFiles(Protocol):
    """A callback that knows the suffix of the files that its command writes.

    Example:
        >>> from lightning_xai.callbacks.results import ResultsFile
        >>> from lightning_xai.runs.facts import RunFacts
        >>> results = ResultsFile(RunFacts("tm", seed=0))  # before `begin`, the suffix is empty
        >>> isinstance(results, NamesFiles), results.file_suffix
        (True, '')
    """

    @property
    def file_suffix(self) -> str:
        """The suffix of the files that the command writes, such as "_0a1b"; "" if their names have no suffix."""
        ...


def file_suffix_of(trainer: Trainer) -> str:
    """Returns the suffix of the files that the trainer's command writes; "" if no callback knows one.

    Example:
        >>> file_suffix_of(Trainer(accelerator="cpu", logger=False))
        ''
    """
    return next((part.file_suffix for part in callbacks_of(trainer) if isinstance(part, NamesFiles)), "")
