"""Steps of loading a trained network: read tensor files, build the network, check its weights and copy them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.architecture_match import first_setting_difference, network_spec
from lightning_xai.models.pretrained.config_keys import stored_settings
from lightning_xai.models.pretrained.pretrained_weights import WeightGaps
from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.renamed_classes import current_spec

Shape = tuple[int, ...] | Literal["absent"]


def read_tensors(path: Path, *, mmap: bool = False) -> dict[str, Any]:
    """Returns the tensors (on the CPU) and primitives in a file that torch.save wrote. Runs no code from the file.

    Args:
        path: the file.
        mmap: whether tensors are read from the disk only when they are used.

    Raises:
        ValueError: the file holds other objects, or torch.save did not write it.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     torch.save({"epoch": 3}, file.name)
        ...     read_tensors(Path(file.name))
        {'epoch': 3}
    """
    try:
        # older versions of torch save optimizer state in a defaultdict
        with torch.serialization.safe_globals([defaultdict]):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    # torch's unpickler raises errors of many types, even a KeyError for a text file. They are not shown, because some
    # advise to load the file unsafely
    except Exception as error:
        found = re.search(r"GLOBAL (\S{1,100})", str(error))
        if found is not None:
            raise ValueError(
                f"{path} is not loaded: it holds the Python object {found[1]}, which could run code. Only tensors, "
                "numbers, texts, lists and dicts are loaded: save the weights alone"
            ) from None
        raise ValueError(
            f"{path} is not loaded: it is damaged, was not written by torch.save, or holds more than tensors, numbers, "
            "texts, lists and dicts: copy or save it again"
        ) from None


def build_network(spec: dict[str, Any], *, trust_remote_code: bool = False) -> Classifier:
    """Returns a network with random weights, built from the class and the arguments in `spec`.

    Class and argument names of older versions of the package are replaced by the current names.

    Args:
        spec: "class_path", the path of the class, and "init_args", its constructor's arguments.
        trust_remote_code: whether Python code from the model's folder may run. Only networks that were trained with
            such code need it.

    Raises:
        ValueError: `class_path` is not a Classifier, or the network needs code that may not run.

    Example:
        >>> path = "lightning_xai.models.bilstm.BiLSTMAttention"
        >>> arguments = {"vocab_size": 9, "embedding_size": 2, "hidden_size": 2}
        >>> build_network({"class_path": path, "init_args": arguments}).embedding_matrix.shape
        torch.Size([9, 2])
    """
    spec = current_spec(spec)
    network_class = imported_class(spec["class_path"], Classifier)
    if spec["init_args"].get("trust_remote_code") and not trust_remote_code:
        raise ValueError(
            f"the network needs Python code from {spec['init_args'].get('path')}, which is not run: set "
            "`trust_remote_code: true` if you trust the code"
        )
    with stored_settings():
        return network_class(**spec["init_args"])


class WeightDifference(NamedTuple):
    """A weight that is only in the given weights, only in the network, or in both with different shapes.

    Example:
        >>> WeightDifference("output.bias", shape=(3,), needed="absent").needed
        'absent'
    """

    name: str
    shape: Shape  # the weight's shape in the given weights, or "absent"
    needed: Shape  # the weight's shape in the network, or "absent"


def first_difference(weights: Mapping[str, Tensor], needed: Mapping[str, Tensor]) -> WeightDifference | None:
    """Returns the alphabetically first weight that is missing on one side or differs in shape; None if all match.

    Example:
        >>> first_difference({"bias": torch.zeros(3)}, {"bias": torch.zeros(2)})
        WeightDifference(name='bias', shape=(3,), needed=(2,))
        >>> first_difference({}, {"bias": torch.zeros(2)}).shape
        'absent'
    """
    for name in sorted(weights.keys() | needed.keys()):
        shapes: list[Shape] = [tuple(side[name].shape) if name in side else "absent" for side in (weights, needed)]
        if shapes[0] != shapes[1]:
            return WeightDifference(name, *shapes)
    return None


def load_weights(network: Classifier, weights: Mapping[str, Tensor], path: str | Path) -> None:
    """Copies `weights` into `network`. The prefix "_orig_mod.", which torch.compile adds to names, is removed first.

    Args:
        path: where the weights come from, for error messages.

    Raises:
        ValueError: a weight is missing, is unknown, or has another shape; the message names the weight.

    Example:
        >>> from lightning_xai.models.bilstm import BiLSTMAttention
        >>> one, two = (BiLSTMAttention(9, embedding_size=2, hidden_size=2) for _ in range(2))
        >>> load_weights(one, two.state_dict(), "two.ckpt")
        >>> torch.equal(one.embedding_matrix, two.embedding_matrix)
        True
    """
    weights = {key.replace("_orig_mod.", ""): value for key, value in weights.items()}
    difference = first_difference(weights, network.state_dict())
    if difference is not None:
        name, shape, needed = difference
        kind = type(network).__name__
        if shape == "absent":
            message = f"has no weights {name}, which {kind} needs"
        elif needed == "absent":
            message = f"has unknown weights {name}, which {kind} does not have"
        else:
            message = f"{name} has shape {list(shape)}, but {kind} needs {list(needed)}"
        raise ValueError(f"{path}: {message}")
    network.load_state_dict(weights)
    network.weight_gaps = WeightGaps()


def copy_weights(teacher: Classifier, student: Classifier, path: str) -> None:
    """Copies the teacher's weights into the student.

    Raises:
        ValueError: the networks differ in the number of classes, in `multilabel`, in the names or shapes of weights, or
            in a setting that affects the forward pass; the message names the difference and `path`.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> teacher, student = random_bert(), random_bert()
        >>> copy_weights(teacher, student, "runs/teacher/seed0")
        >>> torch.equal(student.embedding_matrix, teacher.embedding_matrix)
        True
    """
    if teacher.num_classes != student.num_classes or teacher.multilabel != student.multilabel:
        raise ValueError(
            f"the teacher {path} has {quantity(teacher.num_classes, 'class')} (multi-label {teacher.multilabel}), but "
            f"the network has {student.num_classes} (multi-label {student.multilabel}): train both on the same data"
        )
    difference = first_difference(teacher.state_dict(), student.state_dict())
    if difference is not None:
        raise ValueError(
            f"the shape of {difference.name} is {difference.shape} in the teacher {path} and {difference.needed} in "
            "the network: give both the same architecture"
        )
    setting = first_setting_difference(network_spec(teacher), network_spec(student))
    if setting is not None:
        raise ValueError(
            f"{setting.name} is {setting.given!r} in the teacher {path} and {setting.needed!r} in the network: give "
            "both the same architecture"
        )
    student.load_state_dict(teacher.state_dict())
    student.weight_gaps = WeightGaps()
