"""A trained network of any origin, to be evaluated and explained, not trained."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.models.checkpoint import class_names, decision_threshold, load_network
from lightning_xai.objectives.base import Objective
from lightning_xai.types import Batch


class Evaluation(Objective):
    """Holds the network at `path` for `validate`, `test` and `predict`, with the decision threshold stored with it.

    Args:
        path: a .ckpt of any objective, a run folder, a Hugging Face folder, hub id or "package:NAME/FOLDER" with a
            classification head, or a folder of released PLM-CA weights.

    Raises:
        ValueError: no such network; or the data has other classes than it, or the same in another order, before
            anything is computed.
    """

    def __init__(self, path: str) -> None:
        super().__init__(load_network(path))
        self.path = path
        self.decision_threshold.fill_(decision_threshold(path))

    def setup(self, stage: str) -> None:
        if stage == "fit":
            raise ValueError(f"Evaluation does not train {self.path}: use run.py test, or another objective")
        data, network = self.trainer.datamodule, self.network
        if data is not None and (data.num_classes, data.multilabel) != (network.num_classes, network.multilabel):
            raise ValueError(
                f"{self.path} has {network.num_classes} classes (multi-label {network.multilabel}), the data "
                f"{data.num_classes} (multi-label {data.multilabel}): choose other data with --data"
            )
        names = None if data is None else class_names(self.path)
        # other names may be other words for the same classes (LABEL_0), but the same names elsewhere are a mistake
        if names is not None and sorted(names) == sorted(data.class_names) and names != list(data.class_names):
            place = next(i for i, (one, other) in enumerate(zip(names, data.class_names, strict=True)) if one != other)
            raise ValueError(
                f"class {place} is {names[place]!r} in {self.path} and {data.class_names[place]!r} in the data: give "
                "the data's source class_names in the network's order"
            )

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        raise AssertionError("setup refuses to fit")
