import pytest
import torch
from torch import nn

from lightning_xai.functional.decomposition.frozen_norm import add_to, freeze_norm, multiply_by, subtract_from
from tests.functional.decomposition.conftest import RMSNorm


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), nn.LayerNorm(8, bias=False), RMSNorm(8)])
def test_a_frozen_norm_gives_on_its_own_states_what_the_norm_gives(norm: nn.Module) -> None:
    states = torch.randn(6, 8)
    frozen = freeze_norm(norm, states)
    normalized = frozen(states.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(normalized if frozen.bias is None else normalized + frozen.bias, norm(states))


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), RMSNorm(8)])
def test_a_frozen_norm_is_linear(norm: nn.Module) -> None:
    frozen = freeze_norm(norm.double(), torch.randn(6, 8).double())
    x, y = torch.randn(2, 6, 3, 8).double()
    torch.testing.assert_close(frozen(x + 3 * y), frozen(x) + 3 * frozen(y))


def test_the_rate_is_the_only_factor_of_a_target() -> None:
    frozen = freeze_norm(nn.LayerNorm(8).double(), torch.randn(6, 8).double())
    vectors = torch.randn(6, 3, 8).double()
    torch.testing.assert_close(frozen.without_rate(vectors) * frozen.rate, frozen(vectors))


def test_a_norm_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="BatchNorm1d is neither a LayerNorm nor an RMSNorm"):
        freeze_norm(nn.BatchNorm1d(8), torch.randn(6, 8))


@pytest.mark.parametrize("function", [add_to, subtract_from, multiply_by])
def test_memory_is_written_into_without_a_graph_only(function) -> None:
    temporary, operand = torch.tensor([2.0]), torch.tensor([3.0])
    result = function(temporary, operand)
    assert temporary.tolist() == [2.0]
    with torch.no_grad():
        assert function(temporary, operand) is temporary and torch.equal(temporary, result)
