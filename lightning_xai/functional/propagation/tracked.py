"""Tensors whose functions are decided by rules while the network runs, so no architecture needs a copy of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

# what is asked about a tensor without a value of it, constants of its shape included
QUERIES = frozenset(
    "__hash__ __len__ __repr__ data_ptr device dim dtype element_size get_device grad_fn is_complex is_contiguous "
    "is_cuda is_floating_point is_leaf is_meta is_mps is_nested is_quantized is_sparse is_xla itemsize layout names "
    "ndim ndimension nelement new_empty new_full new_ones new_tensor new_zeros numel ones_like register_hook "
    "requires_grad shape size storage_offset stride zeros_like".split()
)
# linear in the tensors that they move, if masks and indices are constants
STRUCTURAL = frozenset(
    "T alias chunk clone contiguous cpu cuda diagonal double expand expand_as flatten flip float gather getitem "
    "index_select mH mT masked_fill movedim moveaxis narrow pad permute positive repeat repeat_interleave reshape "
    "reshape_as roll select split split_with_sizes squeeze swapaxes t take_along_dim tensor_split to transpose tril "
    "triu type type_as unbind unflatten unsqueeze view view_as where".split()
)
ELEMENTWISE_LINEAR = frozenset({"add", "sub", "subtract", "rsub", "neg", "negative"})
REDUCTIONS = frozenset({"cat", "concat", "concatenate", "cumsum", "mean", "stack", "sum"})
PRODUCTS = frozenset({"addmm", "bmm", "einsum", "linear", "matmul", "mm", "mul", "multiply"})
QUOTIENTS = frozenset({"div", "divide", "true_divide", "truediv"})
LINEAR = STRUCTURAL | ELEMENTWISE_LINEAR | REDUCTIONS

_ALIASES = {
    "radd": "add", "rmul": "mul", "rmatmul": "matmul", "rtruediv": "rdiv", "iadd": "add_", "isub": "sub_",
    "imul": "mul_", "itruediv": "div_", "idiv": "div_",
}  # fmt: skip


class Tracked(Tensor):
    """A tensor that depends on the explained states: every function that is given one is left to its `rules`."""

    rules: Rules
    other: Tensor | None = None  # the same quantity in a second run, if the rules need one
    origin: str | None = None  # the function that ended linearity, None while the tensor is linear
    is_gate: bool = False  # whether an activation made it, which a product then takes for a coefficient

    @classmethod
    def __torch_function__(cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = function_name(func)
        if name in QUERIES:
            # as "Extending PyTorch" in its notes has it, for calls that shall not come back here
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        tracked = list(tracked_in((args, kwargs)))
        return tracked[0].rules(func, name, tracked, args, kwargs)

    def plain(self) -> Tensor:
        """Returns the tensor itself, still in the graph, on which functions act as ever."""
        with torch._C.DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor)


def track(tensor: Tensor, rules: Rules, other: Tensor | None = None) -> Tracked:
    """Returns `tensor` in the care of `rules`, in the same graph."""
    with torch._C.DisableTorchFunctionSubclass():
        tracked = tensor.as_subclass(Tracked)
    tracked.rules, tracked.other = rules, other
    return tracked


def function_name(func: Callable) -> str:
    """Returns the name by which rules know a function: `Tensor.__rmul__` is "mul", `Tensor.shape` is "shape"."""
    name = _NAMES.get(func)
    if name is None:
        name = func.__name__
        if name == "__get__":
            name = func.__self__.__name__
        elif name not in QUERIES and name.startswith("__"):
            name = name.strip("_")
            name = _ALIASES.get(name, name)
        _NAMES[func] = name
    return name


_NAMES: dict[Callable, str] = {}


def tracked_in(value: Any) -> Iterator[Tracked]:
    """Yields the tracked tensors among arguments, in their order, inside lists, tuples and dictionaries too."""
    if isinstance(value, Tracked):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tracked_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tracked_in(item)


def replaced(value: Any, choose: Callable[[Tracked], Any]) -> Any:
    """Returns arguments with every tracked tensor replaced by `choose(tensor)`."""
    if isinstance(value, Tracked):
        return choose(value)
    if isinstance(value, (list, tuple)):
        items = [replaced(item, choose) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: replaced(item, choose) for key, item in value.items()}
    return value


def plain(tensor: Tracked) -> Tensor:
    """Returns the tensor itself, for `replaced`."""
    return tensor.plain()


class Rules(ABC):
    """What functions make of tracked tensors."""

    @abstractmethod
    def __call__(self, func: Callable, name: str, tracked: list[Tracked], args: tuple, kwargs: dict) -> Any:
        """Returns what the network gets from `func(*args, **kwargs)`.

        Args:
            name: of `func` as `function_name` has it.
            tracked: the tracked tensors among the arguments, at least one.

        Raises:
            ValueError: `func` cannot be made linear; it is named.
        """

    def wrap(self, value: Any, other: Any = None, **marks) -> Any:
        """Returns the tensors of `value`, a tensor or a sequence of them, tracked together with those of `other`."""
        if isinstance(value, Tensor):
            tracked = track(value, self, other)
            tracked.__dict__.update(marks)
            return tracked
        if isinstance(value, (list, tuple)):
            others = [None] * len(value) if other is None else other
            return [self.wrap(item, its, **marks) for item, its in zip(value, others, strict=True)]
        return value


def writes_in_place(name: str, args: tuple, kwargs: dict) -> bool:
    """Returns whether a function writes into its first argument.

    Raises:
        ValueError: it writes into a tensor that is not tracked, which would have to be from then on.
    """
    writes = name.endswith("_") or name == "setitem" or bool(kwargs.get("inplace")) or "out" in kwargs
    if writes and ("out" in kwargs or not isinstance(args[0], Tracked)):
        raise ValueError(f"{name} writes hidden states into a tensor that had none: {WITHOUT_RULE}")
    return writes


WITHOUT_RULE = "choose an architecture without it, or a gradient or perturbation method"


def norm_arguments(name: str, args: tuple, kwargs: dict) -> tuple:
    """Returns (states, shape, weight, eps) of a call of F.layer_norm or F.rms_norm."""
    names = ("input", "normalized_shape", "weight", *(("bias",) if name == "layer_norm" else ()), "eps")
    given = dict(zip(names, args, strict=False)) | kwargs
    eps = given.get("eps", 1e-5 if name == "layer_norm" else None)
    eps = torch.finfo(given["input"].dtype).eps if eps is None else eps
    return given["input"], given["normalized_shape"], given.get("weight"), eps


def repeat_heads(states: Tensor, num_heads: int) -> Tensor:
    """Returns [..., H, T, d] from fewer heads, each of which serves several of the queries'."""
    share = num_heads // states.shape[-3]
    return states if share == 1 else states.repeat_interleave(share, -3)


def attention_scores(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    rows: slice = slice(None),
) -> Tensor:
    """Returns what F.scaled_dot_product_attention gives to its softmax, [..., T, T], of the queries in `rows`.

    Masked ones are the lowest finite number, since -inf in all of a row (of padding) would make it nan.
    """
    if enable_gqa:
        key = repeat_heads(key, query.shape[-3])
    num_queries, scale = query.shape[-2], query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query[..., rows, :] * scale) @ key.transpose(-2, -1)
    lowest = torch.finfo(scores.dtype).min
    if is_causal:
        places = torch.arange(max(num_queries, scores.shape[-1]), device=scores.device)
        return scores.masked_fill(places[:num_queries][rows].unsqueeze(-1) < places[: scores.shape[-1]], lowest)
    if attn_mask is None:
        return scores
    if attn_mask.shape[-2] > 1:
        attn_mask = attn_mask[..., rows, :]
    return scores.masked_fill(~attn_mask, lowest) if attn_mask.dtype == torch.bool else scores + attn_mask.clamp(lowest)
