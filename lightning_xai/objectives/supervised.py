"""Training on labels alone."""

from torch import Tensor

from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.losses import classification_loss
from lightning_xai.types import Batch


class Supervised(Objective):
    """Minimizes cross-entropy, or binary cross-entropy where an example has many labels (B_U of Edin et al. 2024)."""

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": classification_loss(self.network(batch.inputs).logits, batch.labels)}
