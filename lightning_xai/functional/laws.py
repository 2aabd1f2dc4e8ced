"""Functions for laws (checks of required properties).

They make random texts, compare tensors, and find what a call has changed in a network or in the process.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lightning_xai.functional.network.untouched import HOOKS
from lightning_xai.types import Attribution, Batch, TextInputs

PAD, CLS, SEP, MASK, FIRST_WORD = 0, 1, 2, 3, 5  # ids in the random texts; id 4 is reserved for the unknown token
VOCAB_SIZE = 100


def random_texts(lengths: list[int], *, seed: int = 0, pad_to: int | None = None, pad_id: int = PAD) -> TextInputs:
    """Returns random inputs with a row of tokens for each length: [CLS], random words, [SEP], and padding on the right.

    A length includes the special tokens. A row depends only on the seed, the row's position and its length, so
    `random_texts([5, 9])[:1]` is `random_texts([5])` with more padding. Every word has one or two tokens. Ids are below
    VOCAB_SIZE. If `pad_id` is not 0, the ids 0 and `pad_id` are swapped.

    Example:
        >>> random_texts([3, 4]).input_ids.tolist()
        [[1, 39, 2, 0], [1, 50, 74, 2]]
    """
    width = max([pad_to or 0, *lengths])
    shape = (len(lengths), width)
    input_ids = torch.full(shape, PAD)
    attention_mask = torch.zeros(shape, dtype=torch.bool)
    special = torch.ones(shape, dtype=torch.bool)
    word_ids = torch.full(shape, -1)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(1000 * seed + row)
        body = torch.randint(FIRST_WORD, VOCAB_SIZE, (length - 2,), generator=generator)
        input_ids[row, :length] = torch.cat([torch.tensor([CLS]), body, torch.tensor([SEP])])
        attention_mask[row, :length] = True
        special[row, 1 : length - 1] = False
        starts = torch.randint(0, 2, (length - 2,), generator=generator)
        starts[1:] |= 1 - starts[:-1]
        starts[:1] = 1
        word_ids[row, 1 : length - 1] = starts.cumsum(0) - 1
    token_mask = attention_mask & ~special
    if pad_id != PAD:
        input_ids = torch.where(input_ids == PAD, pad_id, torch.where(input_ids == pad_id, PAD, input_ids))
    return TextInputs(
        input_ids=input_ids,
        attention_mask=attention_mask,
        token_mask=token_mask,
        special_tokens_mask=special,
        baseline_ids=input_ids.masked_fill(token_mask, MASK),
        token_type_ids=torch.zeros(shape, dtype=torch.long),
        word_ids=word_ids,
        index=torch.arange(len(lengths)),
    )


def with_padding(batch: Batch, columns: int) -> Batch:
    """Returns the batch with `columns` more columns of padding on the right.

    Example:
        >>> with_padding(Batch(random_texts([4, 6]), torch.tensor([0, 1])), 3).inputs.input_ids.shape
        torch.Size([2, 9])
    """
    width = batch.inputs.input_ids.shape[1]

    def pad(tensor: Tensor) -> Tensor:
        if tensor.dim() < 2 or tensor.shape[-1] != width:
            return tensor
        return torch.cat([tensor, tensor.new_zeros(*tensor.shape[:-1], columns)], dim=-1)

    rationale = batch.rationale
    if rationale is not None:
        rationale = Attribution(
            pad(rationale.scores), rationale.targets, rationale.target_mask, pad(rationale.token_mask)
        )
    return replace(batch, inputs=batch.inputs.map(pad), rationale=rationale)


def require(holds: bool, rule: str, remedy: str) -> None:
    """Raises ValueError unless `holds` is True. The message names the broken rule and its remedy, in one line.

    Example:
        >>> require(False, "Mine: padding changes scores", "use attention_mask")
        Traceback (most recent call last):
        ValueError: Mine: padding changes scores: use attention_mask
    """
    if not holds:
        raise ValueError(f"{rule}: {remedy}")


def require_close(
    actual: Tensor, expected: Tensor, rule: str, remedy: str, *, relative: float = 0.0, absolute: float = 0.0
) -> None:
    """Raises ValueError if two tensors differ in shape, or in any element by more than a tolerance.

    Args:
        actual: values computed after a change that must have no effect.
        expected: values computed without this change.
        rule: the rule that is broken if the values differ, for the error message.
        remedy: what the user can do to keep the rule, for the error message.
        relative: tolerance as a fraction of the expected value.
        absolute: tolerance that is added to the relative tolerance.

    Example:
        >>> require_close(torch.ones(2), torch.zeros(2), "Mine: padding changes scores", "use attention_mask")
        Traceback (most recent call last):
        ValueError: Mine: padding changes scores by up to 1: use attention_mask
    """
    require(actual.shape == expected.shape, f"{rule} (shape {list(actual.shape)}, not {list(expected.shape)})", remedy)
    actual, expected = actual.detach().double(), expected.detach().double()
    close = torch.isclose(actual, expected, rtol=relative, atol=absolute, equal_nan=True)
    gap = float((actual - expected).abs().max()) if actual.numel() else 0.0
    require(bool(close.all()), f"{rule} by up to {gap:.2g}", remedy)


def network_state(network: nn.Module) -> dict[str, Any]:
    """Returns those parts of a network's state that an explanation must not change: weights, gradients, modes, ...

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> before = network_state(layer)
        >>> _ = layer.eval()
        >>> changed_parts(before, network_state(layer))
        ['train and eval modes']
    """
    tensors = [*network.parameters(), *network.buffers()]
    gradients = [parameter.grad for parameter in network.parameters()]
    return {
        "weights": [tensor.detach().clone() for tensor in tensors],
        "gradients": [None if gradient is None else gradient.clone() for gradient in gradients],
        "requires_grad flags": [parameter.requires_grad for parameter in network.parameters()],
        "train and eval modes": [module.training for module in network.modules()],
        "hooks": [len(getattr(module, name)) for module in network.modules() for name in HOOKS],
        "the attention kernel": getattr(network, "attention_implementation", None),
    }


def process_state() -> dict[str, Any]:
    """Returns the parts of the process's state that a tested call must not change: random generators, settings, ...

    Example:
        >>> before = process_state()
        >>> _ = torch.rand(1), random.random()
        >>> changed_parts(before, process_state())
        ["Python's random state", "torch's random state"]
    """
    numpy_state = np.random.get_state(legacy=False)
    return {
        "Python's random state": random.getstate(),
        "numpy's random state": repr(numpy_state["state"]["pos"]) + str(numpy_state["state"]["key"].sum()),
        "torch's random state": torch.get_rng_state(),
        "whether gradients are on": torch.is_grad_enabled(),
        "the default dtype": torch.get_default_dtype(),
        "the number of threads": torch.get_num_threads(),
        "the working directory": os.getcwd(),
        "environment variables": dict(os.environ),
    }


def changed_parts(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns the names of the parts of a state that have changed.

    Example:
        >>> changed_parts({"modes": [True]}, {"modes": [False]})
        ['modes']
    """
    return [name for name in before if not _same(before[name], after[name])]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first.shape == second.shape and torch.equal(first, second)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_same, first, second))
    return bool(first == second) if not isinstance(second, Tensor) else False
