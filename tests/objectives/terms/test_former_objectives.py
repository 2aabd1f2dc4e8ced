"""IGR, PGD and supervised attention as terms give the numbers that they gave as objectives of their own.

The numbers are those of the last version in which they were objectives, for the same weights and texts.
"""

import pytest
import torch

from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from lightning_xai.types import Attribution, Batch, TextInputs

CONFIG = {
    "model_type": "bert", "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 16, "pad_token_id": 0,
}  # fmt: skip


def fixed_network() -> PLMCA:
    network = PLMCA(config=CONFIG, num_classes=3, segment_length=8, dropout=0.0).double()
    with torch.no_grad():  # weights that no version of a library draws in another way
        for number, weight in enumerate(network.parameters()):
            weight.copy_((torch.arange(weight.numel()).view_as(weight) * 0.7 + number).sin() / 4)
    return network


def fixed_batch() -> Batch:
    ids = torch.arange(32).view(4, 8) * 7 % 45 + 5
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    inputs = TextInputs(ids, everywhere, everywhere, ~everywhere, torch.full_like(ids, 3), index=torch.arange(4))
    targets, labels = torch.arange(3).expand(4, 3), (torch.arange(12).view(4, 3) % 2).float()
    evidence = (torch.arange(96) % 5 < 2).view(4, 3, 8).float()
    return Batch(inputs, labels, Attribution(evidence, targets, labels > 0, inputs.token_mask))


@pytest.mark.parametrize(
    ("term", "loss", "gradient"),
    [
        (InputGradient(weight=0.5), 0.7048255307194073, 1.7980206669278234),
        (PGD(weight=0.5, epsilon=0.1, search=Search(num_steps=3)), 1.0567978588452285, 2.6875889075292663),
        (SupervisedAttention(weight=2.5, reduction="per_code"), 3.085698033610418, 1.9059228353978468),
    ],
    ids=["IGR", "PGD", "supervised attention"],
)
def test_a_term_has_the_numbers_of_the_former_objective(term, loss, gradient):
    objective = Supervised(fixed_network(), terms={"term": term})
    objective.setup("fit")
    total = objective.train().losses(fixed_batch())["loss"]
    total.backward()
    gradients = [weight.grad.abs().sum() for weight in objective.network.parameters() if weight.grad is not None]
    assert total.item() == pytest.approx(loss, rel=1e-6)
    assert float(torch.stack(gradients).sum()) == pytest.approx(gradient, rel=1e-6)
