"""PLM-CA takes fused attention where an objective reads no readout: no tensor of classes by tokens exists."""

from typing import Any

import pytest
import torch

from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.base import Term
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention
from lightning_xai.objectives.terms.vat import VAT
from lightning_xai.objectives.token_masking import TokenMasking
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs, tiny_classifier
from tests.objectives.conftest import save_teacher
from tests.tensor_shapes import TensorShapes

CLASSES, TOKENS = 61, 53  # larger than any other size of the tiny network


def batch() -> Batch:
    inputs, gold = text_inputs([TOKENS, 20]), torch.tensor([[3], [60]])
    evidence = inputs.token_mask.unsqueeze(1).float()
    rationale = Attribution(evidence, gold, torch.ones_like(gold).bool(), inputs.token_mask)
    return Batch(inputs, torch.zeros(2, CLASSES).scatter(1, gold, 1.0), rationale)


def network(seed: int = 0):
    return tiny_classifier("plm_ca", num_classes=CLASSES, seed=seed)


def objective(kind: str, path, kernel: Any = "sdpa") -> Any:
    built: Supervised | TokenMasking
    if kind == "token_masking":
        search = Search(num_steps=2, lr=2.0)  # from 2 to -2: tokens are dropped
        built = TokenMasking(network(), save_teacher(network(1), path / "teacher.ckpt"), search=search)
        built.setup("fit")
        built._teacher[0].set_attention(kernel)
    else:
        terms: dict[str, dict[str, Term]] = {
            "none": {},
            "pgd": {"pgd": PGD(epsilon=0.1, search=Search(num_steps=2))},
            "vat": {"vat": VAT(epsilon=0.1)},
            "attention": {"attention": SupervisedAttention()},
        }
        built = Supervised(network(), terms=terms[kind])
    built.network.set_attention(kernel)
    return built.eval()


def classes_by_tokens(built) -> dict:
    with TensorShapes() as shapes:
        built.losses(batch())["loss"].backward()
    return shapes.with_sizes(CLASSES, TOKENS)


@pytest.mark.parametrize("kind", ["none", "pgd", "vat", "token_masking"])
def test_no_tensor_of_classes_by_tokens_exists(kind, tmp_path):
    assert not classes_by_tokens(objective(kind, tmp_path))


def test_a_term_that_reads_the_readout_gets_it(tmp_path):
    assert classes_by_tokens(objective("attention", tmp_path))


@pytest.mark.parametrize("kind", ["pgd", "vat", "token_masking"])
def test_fused_and_plain_attention_give_the_same_losses_and_gradients(kind, tmp_path):
    results = []
    for kernel in ("sdpa", "eager"):
        built = objective(kind, tmp_path, kernel).double()
        if kind == "token_masking":
            built._teacher[0].double()
        losses = built.losses(batch())
        losses["loss"].backward()
        results.append((losses, [weight.grad for weight in built.network.parameters()]))
    (fused, of_fused), (plain, of_plain) = results
    assert any(bool(gradient.any()) for gradient in of_plain if gradient is not None)
    torch.testing.assert_close(fused, plain, rtol=1e-9, atol=1e-12, check_dtype=False)
    torch.testing.assert_close(of_fused, of_plain, rtol=1e-7, atol=1e-10)
