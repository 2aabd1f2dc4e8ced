"""The locks that commands take: a fit locks its run's folder; other commands lock a results file or stored scores."""

from __future__ import annotations

from pathlib import Path

from lightning_xai.runs.files.whole_files import remove_partial_files
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.locks.lock import (
    FOLDER_LOCK,
    PATIENCE_SECONDS,
    WAIT,
    follow,
    release,
    remove_claims,
    require_free,
    take,
)

OTHER_CACHE = "wait until that command has ended, stop it, or set another cache_dir"


def own_run(run: RunFolder, *, is_first: bool = True, patience: float = PATIENCE_SECONDS) -> None:
    """Takes the lock of a run's folder for a fit.

    Args:
        run: the run.
        is_first: whether this is the first process of the command. Other processes do not take the lock; see `follow`.
        patience: an owner on another machine counts as dead if its lock file does not change for this many seconds.

    Raises:
        ValueError: another command owns the folder, or is writing results or scores there.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.locks.lock import release
        >>> run = RunFolder(Path(tempfile.mkdtemp()))
        >>> own_run(run)
        >>> run.lock_file.exists(), release(), run.lock_file.exists()
        (True, None, False)
    """
    if not is_first:
        follow(run.lock_file, patience=patience)
        return
    take(run.lock_file, patience=patience)
    for file in [*run.path.glob("results*.lock"), run.attributions_dir / FOLDER_LOCK]:
        require_free(file, patience=patience)
    remove_claims(run.lock_file)
    for folder in (run.path, run.checkpoints_dir):
        remove_partial_files(folder)


def own_results(run: RunFolder, file: Path) -> None:
    """Takes the lock of a results file in a run's folder for a test.

    Raises:
        ValueError: another test is writing this file, or a fit owns the folder.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.locks.lock import release
        >>> run = RunFolder(Path(tempfile.mkdtemp()))
        >>> own_results(run, run.results_file)
        >>> [file.name for file in run.path.iterdir()], release()
        (['results.parquet.lock'], None)
    """
    _own_within(_lock_of(file), run, WAIT)


def release_results(file: Path) -> None:
    """Releases the lock of a results file.

    Example:
        >>> release_results(Path("runs/tm/seed0/results.parquet"))
    """
    release(_lock_of(file))


def own_scores(folder: Path, run: RunFolder) -> None:
    """Takes the lock of a folder with attribution scores, so that no other command stores scores there.

    Args:
        folder: the folder, in the run's folder or elsewhere.
        run: the run whose attributions the command stores.

    Raises:
        ValueError: another command is writing to `folder`, or `folder` is in the run's folder, which a fit owns.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.locks.lock import release
        >>> folder = Path(tempfile.mkdtemp())
        >>> own_scores(folder, RunFolder(Path("runs/tm/seed0")))
        >>> [file.name for file in folder.iterdir()], release()
        (['owner.lock'], None)
    """
    _own_within(folder / FOLDER_LOCK, run, OTHER_CACHE)


def release_scores(folder: Path) -> None:
    """Releases the lock of a folder of attribution scores.

    Example:
        >>> release_scores(Path("runs/tm/seed0/attributions"))
    """
    release(folder / FOLDER_LOCK)


def _lock_of(file: Path) -> Path:
    return file.parent / f"{file.name}.lock"


def _own_within(lock: Path, run: RunFolder, remedy: str) -> None:
    take(lock, remedy=remedy)
    if lock.absolute().is_relative_to(run.path.absolute()):
        require_free(run.lock_file)
