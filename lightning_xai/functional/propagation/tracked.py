"""Tracked tensors. If a network applies a function to a tracked tensor, the tensor's rules compute the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

# functions that need no rule: they return properties of a tensor (such as its shape), text, constants or handles
VALUE_FREE = frozenset(
    "__hash__ __len__ __repr__ data_ptr device dim dtype element_size get_device grad_fn is_complex is_contiguous "
    "is_cuda is_floating_point is_leaf is_meta is_mps is_nested is_quantized is_sparse is_xla itemsize layout names "
    "ndim ndimension nelement new_empty new_full new_ones new_tensor new_zeros numel ones_like register_hook "
    "requires_grad shape size storage_offset stride zeros_like".split()
)
# functions that copy or rearrange values. They are linear in the values if masks and indices are constant
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
    """A tensor that depends on the explained embeddings or hidden states. Its `rules` compute all functions of it.

    Example:
        >>> from lightning_xai.functional.propagation.rescale import Rescale
        >>> states = track(torch.tensor(3.0), Rescale(), torch.tensor(-1.0))
        >>> activated = states.relu()
        >>> type(activated).__name__, activated.plain(), activated.second_run
        ('Tracked', tensor(3.), tensor(0.))
    """

    rules: Rules
    second_run: Tensor | None = None  # this tensor's value in a second run of the network, if the rules need one
    nonlinear_function: str | None = None  # function that made this tensor non-linear in the states; None if linear
    # True for an activation's output. In its product with another tracked tensor, it is treated as a constant factor
    is_gate: bool = False

    @classmethod
    def __torch_function__(cls, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = function_name(func)
        if name in VALUE_FREE:
            # without this context, `func` would call this method again (PyTorch's notes "Extending PyTorch")
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        tracked = list(tracked_in((args, kwargs)))
        return tracked[0].rules(func, name, tracked, args, kwargs)

    def plain(self) -> Tensor:
        """Returns an ordinary tensor with the same values, in the same autograd graph."""
        with torch._C.DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor)


def track(tensor: Tensor, rules: Rules, second_run: Tensor | None = None) -> Tracked:
    """Returns a tracked tensor with the values of `tensor`, in the same autograd graph.

    Args:
        tensor: any tensor.
        rules: the rules that compute every function applied to the tracked tensor.
        second_run: the tensor's value, of the same shape, in a second run of the network; None if there is no such run.

    Example:
        >>> from lightning_xai.functional.propagation.rescale import Rescale
        >>> doubled = 2 * track(torch.tensor(3.0), Rescale(), torch.tensor(1.0))
        >>> doubled.plain(), doubled.second_run
        (tensor(6.), tensor(2.))
    """
    with torch._C.DisableTorchFunctionSubclass():
        tracked = tensor.as_subclass(Tracked)
    tracked.rules, tracked.second_run = rules, second_run
    return tracked


def function_name(func: Callable) -> str:
    """Returns the name by which rules refer to a torch function or a tensor method.

    Example:
        >>> [function_name(func) for func in (torch.Tensor.__rmul__, torch.Tensor.add_, torch.nn.functional.gelu)]
        ['mul', 'add_', 'gelu']
    """
    name = _NAMES.get(func)
    if name is None:
        name = func.__name__
        if name == "__get__":  # a property, such as Tensor.shape
            name = getattr(func, "__self__").__name__  # noqa: B009
        elif name not in VALUE_FREE and name.startswith("__"):
            name = name.strip("_")
            name = _ALIASES.get(name, name)
        _NAMES[func] = name
    return name


_NAMES: dict[Callable, str] = {}


def tracked_in(value: Any) -> Iterator[Tracked]:
    """Yields the tracked tensors in `value` in order, including those nested in lists, tuples and dictionaries.

    Example:
        >>> from lightning_xai.functional.propagation.rescale import Rescale
        >>> states = track(torch.zeros(2), Rescale())
        >>> len(list(tracked_in(([states, torch.zeros(2)], {"other": states}))))
        2
    """
    if isinstance(value, Tracked):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tracked_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tracked_in(item)


def replace_tracked(value: Any, choose: Callable[[Tracked], Any]) -> Any:
    """Returns `value` (nested arguments) with every tracked tensor replaced by `choose(tensor)`.

    Example:
        >>> from lightning_xai.functional.propagation.rescale import Rescale
        >>> replace_tracked(([track(torch.tensor(1.0), Rescale())], "sum"), plain)
        ([tensor(1.)], 'sum')
    """
    if isinstance(value, Tracked):
        return choose(value)
    if isinstance(value, (list, tuple)):
        items = [replace_tracked(item, choose) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: replace_tracked(item, choose) for key, item in value.items()}
    return value


def plain(tensor: Tracked) -> Tensor:
    """Returns `tensor.plain()`. This function can be passed to `replace_tracked`.

    Example:
        >>> from lightning_xai.functional.propagation.rescale import Rescale
        >>> plain(track(torch.tensor(1.0), Rescale()))
        tensor(1.)
    """
    return tensor.plain()


class Rules(ABC):
    """Base class of rules. They compute the results of functions that are applied to tracked tensors.

    Example:
        >>> class OnlySumsAndProducts(Rules):
        ...     def __call__(self, func, name, tracked, args, kwargs):
        ...         if name not in {"add", "mul"}:
        ...             raise ValueError(f"there is no rule for {name}")
        ...         return self.wrap(func(*replace_tracked(args, plain), **kwargs))
        >>> states = track(torch.tensor([1.0, 2.0]), OnlySumsAndProducts())
        >>> (2 * states + 1).plain()
        tensor([3., 5.])
        >>> states.exp()
        Traceback (most recent call last):
        ValueError: there is no rule for exp
    """

    @abstractmethod
    def __call__(self, func: Callable, name: str, tracked: list[Tracked], args: tuple, kwargs: dict) -> Any:
        """Returns the result that the network gets instead of `func(*args, **kwargs)`.

        Args:
            func: a torch function or a tensor method.
            name: the function's name as given by `function_name`.
            tracked: the tracked tensors among the arguments, at least one.
            args: positional arguments.
            kwargs: keyword arguments.

        Raises:
            ValueError: there is no rule for `func`; the message names `func`.
        """

    def wrap(self, value: Any, second_run: Any = None, **marks: Any) -> Any:
        """Returns `value` with its tensors replaced by tracked tensors.

        Args:
            value: a tensor or a sequence of tensors; any other value is returned unchanged.
            second_run: the counterpart of `value` in the second run; None if there is no second run.
            marks: values for other attributes of the tracked tensors, such as `is_gate`.
        """
        if isinstance(value, Tensor):
            tracked = track(value, self, second_run)
            tracked.__dict__.update(marks)
            return tracked
        if isinstance(value, (list, tuple)):
            second = [None] * len(value) if second_run is None else second_run
            return [self.wrap(item, its_second, **marks) for item, its_second in zip(value, second, strict=True)]
        return value


def writes_in_place(name: str, args: tuple, kwargs: dict) -> bool:
    """Returns whether a function writes into its first argument.

    Raises:
        ValueError: the function has an argument `out`, or writes tracked values into a tensor that is not tracked. No
            rules would apply to functions that the network applies to such a tensor later.

    Example:
        >>> from lightning_xai.functional.propagation.rescale import Rescale
        >>> states = track(torch.zeros(2), Rescale())
        >>> writes_in_place("add_", (states, 1), {}), writes_in_place("add", (states, 1), {})
        (True, False)
    """
    writes = name.endswith("_") or name == "setitem" or bool(kwargs.get("inplace")) or "out" in kwargs
    if writes and ("out" in kwargs or not isinstance(args[0], Tracked)):
        raise ValueError(
            f"{name} writes hidden states into a tensor that does not depend on them, so no rule can follow them: "
            f"{WITHOUT_RULE}"
        )
    return writes


WITHOUT_RULE = "choose an architecture without this function, or a gradient or perturbation method"
