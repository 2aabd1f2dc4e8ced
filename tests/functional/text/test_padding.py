"""Positions and column orders, on numbers worked out by hand."""

import torch

from lightning_xai.functional.text.padding import position_ids, right_padding_order, take_columns

MASK = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]], dtype=torch.bool)


def test_positions_count_real_tokens_only():
    assert position_ids(MASK).tolist() == [[0, 0, 1, 0, 2], [0, 1, 2, 3, 4]]


def test_positions_with_an_offset_put_padding_just_below_it():
    assert position_ids(MASK, offset=2).tolist() == [[1, 2, 3, 1, 4], [2, 3, 4, 5, 6]]


def test_positions_restart_in_every_segment_of_real_tokens():
    assert position_ids(MASK, segment_length=2).tolist() == [[0, 0, 1, 0, 0], [0, 1, 0, 1, 0]]


def test_right_padding_needs_no_order():
    assert right_padding_order(torch.tensor([[True, True, False], [True, False, False], [False, False, False]])) is None


def test_order_moves_real_tokens_to_the_front_and_back():
    order = right_padding_order(MASK)
    assert order is not None
    assert order.tolist() == [[1, 2, 4, 0, 3], [0, 1, 2, 3, 4]]
    states = torch.arange(20.0).reshape(2, 5, 2)
    assert torch.equal(take_columns(take_columns(states, order), order.argsort(dim=1)), states)
