from typing import Any

import pytest
import torch
from torch.nn import functional as F

from lightning_xai.functional.propagation.function_arguments import attention_scores, norm_arguments, repeat_heads

KEEP = torch.ones(2, 1, 5, 5, dtype=torch.bool)
KEEP[1, ..., 3:] = False  # padding
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.7},
    "causal": {"is_causal": True},
    "padding": {"attn_mask": KEEP},
    "distances": {"attn_mask": -torch.arange(25.0, dtype=torch.float64).view(5, 5)},
    "shared heads": {"enable_gqa": True},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_softmax_of_the_scores_is_the_attention_of_the_kernel(name: str) -> None:
    heads = 1 if name == "shared heads" else 2
    query = torch.randn(2, 2, 5, 3, dtype=torch.float64)
    key, value = torch.randn(2, 2, heads, 5, 3, dtype=torch.float64)
    options = OPTIONS[name]
    attention = attention_scores(query, key, **options).softmax(-1)
    wanted = F.scaled_dot_product_attention(query, key, value, **options)
    torch.testing.assert_close(attention @ repeat_heads(value, 2), wanted)


@pytest.mark.parametrize("name", OPTIONS)
def test_scores_of_some_queries_are_rows_of_all(name: str) -> None:
    heads = 1 if name == "shared heads" else 2
    query, key = torch.randn(2, 2, 5, 3, dtype=torch.float64), torch.randn(2, heads, 5, 3, dtype=torch.float64)
    every = attention_scores(query, key, **OPTIONS[name])
    torch.testing.assert_close(attention_scores(query, key, rows=slice(1, 4), **OPTIONS[name]), every[..., 1:4, :])


@pytest.mark.parametrize(
    "name, args, kwargs, wanted",
    [
        ("layer_norm", ((2,), 3.0), {}, (3.0, 1e-5)),
        ("layer_norm", ((2,), 3.0, 4.0, 0.5), {}, (3.0, 0.5)),
        ("layer_norm", ((2,),), {"weight": 3.0, "eps": 0.5}, (3.0, 0.5)),
        ("rms_norm", ((2,), 3.0, 0.5), {}, (3.0, 0.5)),
        ("rms_norm", ((2,),), {}, (None, torch.finfo(torch.float64).eps)),
    ],
)
def test_arguments_of_norms_are_found_by_place_and_by_name(name: str, args: tuple, kwargs: dict, wanted: tuple) -> None:
    states = torch.zeros(1, 2, dtype=torch.float64)
    found_states, shape, weight, eps = norm_arguments(name, (states, *args), kwargs)
    assert found_states is states and shape == (2,) and (weight, eps) == wanted
