"""Class attention, and the fused kernel that does not store its weights."""

import pytest
import torch

from lightning_xai.models.segments.class_attention import class_attention, fused_class_attention

KEEP = torch.tensor([[True, True, True, False, False], [True, True, True, True, True]])


@pytest.mark.parametrize("shared", [True, False], ids=["one query per class", "queries of each text"])
@pytest.mark.parametrize("keep", [KEEP, torch.ones_like(KEEP)], ids=["padded", "full"])
def test_fused_equals_softmax_times_values(shared, keep):
    queries = torch.randn(3, 4, dtype=torch.float64) if shared else torch.randn(2, 3, 4, dtype=torch.float64)
    keys, values = torch.randn(2, 5, 4, dtype=torch.float64), torch.randn(2, 5, 6, dtype=torch.float64)
    by_hand = torch.einsum("bcd,btd->bct", queries.expand(2, 3, 4), keys).masked_fill(~keep.unsqueeze(1), -torch.inf)
    torch.testing.assert_close(class_attention(queries, keys, keep).softmax(dim=-1), by_hand.softmax(dim=-1))
    fused = fused_class_attention(queries, keys, values, keep)
    torch.testing.assert_close(fused, by_hand.softmax(dim=-1) @ values)


def test_a_text_without_tokens_has_finite_weights():
    scores = class_attention(torch.ones(1, 2), torch.ones(1, 3, 2), torch.zeros(1, 3, dtype=torch.bool))
    assert scores.softmax(dim=-1).isfinite().all()
