"""Keys and values of a shared prompt: when they are computed again, and what a decoder gets from them."""

import copy
import functools
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaModel

from lightning_xai.models.transformer.prompt_cache import PromptCache, cache_argument, has_hooks, shared_columns

IDS = torch.tensor([5, 6, 7, 8])


@pytest.fixture
def decoder() -> LlamaModel:
    sizes: dict[str, Any] = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaModel(LlamaConfig(**sizes, intermediate_size=8)).eval().double()


def fill(cache: PromptCache, decoder: LlamaModel, ids: torch.Tensor = IDS, state: tuple = ()) -> int:
    return cache.first_columns(decoder, ids, torch.arange(len(ids)), state)


def test_continuing_after_the_prompt_gives_the_states_of_the_whole_text(decoder):
    cache, rest = PromptCache(), torch.tensor([[9, 10], [11, 12]])
    assert fill(cache, decoder) == 4
    with torch.no_grad():
        whole = decoder(torch.cat([IDS.expand(2, -1), rest], dim=1)).last_hidden_state[:, 4:]
        for columns in (4, 3):  # all of the prompt, and less of it
            copied: Any = cache_argument(decoder, cache.copy(2, columns))
            text = torch.cat([IDS[columns:].expand(2, -1), rest], dim=1)
            positions = torch.arange(columns, 6).expand(2, -1)
            states = decoder(text, position_ids=positions, **copied).last_hidden_state[:, -2:]
            torch.testing.assert_close(states, whole, rtol=1e-9, atol=1e-9)


def test_a_prompt_that_shares_half_of_its_columns_uses_those_and_another_is_computed(decoder):
    cache = PromptCache()
    fill(cache, decoder)
    assert fill(cache, decoder, torch.tensor([5, 6, 1, 2])) == 2  # the first half is stored
    assert fill(cache, decoder, torch.tensor([5, 1, 2, 3])) == 4  # less than half is: computed again


def test_changed_weights_and_another_state_are_computed_again(decoder, monkeypatch):
    cache, forward, calls = PromptCache(), decoder.forward, []

    @functools.wraps(forward)  # keeps the names of the arguments
    def counted(*args, **kwargs):
        calls.append(args)
        return forward(*args, **kwargs)

    monkeypatch.setattr(decoder, "forward", counted)
    for _ in range(2):
        fill(cache, decoder)
    assert len(calls) == 1
    fill(cache, decoder, state=("bfloat16",))
    assert len(calls) == 2
    with torch.no_grad():
        next(decoder.parameters()).add_(1.0)
    fill(cache, decoder, state=("bfloat16",))
    assert len(calls) == 3


def test_a_copied_network_starts_with_an_empty_cache(decoder):
    cache = PromptCache()
    fill(cache, decoder)
    assert not cache.is_empty and copy.deepcopy(cache).is_empty


def test_hooks_of_transformers_do_not_count(decoder):
    assert not has_hooks(decoder)
    handle = decoder.layers[1].register_forward_pre_hook(lambda module, args: None)
    assert has_hooks(decoder)
    handle.remove()
    assert not has_hooks(decoder)


def test_columns_are_shared_up_to_the_first_that_differs_or_may_not_be():
    ids = torch.tensor([[7, 8, 5, 1], [7, 8, 5, 2]])
    allowed = torch.ones(2, 4, dtype=torch.bool)
    assert shared_columns(ids, allowed) == 3
    allowed[1, 1] = False
    assert shared_columns(ids, allowed) == 1
