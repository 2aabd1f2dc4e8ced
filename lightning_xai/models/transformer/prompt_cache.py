"""The keys and values of a prompt that all texts share, computed once and reused for every batch."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

KeysAndValues = list[tuple[Tensor, Tensor]]  # for each layer, the keys and the values, each [1, heads, P, head size]


class _Entry(NamedTuple):
    ids: Tensor  # [P] token ids of the prompt
    state: tuple  # everything else on which the keys and values depend, such as the weights and the precision
    layers: KeysAndValues


class PromptCache:
    """Stores the keys and values of one prompt. They are used until the network or its precision changes.

    Changes of weights are noticed by their version counters, which writing into `weight.data` does not raise; call
    `clear` after that. The cache of a copied network is empty.

    Example:
        >>> cache = PromptCache()
        >>> cache.is_empty
        True
    """

    def __init__(self) -> None:
        self._entry: _Entry | None = None

    def __deepcopy__(self, memo: Any) -> PromptCache:
        return PromptCache()

    def __reduce__(self) -> tuple:
        return PromptCache, ()

    def clear(self) -> None:
        """Drops the stored keys and values."""
        self._entry = None

    @property
    def is_empty(self) -> bool:
        """Whether no keys and values are stored."""
        return self._entry is None

    def first_columns(self, transformer: PreTrainedModel, ids: Tensor, positions: Tensor, state: tuple) -> int:
        """Makes sure that keys and values of a prompt's first tokens are stored. Returns the number of these tokens.

        The stored keys and values are kept if they were computed with the same weights and the same `state`, and if the
        stored prompt begins with at least the first half of this prompt. Otherwise, keys and values are computed for
        the whole prompt.

        Args:
            transformer: decoder without a head.
            ids: [P] token ids of the prompt.
            positions: [P] position ids of the tokens.
            state: everything on which keys and values depend, besides the weights and the prompt, such as the
                precision.
        """
        state = (*state, *_versions(transformer))
        if self._entry is not None and self._entry.state == state:
            covered = num_equal(self._entry.ids, ids)
            if 2 * covered >= len(ids):
                return covered
        self._entry = None  # frees the memory of the former prompt first
        with torch.inference_mode(False), torch.no_grad():
            filled: Any = DynamicCache()
            arguments = {"input_ids": ids.clone()[None], "position_ids": positions.clone()[None], "use_cache": True}
            transformer(**arguments, **cache_argument(transformer, filled), return_dict=True)
            layers = [(layer.keys, layer.values) for layer in filled.layers]
        self._entry = _Entry(ids.clone(), state, layers)
        return len(ids)

    def copy(self, num_rows: int, num_columns: int) -> DynamicCache:
        """Returns the keys and values of the prompt's first `num_columns` tokens, repeated for `num_rows` texts."""
        assert self._entry is not None, "call first_columns before copy"
        cache = DynamicCache()
        for number, layer in enumerate(self._entry.layers):
            keys, values = (part[:, :, :num_columns].expand(num_rows, -1, -1, -1) for part in layer)
            cache.update(keys, values, number)
        return cache


def cache_argument(transformer: PreTrainedModel, cache: DynamicCache) -> dict[str, DynamicCache]:
    """Returns {name: cache}, where `name` is the argument of `transformer.forward` that takes a cache.

    Example:
        >>> from transformers import LlamaConfig, LlamaModel
        >>> sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
        >>> len(cache_argument(LlamaModel(LlamaConfig(**sizes)), DynamicCache()))
        1
    """
    names = inspect.signature(transformer.forward).parameters  # transformers 5.24 renamed the argument
    return {"cache" if "cache" in names else "past_key_values": cache}


def has_hooks(module: nn.Module) -> bool:
    """Returns whether any part of a network has forward hooks. Hooks that transformers itself registers do not count.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> handle = layer.register_forward_hook(lambda module, args, output: None)
        >>> has_hooks(nn.Sequential(layer)), handle.remove(), has_hooks(layer)
        (True, None, False)
    """
    for part in module.modules():
        for hook in [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]:
            function = getattr(hook, "func", hook)  # the function inside a partial
            if not str(getattr(function, "__module__", "")).startswith("transformers."):
                return True
    return False


def num_equal(first: Tensor, second: Tensor) -> int:
    """Returns the length of the longest common prefix of two vectors.

    Example:
        >>> num_equal(torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4, 5]))
        2
    """
    length = min(len(first), len(second))
    return int((first[:length] == second[:length]).long().cumprod(dim=0).sum())


def shared_columns(ids: Tensor, may_be_shared: Tensor) -> int:
    """Returns the number P of leading columns that all rows can share.

    In these columns of `ids` [B, T], all rows have the same id, and `may_be_shared` [B, T] is True in all rows.

    Example:
        >>> shared_columns(torch.tensor([[7, 8, 5], [7, 8, 6]]), torch.ones(2, 3, dtype=torch.bool))
        2
    """
    same = (ids == ids[:1]).all(dim=0) & may_be_shared.all(dim=0)
    return int(same.long().cumprod(dim=0).sum())


def _versions(module: nn.Module) -> tuple[tuple[int, int], ...]:
    """Returns, for each weight, its memory address and how many times it was changed in place."""
    weights = [*module.parameters(), *module.buffers()]
    return tuple((weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in weights)
