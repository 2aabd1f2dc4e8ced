"""Evaluation and explanation of a trained network, without further training."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork, load_trained
from lightning_xai.models.checkpoints.pretrained_network import pretrained_network
from lightning_xai.objectives.base import Objective
from lightning_xai.types import Batch


class Evaluation(Objective):
    """Evaluates a trained network in `validate`, `test` and `predict`, without further training.

    For a multi-label network, `test` and `predict` use the decision threshold from its training, and `validate` tunes a
    new threshold on the validation split.

    Args:
        path: a checkpoint (.ckpt) of any objective; a run folder; a Hugging Face model with a classification head (a
            folder, hub id or "package:NAME/FOLDER"); or a folder of released PLM-CA weights.
        trust_remote_code: whether Python code in a Hugging Face folder may run.
        network_classes: for each class of the network, in the order of the logits, the name of this class in the data.
            If None, the names that are stored with the network are used.
        network: the network to evaluate, if `path` is None. Its pretrained weights must already suffice for the task,
            like those of a language model that classifies texts by a prompt.

    Raises:
        ValueError: there is no trained network at `path`, or some weights of `network` are random. `setup` raises it if
            the trainer is asked to fit, if network and data have different classes, or if the network's classes cannot
            be put in the order of the data's classes.

    Example:
        >>> import tempfile
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     random_bert(num_classes=3).transformer.save_pretrained(folder)
        ...     Evaluation(folder).network.num_classes
        3
    """

    def __init__(
        self,
        path: str | None = None,
        trust_remote_code: bool = False,
        network_classes: list[str] | None = None,
        network: Classifier | None = None,
    ) -> None:
        check_given(path, network)
        if path is not None:
            self._hold(load_trained(path, trust_remote_code=trust_remote_code), path, network_classes)
        elif network is not None:
            self._hold(pretrained_network(network), str(network.init_args["path"]), network_classes)
            self._is_loaded = False

    @classmethod
    def of(cls, trained: TrainedNetwork, path: str) -> Evaluation:
        """Returns an Evaluation of a network that is already loaded.

        Args:
            trained: the network.
            path: path of the network, for messages.

        Example:
            >>> from lightning_xai.models.hf_classifier import random_bert
            >>> Evaluation.of(TrainedNetwork(random_bert(), ["bad", "good"]), "memory").network.num_classes
            2
        """
        evaluation = cls.__new__(cls)
        evaluation._hold(trained, path)
        return evaluation

    def _hold(self, trained: TrainedNetwork, path: str, network_classes: list[str] | None = None) -> None:
        super().__init__(trained.network, network_classes=network_classes)
        self.path = path
        self.decision_threshold.fill_(trained.decision_threshold)
        self._class_names, self._network_origin = network_classes or trained.class_names, path
        self._is_loaded = True  # whether the network was loaded from `path`
        self.encoder = trained.encoder  # facts about the text encoder with which the network was trained

    def setup(self, stage: str) -> None:
        if stage == "fit":
            raise trains_nothing(self.path)
        super().setup(stage)
        data, network = self.data_module, self.network
        if data is None:
            return
        if data.multilabel != network.multilabel:
            folder = Path(self.path) if self._is_loaded else None
            raise ValueError(other_task(self.path, folder, network_is_multilabel=network.multilabel))
        if data.num_classes != network.num_classes:
            raise ValueError(
                f"{self.path} has {quantity(network.num_classes, 'class')}, but the data have {data.num_classes}: "
                "choose other data by --data"
            )
        self.take_encoder(self.encoder, self.path)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        raise AssertionError("setup refuses to fit")


def check_given(path: object, network: object) -> None:
    """Raises ValueError unless exactly one of the arguments `path` and `network` of an Evaluation is given.

    Example:
        >>> check_given(None, None)
        Traceback (most recent call last):
        ValueError: Evaluation has neither path nor network: give either `path` (--model.init_args.path MODEL) or ...
    """
    if (path is None) == (network is None):
        given = "neither path nor network" if path is None else "both a path and a network"
        raise ValueError(
            f"Evaluation has {given}: give either `path` (--model.init_args.path MODEL) or `network` "
            "(--model.init_args.network)"
        )


def other_task(path: str, folder: Path | None, *, network_is_multilabel: bool) -> str:
    """Returns the error message for a multi-label network with single-label data, or for the reverse.

    Args:
        path: path of the network.
        folder: the folder from which the network was loaded, if it may be a Hugging Face folder.
        network_is_multilabel: whether the network is multi-label.

    Example:
        >>> print(other_task("runs/tm/seed0", None, network_is_multilabel=False))
        the data are multi-label, but runs/tm/seed0 is not: use data with one label per text
    """
    if network_is_multilabel:
        return (
            f"{path} is multi-label, but the data are not: choose other data by --data, or set `multilabel: true` for "
            "the data's source, if it has this option"
        )
    remedy = "use data with one label per text"
    if folder is not None and (folder / "config.json").is_file():
        remedy += (
            ', or, if the network was trained with a sigmoid per class, write "problem_type": '
            f'"multi_label_classification" into {path}/config.json'
        )
    return f"the data are multi-label, but {path} is not: {remedy}"


def trains_nothing(network: str) -> ValueError:
    """Returns the error for a fit of an Evaluation, which cannot train. `network` is the network's name in the message.

    Example:
        >>> print(trains_nothing("runs/tm/seed0"))
        Evaluation trains nothing: use run.py test to evaluate runs/tm/seed0, or fit a configuration that trains, ...
    """
    return ValueError(
        f"Evaluation trains nothing: use run.py test to evaluate {network}, or fit a configuration that trains, such "
        "as supervised.yaml"
    )
