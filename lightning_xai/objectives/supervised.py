"""Training on labels alone."""

from torch import Tensor

from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.losses import classification_loss
from lightning_xai.types import Batch


class Supervised(Objective):
    """Minimizes cross-entropy, or binary cross-entropy if multi-label. Edin et al. (2024) call this objective B_U.

    Example:
        >>> import torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> network, batch = random_bert(), Batch(TextInputs.of_ids([[1, 5, 2]]), torch.tensor([0]))
        >>> probability = network.predict(batch.inputs)[0, 0]
        >>> torch.allclose(Supervised(network).losses(batch)["loss"], -probability.log())
        True
    """

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": classification_loss(self.network(batch.inputs).logits, batch.labels)}
