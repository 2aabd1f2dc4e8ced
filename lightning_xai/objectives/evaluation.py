"""A trained network of any origin, to be evaluated and explained, not trained."""

from __future__ import annotations

from torch import Tensor

from lightning_xai.models.checkpoint import check_class_order, load_trained
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
        trained = load_trained(path)
        super().__init__(trained.network)
        self.path = path
        self.decision_threshold.fill_(trained.decision_threshold)
        self._class_names, self._data_state = trained.class_names, trained.data_state

    def setup(self, stage: str) -> None:
        if stage == "fit":
            raise ValueError(f"Evaluation does not train {self.path}: use run.py test, or another objective")
        super().setup(stage)
        data, network = self.trainer.datamodule, self.network
        if data is not None and (data.num_classes, data.multilabel) != (network.num_classes, network.multilabel):
            raise ValueError(
                f"{self.path} has {network.num_classes} classes (multi-label {network.multilabel}), the data "
                f"{data.num_classes} (multi-label {data.multilabel}): choose other data with --data"
            )
        if data is not None:
            check_class_order(self._class_names, data.class_names, self.path)
            if self._data_state:  # ids are those of the network's vocabulary, whatever this data's texts are
                data.load_state_dict(self._data_state)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        raise AssertionError("setup refuses to fit")
