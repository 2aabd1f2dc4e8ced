"""The weights with which a head reads token states, wherever padding stands."""

import pytest
import torch

from lightning_xai.models.transformer.pooling import HeadPooling, pooling_readout

MASK = torch.tensor([[1, 1, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0]]).bool()  # padding on the right, on the left, on both


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("cls", [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]),
        ("last", [[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0]]),
        ("mean", [[1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 0.5, 0.5], [0, 1, 0, 0]]),
    ],
)
def test_tokens_are_counted_without_padding(pooling: HeadPooling, expected: list[list[float]]) -> None:
    readout = pooling_readout(MASK, pooling=pooling, dtype=torch.float64)
    torch.testing.assert_close(readout, torch.tensor(expected, dtype=torch.float64).unsqueeze(1))


def test_a_text_without_tokens_has_finite_weights() -> None:
    readout = pooling_readout(torch.zeros(1, 3, dtype=torch.bool), pooling="mean", dtype=torch.float32)
    assert readout.tolist() == [[[0.0, 0.0, 0.0]]]
