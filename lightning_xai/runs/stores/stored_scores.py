"""Reads the attribution scores that runs have stored, and checks that the scores of several runs are comparable."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np

from lightning_xai.runs.encoder_facts import EncoderFacts, check_positions
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.stores.store import RaggedStore, is_store, stores_in

TOKEN_MASKS = "tokens"  # subfolder of a store of scores: which tokens may be explained
TEXT_HASHES = "hashes"  # subfolder of a store of scores: hashes of the texts
METHOD_WEIGHTS = "method_weights"  # key of a store's metadata: the hash of weights that the method itself has
CLASS_NAMES = "class_names"  # key of a store's metadata: the names of the classes 0, 1, ...
NO_CLASS = 0  # placeholder for the class in the keys of token masks and text hashes, which all classes share


def text_hash(input_ids: np.ndarray) -> np.ndarray:
    """Returns a hash of a text's token ids [T] without padding, as four integers that float32 represents exactly.

    Example:
        >>> text_hash(np.array([1, 5, 2])).tolist(), text_hash(np.array([1, 6, 2])).tolist()
        ([20198.0, 33198.0, 46907.0, 2701.0], [7355.0, 64483.0, 62534.0, 64926.0])
    """
    digest = hashlib.sha256(np.ascontiguousarray(input_ids, dtype="<i4").tobytes()).digest()
    return np.frombuffer(digest[:8], dtype="<u2").astype(np.float32)


class StoredScores(RaggedStore):
    """Reads the stored scores of one method on one split. A row holds the scores for a key (example index, class).

    Args:
        path: folder of a store that AttributionCacheWriter has written.

    Raises:
        ValueError: the folder holds no scores.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> folder = tempfile.TemporaryDirectory()
        >>> with RaggedWriter(folder.name, metadata={"method": {"class": "Gradient"}}) as writer:
        ...     writer.add(3, 1, np.array([0.5, 2.0]))
        >>> scores = StoredScores(folder.name)
        >>> scores.require_method({"class": "Gradient"}, examples=None)
        >>> scores.row((3, 1), length=2, reference="this run").tolist()
        [0.5, 2.0]
    """

    def __init__(self, path: str | Path) -> None:
        if not is_store(Path(path)):
            raise ValueError(
                f"{path} holds no scores: test that run with the same methods and an AttributionCacheWriter"
            )
        super().__init__(path)

    def require_method(
        self,
        settings: dict[str, Any] | None,
        examples: str | None,
        encoder: EncoderFacts | None = None,
        class_names: list[str] | None = None,
    ) -> None:
        """Raises ValueError unless the scores fit these method settings, examples, encoder and classes.

        `settings` is always compared. Another argument is compared only if it is not None and the store records it.

        Args:
            settings: expected class and arguments of the method.
            examples: expected hash of the split's examples.
            encoder: facts about the expected encoder.
            class_names: expected names of the classes 0, 1, ... Only equal names in another order are an error.
        """
        stored_names = self.metadata.get(CLASS_NAMES)
        if stored_names is not None and class_names is not None and stored_names != class_names:
            # Different names are accepted: they may mean the same classes. Equal names in another order are an error.
            if sorted(stored_names) == sorted(class_names):
                raise ValueError(
                    f"{self.path} holds scores of classes in the order {stored_names[:10]}, not {class_names[:10]}: "
                    "give the sources of all runs the same class_names"
                )
        if encoder is not None:
            check_positions(self.metadata.get("encoder"), encoder, str(self.path))
        stored = self.metadata.get("method")
        if stored != settings:
            raise ValueError(
                f"{self.path} holds scores by {stored}, not by {settings}: use the same method settings in all runs"
            )
        stored_examples = self.metadata.get("examples")
        if None not in (examples, stored_examples) and stored_examples != examples:
            raise ValueError(
                f"{self.path} holds scores of other examples: use the same source, encoder, seed, max_examples and "
                "stratify in all runs"
            )

    def row(self, key: tuple[int, int], length: int, reference: str) -> np.ndarray:
        """Returns the scores [length] of an example and class as a memory map.

        Args:
            key: (index of the example, class).
            length: expected number of tokens, which is the example's number of tokens in the run `reference`.
            reference: name of the run with which the scores are compared, for error messages.

        Raises:
            ValueError: the scores are not stored, or have another number of tokens.
        """
        if key not in self:
            raise ValueError(
                f"{self.path} has no scores for class {key[1]} of the example with index {key[0]}: explain the same "
                "examples and classes in all runs, with `targets: gold`"
            )
        values = self.get(*key)
        if len(values) != length:
            raise ValueError(
                f"{self.path} has {len(values)} tokens for the example with index {key[0]}, but {reference} has "
                f"{length}: use the same encoder in all runs"
            )
        return values

    def require_examples(self, needed: np.ndarray, *, among: np.ndarray, reference: str) -> None:
        """Raises ValueError unless scores are stored for the examples `needed`, and for no example outside `among`.

        Args:
            needed, among: indices [N] of examples.
            reference: name of the run that explains these examples, for error messages.
        """
        for examples in (np.setdiff1d(needed, self.examples), np.setdiff1d(self.examples, among)):
            if len(examples):
                has = "has scores" if examples[0] in self.examples else "has no scores"
                raise ValueError(
                    f"{self.path} {has} for the example with index {examples[0]}, unlike {reference} "
                    f"({len(examples):,} such examples): use the same max_examples and limit_test_batches in all runs"
                )

    def require_rows_among(self, keys: Container[tuple[int, int]], reference: str) -> None:
        """Raises ValueError if scores of a key (example, class) are stored, but the run `reference` lacks the key."""
        for index, target in self.keys():
            if (index, target) not in keys:
                raise ValueError(
                    f"{self.path} has scores for class {target} of the example with index {index}, which {reference} "
                    "does not explain: use the same max_examples and targets in all runs"
                )

    def token_masks(self) -> RaggedStore:
        """Returns a store with a token mask for each example. A mask is 1 where a token may be explained.

        The store's keys are (example index, NO_CLASS), because the masks are the same for all classes.

        Raises:
            ValueError: the mask of an example is missing. Earlier versions of this package stored no masks.
        """
        folder = self.path / TOKEN_MASKS
        masks = RaggedStore(folder) if is_store(folder) else None
        for index, _ in self.keys():
            if masks is None or (index, NO_CLASS) not in masks:
                raise ValueError(
                    f"{self.path} does not tell which tokens of the example with index {index} may be explained: test "
                    "that run again to add the token masks"
                )
        return RaggedStore(folder) if masks is None else masks


def stored_methods(run: Path) -> list[tuple[str, str]]:
    """Returns the sorted pairs (split, method) for which scores are stored in a run's folder or in a `cache_dir`.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> folder = Path(tempfile.mkdtemp())
        >>> RaggedWriter(folder / "attributions" / "test" / "gradient").close()
        >>> stored_methods(folder)
        [('test', 'gradient')]
    """
    return [(path.parent.name, path.name) for path in stores_in(_scores_dir(run), depth=2)]


def open_scores(run: Path, split: str, method: str) -> StoredScores:
    """Returns the stored scores of a method on a split, from a run's folder or from a `cache_dir`.

    Raises:
        ValueError: the folder has no such scores.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> folder = Path(tempfile.mkdtemp())
        >>> with RaggedWriter(folder / "attributions" / "test" / "gradient") as writer:
        ...     writer.add(3, 1, np.array([0.5, 2.0]))
        >>> open_scores(folder, "test", "gradient").keys()
        [(3, 1)]
    """
    return StoredScores(_scores_dir(run) / split / method)


def _scores_dir(run: Path) -> Path:
    scores_dir = RunFolder(run).attributions_dir
    return scores_dir if scores_dir.is_dir() else run
