"""Refuses networks and precisions with which an objective would compute wrong values."""

from __future__ import annotations

from torch import nn
from torch._dynamo import OptimizedModule


def check_precision(precision: str) -> None:
    """Raises ValueError if a trainer's precision converts the weights to a type other than float32.

    Example:
        >>> check_precision("bf16-mixed")
        >>> check_precision("16-true")
        Traceback (most recent call last):
        ValueError: trainer.precision is 16-true, but attributions need float32 weights: set 32-true or bf16-mixed
    """
    if precision.endswith("-true") and precision != "32-true":
        raise ValueError(
            f"trainer.precision is {precision}, but attributions need float32 weights: set 32-true or bf16-mixed"
        )


def check_unscaled(precision: str, objective: str) -> None:
    """Raises ValueError if a trainer's precision scales gradients. The message contains `objective`, a class name.

    Example:
        >>> check_unscaled("bf16-mixed", "Constrained")
        >>> check_unscaled("16-mixed", "Constrained")
        Traceback (most recent call last):
        ValueError: trainer.precision is 16-mixed, which scales gradients, but Constrained needs unscaled gradients: \
use bf16-mixed or 32-true
    """
    if precision == "16-mixed":
        raise ValueError(
            f"trainer.precision is {precision}, which scales gradients, but {objective} needs unscaled gradients: use "
            "bf16-mixed or 32-true"
        )


def check_uncompiled(network: nn.Module, objective: str) -> None:
    """Raises ValueError if `network` or a part of it is compiled. The message contains `objective`, a class name.

    Example:
        >>> check_uncompiled(nn.Linear(1, 1), "Supervised")
    """
    for path, module in network.named_modules():
        if isinstance(module, OptimizedModule) or module._compiled_call_impl is not None:
            compiled = f"network.{path}" if path else "the network"
            raise ValueError(
                f"{objective} differentiates the network twice, but a compiled network then has wrong gradients, "
                f"without an error (pytorch issue #91469): do not compile {compiled}"
            )


def check_twice_differentiable(objective: nn.Module, network: nn.Module) -> None:
    """Raises ValueError if objective or network are compiled, or if the network has reentrant gradient checkpointing.

    Example:
        >>> check_twice_differentiable(nn.Linear(1, 1), nn.Linear(1, 1))
    """
    name = type(objective).__name__
    check_uncompiled(network, name)
    if getattr(objective, "_compiler_ctx", None) is not None:
        raise ValueError(
            f"{name} differentiates the network twice, but a compiled objective then has wrong gradients, without an "
            "error: do not compile the objective"
        )
    for path, module in network.named_modules():
        options = getattr(getattr(module, "_gradient_checkpointing_func", None), "keywords", {})
        if getattr(module, "gradient_checkpointing", False) and options.get("use_reentrant", True):
            raise ValueError(
                f"network.{path} has gradient checkpointing with use_reentrant=True, which {name} cannot differentiate "
                "twice: enable checkpointing with use_reentrant=False"
            )
