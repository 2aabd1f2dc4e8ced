"""An attribution method that reads the scores that an earlier run stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.classes.class_names import class_positions, listed
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.base import Classifier
from lightning_xai.runs.encoder_facts import check_positions
from lightning_xai.runs.progress import say
from lightning_xai.runs.stores.store import RaggedStore, is_store
from lightning_xai.runs.stores.stored_scores import CLASS_NAMES, NO_CLASS, TEXT_HASHES, text_hash
from lightning_xai.types import Passes, TextInputs


def stored_scores(store: RaggedStore, inputs: TextInputs, targets: Tensor, hashes: RaggedStore | None = None) -> Tensor:
    """Returns the stored scores [B, K, T] of B texts, 0 at padding.

    Args:
        store: a store that holds, for each example and class, the scores of the text's tokens without padding.
        inputs: B texts. Their `index` identifies the examples in the store.
        targets: [B, K] long, the classes.
        hashes: a store that holds a hash of each example's text under the class NO_CLASS; None if there are no hashes.

    Raises:
        ValueError: `inputs.index` is None; the store has no scores for an example and class; the stored scores
            belong to another text; or the number of stored scores is not the text's number of tokens.

    Example:
        >>> import numpy as np, tempfile
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with RaggedWriter(folder) as writer:
        ...         writer.add(0, 1, np.array([0.5, -1.0]))  # example 0, class 1
        ...     store = RaggedStore(folder)
        ...     stored_scores(store, TextInputs.of_ids([[5, 6]]), torch.tensor([[1]]))
        tensor([[[ 0.5000, -1.0000]]])
    """
    if inputs.index is None:
        raise ValueError(
            "inputs.index is None, but scores are stored by index: set inputs.index to the texts' rows in the split"
        )
    mask, input_ids = inputs.attention_mask.cpu(), inputs.input_ids.cpu()
    scores = torch.zeros(*targets.shape, mask.shape[1])
    for row, (index, classes) in enumerate(zip(inputs.index.tolist(), targets.tolist(), strict=True)):
        length = int(mask[row].sum())
        for column, target in enumerate(classes):
            try:
                values = torch.tensor(store.get(index, target))  # a copy: the memory map is read-only
            except KeyError:
                raise ValueError(
                    f"no scores are stored for class {target} of the example with index {index}: write the cache with "
                    "the split and `targets` of this command"
                ) from None
            if len(values) != length:
                raise ValueError(
                    f"the example with index {index} has {quantity(length, 'token')}, but the store has "
                    f"{quantity(len(values), 'score')} for class {target}: write the cache with the tokenizer and "
                    "max_length of this command"
                )
            scores[row, column, mask[row]] = values
        if hashes is not None and (index, NO_CLASS) in hashes:
            if (hashes.get(index, NO_CLASS) != text_hash(input_ids[row, mask[row]].numpy())).any():
                raise ValueError(
                    f"{store.path} has the scores of another text for the example with index {index}: use the same "
                    "data, tokenizer, max_length and erasures as the run that wrote the cache"
                )
    return scores.to(inputs.device)


def require_examples(method: AttributionMethod, examples: np.ndarray) -> None:
    """Raises ValueError if `method`, or a method inside it, is a Cached method that lacks the scores of an example.

    Args:
        method: the method, as returned by `for_split`.
        examples: indices [N] of the examples to explain; each needs stored scores for at least one class.

    Example:
        >>> import tempfile
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with RaggedWriter(folder) as writer:
        ...         writer.add(0, 1, np.array([0.5, -1.0]))  # example 0, class 1
        ...     require_examples(Cached(folder), np.array([0, 1, 2]))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ... has scores of 1 of 3 examples, but not of the example with index 1: write the cache with ...
    """
    store = method._store if isinstance(method, Cached) else None
    if store is not None:
        missing = np.setdiff1d(examples, store.examples)
        if len(missing):
            raise ValueError(
                f"{store.path} has scores of {len(examples) - len(missing):,} of {len(examples):,} examples, but not "
                f"of the example with index {missing[0]}: write the cache with the same max_examples, "
                "stratify and trainer.limit_..._batches as this command, or lower the limits of this command"
            )
    for part in method.parts():
        require_examples(part, examples)


class Cached(AttributionMethod):
    """Returns the scores that an earlier run stored, without a pass through the network.

    Passes: none.

    Args:
        path: folder of the stored token scores, for example "runs/tm/seed0/attributions/{split}/AttInGrad". `for_split`
            replaces "{split}" by the name of the explained split.

    Raises:
        ValueError: there is no store at `path`, the store holds the scores of another split or of other texts, or an
            example has no scores in the store.

    Example:
        >>> import numpy as np, tempfile
        >>> from lightning_xai.runs.stores.store import RaggedWriter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with RaggedWriter(f"{folder}/test", metadata={"split": "test"}) as writer:
        ...         writer.add(0, 1, np.array([0.5, -1.0]))  # example 0, class 1
        ...     with RaggedWriter(f"{folder}/test/hashes") as writer:
        ...         writer.add(0, 0, text_hash(np.array([5, 6])))
        ...     method = Cached(folder + "/{split}").for_split("test")
        ...     method.scores(None, TextInputs.of_ids([[5, 6]]), torch.tensor([[1]]))
        tensor([[[ 0.5000, -1.0000]]])
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._store = None if "{split}" in path else RaggedStore(path)
        hashes = Path(path) / TEXT_HASHES
        self._hashes = RaggedStore(hashes) if is_store(hashes) else None
        self._is_said = False  # whether the message about missing hashes was printed
        self._data: Any = None  # data module of the explained texts; None if not known
        self._methods: dict[str, Cached] = {}  # split -> result of `for_split`, so that each store is opened only once

    @property
    def selected_on(self) -> str:
        """Name of the metric by which the stored scores were chosen; "" if none chose them, or before `for_split`."""
        stores = [method._store for method in (self, *self._methods.values()) if method._store is not None]
        return next((name for store in stores if (name := _selected_on(store.metadata.get("method", {})))), "")

    def for_split(self, split: str) -> Cached:
        """Returns the method that reads the store of `split`.

        Raises:
            ValueError: there is no store at the path, or the store holds scores of another split, from another
                encoder, or of classes in another order.
        """
        if split not in self._methods:
            method = Cached(self.path.replace("{split}", split))
            assert method._store is not None
            stored_split = method._store.metadata.get("split", split)
            if stored_split != split:
                raise ValueError(
                    f"{method.path} has scores of split {stored_split!r}, not of {split!r}: write {{split}} in the "
                    "path instead of the name of a split"
                )
            if self._data is not None:
                check_positions(method._store.metadata.get("encoder"), self._data.encoder_facts(), method.path)
                _check_classes(method._store.metadata.get(CLASS_NAMES), self._data.class_names, method.path)
            self._methods[split] = method
        return self._methods[split]

    def scores(self, model: Classifier | None, inputs: TextInputs, targets: Tensor) -> Tensor:
        """Returns stored scores [B, K, T]; `model` is not used."""
        if self._store is None:
            raise ValueError(f"{self.path} stands for one store per split: call for_split with the explained split")
        if self._hashes is None and not self._is_said:
            say(f"{self.path}: the scores were stored without hashes of their texts, so changed texts are not noticed")
            self._is_said = True
        return stored_scores(self._store, inputs, targets, self._hashes)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=0, backward=0)


def _check_classes(stored: list[str] | None, names: list[str], path: str) -> None:
    """Raises ValueError if the store's class names `stored` contradict the data's class names `names`.

    They do if the same names are in another order, or if `class_positions` cannot tell which classes correspond.
    Nothing is checked if `stored` is None (the store has no class names), or if the lists have no name in common.
    """
    positions = None if stored is None else class_positions(stored, names, path)
    if stored is not None and positions is not None and positions != list(range(len(names))):
        raise ValueError(
            f"{path} has scores of the classes {listed(stored)} in this order, but the data has {listed(names)}: set "
            "class_names of the data's source to the order of the stored scores"
        )


def _selected_on(settings: Mapping[str, Any]) -> str:
    """Returns `selected_on` in a method's settings, or in those of a method that it contains; "" if there is none."""
    inner = [value for value in settings.values() if isinstance(value, Mapping)]
    return str(settings.get("selected_on") or next((name for part in inner if (name := _selected_on(part))), ""))
