import pytest
import torch

from lightning_xai.functional.scores.signs import Sign, with_sign


@pytest.mark.parametrize("sign, scores", [("signed", [-2, 0, 1]), ("absolute", [2, 0, 1]), ("nonnegative", [0, 0, 1])])
def test_signs_are_kept_dropped_or_cut_off(sign: Sign, scores: list[float]) -> None:
    assert with_sign(torch.tensor([-2.0, 0.0, 1.0]), sign).tolist() == scores
