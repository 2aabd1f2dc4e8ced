from typing import cast

import pytest
import torch

from lightning_xai.functional.erasure.erase import Erasure, erase
from tests.conftest import CLS, MASK, PAD, SEP, text_inputs


def test_deleted_tokens_leave_a_text_that_was_encoded_without_them():
    inputs = text_inputs([6, 4])
    keep = torch.tensor([[1, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1]]).bool()
    erased, embed_mask = erase(inputs, keep, "delete", pad_id=PAD)
    ids = inputs.input_ids
    assert erased.input_ids.tolist() == [[CLS, ids[0, 2], ids[0, 4], SEP, PAD, PAD], ids[1].tolist()]
    assert erased.attention_mask.sum(dim=1).tolist() == [4, 4]
    assert inputs.word_ids is not None and inputs.index is not None
    assert erased.word_ids is not None and erased.index is not None
    assert erased.word_ids[0].tolist() == [-1, *inputs.word_ids[0, [2, 4]].tolist(), -1, -1, -1]
    assert erased.token_mask.sum(dim=1).tolist() == [2, 2]
    assert torch.equal(erased.index, inputs.index)
    assert embed_mask is None


@pytest.mark.parametrize("erasure, filled", [("mask", MASK), ("pad", 77)])
def test_replaced_tokens_keep_the_length(erasure, filled):
    inputs = text_inputs([5])
    erased, _ = erase(inputs, torch.tensor([[1, 0, 1, 0, 1]]).bool(), erasure, pad_id=77)
    ids = inputs.input_ids[0]
    assert erased.input_ids.tolist() == [[CLS, filled, ids[2], filled, SEP]]
    assert torch.equal(erased.attention_mask, inputs.attention_mask)


def test_zeroed_embeddings_are_asked_for_where_tokens_are_erased():
    inputs = text_inputs([5])
    erased, embed_mask = erase(inputs, torch.tensor([[0, 0, 1, 0, 0]]).bool(), "embed_zero")
    assert torch.equal(erased.input_ids, inputs.input_ids)
    assert embed_mask is not None and embed_mask.tolist() == [[True, False, True, False, True]]


@pytest.mark.parametrize("erasure", ["delete", "mask", "pad"])
def test_special_tokens_are_never_erased(erasure):
    inputs = text_inputs([5])
    erased, _ = erase(inputs, torch.zeros(1, 5, dtype=torch.bool), erasure, pad_id=77)
    assert erased.input_ids[0, 0] == CLS and SEP in erased.input_ids[0]


def test_inputs_stay_as_they_were():
    inputs = text_inputs([6, 4])
    before = inputs.map(torch.clone)
    erase(inputs, torch.zeros(2, 6, dtype=torch.bool), "delete")
    assert all(torch.equal(getattr(inputs, name), getattr(before, name)) for name in ("input_ids", "token_mask"))


def test_unknown_erasure_is_refused():
    with pytest.raises(ValueError, match="erasure is 'blur'"):
        erase(text_inputs([4]), torch.ones(1, 4, dtype=torch.bool), cast(Erasure, "blur"))
