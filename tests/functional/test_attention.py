import pytest
import torch

from lightning_xai.functional.attention import (
    encoder_attentions,
    read_for_targets,
    read_tokens,
    rollout,
    target_rows,
    token_attention,
)
from lightning_xai.types import ClassifierOutput


def stochastic(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(dim=-1)


def test_rollout_of_two_layers():
    first = torch.tensor([[[[0.5, 0.5], [0.2, 0.8]]]])
    second = torch.tensor([[[[0.9, 0.1], [0.4, 0.6]]]])
    wanted = torch.tensor([[[0.7175, 0.2825], [0.23, 0.77]]])
    torch.testing.assert_close(rollout(torch.eye(2).unsqueeze(0), [first, second]), wanted)


def test_rollout_divides_rows_that_do_not_sum_to_one():  # dropout leaves such rows
    attention = torch.tensor([[[[2.0, 1.0], [0.0, 1.0]]]])
    wanted = torch.tensor([[[0.75, 0.25], [0.0, 1.0]]])
    torch.testing.assert_close(rollout(torch.eye(2).unsqueeze(0), [attention]), wanted)


def test_rollout_without_residual_is_the_product_of_the_attentions():
    layers = [stochastic(1, 2, 4, 4), stochastic(1, 2, 4, 4) ** 2]
    means = [layer.mean(dim=1) / layer.mean(dim=1).sum(-1, keepdim=True) for layer in layers]
    readout = stochastic(1, 3, 4)
    torch.testing.assert_close(rollout(readout, layers, residual=0.0), readout @ means[1] @ means[0])


def test_rollout_rows_sum_to_one():
    scores = rollout(stochastic(2, 3, 4), [stochastic(2, 2, 4, 4)] * 3)
    torch.testing.assert_close(scores.sum(-1), torch.ones(2, 3, dtype=torch.float64))


def test_read_tokens_mixes_within_segments_only():
    batch, rows, tokens, segments, size = 2, 3, 7, 3, 3  # the last two columns of the last segment are padding
    readout, mixing = stochastic(batch, rows, tokens), stochastic(batch * segments, size, size)
    wanted = torch.zeros(batch, rows, tokens, dtype=torch.float64)
    for b in range(batch):
        for i in range(tokens):
            for j in range(tokens):
                if i // size == j // size:
                    weight = mixing[b * segments + i // size, i % size, j % size]
                    wanted[b, :, j] += readout[b, :, i] * weight
    torch.testing.assert_close(read_tokens(readout, mixing), wanted)


def test_target_rows_are_the_classes_own():
    readout = stochastic(2, 5, 4)
    rows = target_rows(readout, torch.tensor([[4, 0], [1, 1]]))
    assert torch.equal(rows[0], readout[0, [4, 0]]) and torch.equal(rows[1], readout[1, [1, 1]])


def test_a_readout_of_one_row_serves_every_class():
    readout = stochastic(2, 1, 4)
    assert torch.equal(target_rows(readout, torch.zeros(2, 3).long()), readout.expand(2, 3, 4))


@pytest.mark.parametrize(("classes", "rows"), [(1, 1), (5, 3)])
def test_a_readout_that_classes_share_is_read_once(classes, rows):
    followed = []

    def follow(readout):
        followed.append(readout.shape[1])
        return 2 * readout

    readout, targets = stochastic(2, classes, 4), torch.tensor([[0, 0, 0], [0, 0, 0]])
    assert torch.equal(read_for_targets(readout, targets, follow), 2 * target_rows(readout, targets))
    assert followed == [rows]


def test_token_attention_of_a_cls_head_is_the_cls_row_of_the_last_layer():
    readout = torch.tensor([[[1.0, 0.0, 0.0]]], dtype=torch.float64)
    attentions = (stochastic(1, 2, 3, 3) ** 2, stochastic(1, 2, 3, 3))
    output = ClassifierOutput(torch.zeros(1, 2), readout, attentions)
    scores = token_attention(output, torch.tensor([[0, 1]]), readout_is_attention=False)
    torch.testing.assert_close(scores, attentions[1][:, :, 0].mean(1, keepdim=True).expand(1, 2, 3))


def test_missing_attentions_are_an_error():
    with pytest.raises(ValueError, match="set_attention"):
        encoder_attentions(ClassifierOutput(torch.zeros(1, 2), torch.ones(1, 1, 1), ()))
