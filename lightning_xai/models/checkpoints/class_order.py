"""Puts the classes of a trained network in the order of the data's classes, matching them by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from lightning_xai.functional.classes.class_names import comparable_names, listed, named_positions
from lightning_xai.functional.network.modes import evaluation_mode
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import ordered_class_names
from lightning_xai.models.contracts import random_inputs
from lightning_xai.runs.progress import say

NAME_THEM = (
    "set model.init_args.network_classes to the names that the data has for the network's classes, in the order of the "
    "network's logits"
)
TRAINED_ON_THEM = "give a network that was trained on the classes of the data"


def pretrained_class_names(network: Classifier, network_classes: list[str] | None = None) -> list[str] | None:
    """Returns the class names of a pretrained head, in the order of the logits; None if the head is not pretrained.

    A head counts as pretrained only if all weights that affect the output come from the pretrained folder, and if
    config.json in this folder has as many classes (C) as the network.

    Args:
        network: the network.
        network_classes: names to use instead of those in the network's config.json.

    Raises:
        ValueError: the class ids in config.json are not 0 to C - 1, or `network_classes` does not have C names.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> print(pretrained_class_names(random_bert()))
        None
    """
    if network_classes is not None and len(network_classes) != network.num_classes:
        raise ValueError(
            f"network_classes is {listed(network_classes)}: name each of the {network.num_classes} classes once"
        )
    arguments = network.init_args
    transformer = getattr(network, "transformer", None)
    if arguments.get("path") is None or not arguments.get("pretrained", True) or transformer is None:
        return None
    if transformer is transformer.base_model:  # the network has no head
        return None
    names = transformer.config.id2label
    if network.weight_gaps.fresh or len(names) != network.num_classes:
        return None
    return network_classes or [str(name) for name in ordered_class_names(names, str(arguments["path"]))]


@torch.no_grad()
def reorder_classes(network: Classifier, positions: Sequence[int]) -> bool:
    """Reorders the rows of a network's head, so that the class with the index positions[i] gets the index i.

    Returns:
        True if the logits then have the new order. Otherwise False; in this case, the weights are left unchanged.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network = random_bert()
        >>> bias = network.transformer.classifier.bias
        >>> bias.data = torch.tensor([1.0, 2.0])
        >>> reorder_classes(network, [1, 0]), bias.tolist()
        (True, [2.0, 1.0])
    """
    inputs, rows = random_inputs(network, [7, 4]), list(positions)
    head = [weight for weight in network.head_parameters() if weight.shape[:1] == (network.num_classes,)]
    given = [weight.clone() for weight in head]
    # autocast is off, because it caches copies of weights: the second call of the network would use the copies from
    # before the reordering
    with evaluation_mode(network), torch.autocast(network.embedding_matrix.device.type, enabled=False):
        expected = network(inputs).logits[:, rows]
        for weight in head:
            weight.copy_(weight[rows])
        if torch.allclose(network(inputs).logits, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max())):
            return True
    for weight, before in zip(head, given, strict=True):
        weight.copy_(before)
    return False


def align_classes(
    network: Classifier,
    class_names: list[str] | None,
    data_names: list[str],
    origin: str | Path,
    *,
    remedy: str = TRAINED_ON_THEM,
) -> list[str] | None:
    """Puts a network's classes in the order of the data's classes, and prints a line if they were in another order.

    Case, white space, hyphens and underscores in names are ignored. If the names of one list merely number the classes,
    such as LABEL_0 and LABEL_1, or if the two lists differ at only one position, class i of the network is assumed to
    be class i of the data, and a line says so.

    Args:
        network: the network, whose head is changed.
        class_names: class names of the network, in the order of the logits; None if they are not known.
        data_names: names of the data's classes.
        origin: path of the network, for messages.
        remedy: advice with which the error message ends if the names do not show which classes correspond.

    Returns:
        The names of the network's classes after the call; None if `class_names` is None.

    Raises:
        ValueError: network and data differ in the number of classes, the names do not show which classes correspond, or
            the order of the network's classes cannot be changed.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> align_classes(random_bert(), ["POSITIVE", "NEGATIVE"], ["negative", "positive"], "model")
        model: the classes ['POSITIVE', 'NEGATIVE'] are put into the order of the data
        ['negative', 'positive']
    """
    if class_names is None:
        return None
    positions = named_positions(class_names, data_names, str(origin), remedy)
    if _says_assumed(class_names, data_names, origin) or positions is None:
        return list(data_names)
    if positions != list(range(len(positions))):
        if not reorder_classes(network, positions):
            check_class_order(class_names, data_names, origin)
        say(f"{origin}: the classes {listed(class_names)} are put into the order of the data")
    return list(data_names)


def _says_assumed(class_names: list[str], data_names: list[str], origin: str | Path) -> bool:
    """Returns whether the classes are assumed to correspond, although their names differ; if so, prints a line."""
    theirs, ours = comparable_names(class_names, data_names)
    if set(theirs) == set(ours):
        return False
    say(f"{origin}: its classes {listed(class_names)} are assumed to be {listed(data_names)}, in this order")
    return True


def check_class_order(
    class_names: list[str] | None, data_names: list[str], path: str | Path, network_classes: list[str] | None = None
) -> None:
    """Raises ValueError unless a network and the data have the same class names in the same order.

    Names are compared as in `named_positions`. If the names of one list merely number the classes, such as LABEL_0 and
    LABEL_1, or if the two lists differ at only one position, class i of the network is assumed to be class i of the
    data, and a printed line says so.

    Args:
        class_names: names of the network's classes. If they are not known (None), nothing is checked.
        data_names: names of the data's classes.
        path: where the network comes from, for the error message.
        network_classes: for each class of the network, in the order of the logits, the name of this class in the data.
            These names replace `class_names` if `class_names` and `data_names` have no name in common.

    Example:
        >>> check_class_order(["LABEL_0", "LABEL_1"], ["no", "yes"], "m.ckpt")
        m.ckpt: its classes ['LABEL_0', 'LABEL_1'] are assumed to be ['no', 'yes'], in this order
        >>> check_class_order(["B", "A"], ["a", "b"], "m")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: class 0 is 'B' in m, but 'a' in the data: set class_names ... to ['B', 'A'], ...
    """
    if class_names is None:
        return
    if network_classes is not None and set.isdisjoint(*map(set, comparable_names(class_names, data_names))):
        class_names = network_classes
    positions = named_positions(class_names, data_names, str(path), NAME_THEM) or []
    _says_assumed(class_names, data_names, path)
    for number, position in enumerate(positions):
        if number != position:
            raise ValueError(
                f"class {number} is {class_names[number]!r} in {path}, but {data_names[number]!r} in the data: set "
                f"class_names of the data's source to {listed(class_names)}, the network's order, instead of "
                f"{listed(data_names)}"
            )
