import pytest
import torch

from lightning_xai.functional.network.chunking import check_chunk_size, even_slices, packed_rows, rows_per_forward

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("chunk_size", "num_tokens", "rows"),
    [(16, 10, 16), (64, 64, 32), (64, 512, 4), (64, 6000, 1), (1, 10, 1), (None, 6000, 1), (None, 8, 256), (9, 0, 9)],
)
def test_long_texts_are_differentiated_by_fewer_rows_at_a_time(chunk_size, num_tokens, rows):
    assert rows_per_forward(chunk_size, num_tokens, CPU, differentiated=True) == rows


def test_an_accelerator_takes_more_rows_and_a_pass_without_a_gradient_too():
    rows = [rows_per_forward(None, 128, where, differentiated=d) for where in (CPU, CUDA) for d in (True, False)]
    assert rows == [16, 32, 64, 256]


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 20, 21, 22, 100])
def test_even_slices_cover_all_rows_once_in_as_few_pieces_as_there_have_to_be(most):
    pieces = [list(range(21))[rows] for rows in even_slices(21, most)]
    assert sum(pieces, []) == list(range(21))
    sizes = [len(piece) for piece in pieces]
    assert max(sizes) <= most and max(sizes) - min(sizes) <= 1 and len(sizes) == -(-21 // most)


def test_no_row_has_no_slice():
    assert list(even_slices(0, 4)) == []
    assert list(packed_rows(torch.zeros(0, dtype=torch.long), None, CPU, differentiated=True)) == []


def test_packed_rows_cover_all_rows_in_slices_that_fit():
    lengths = torch.tensor([6000, 3000, 500, 500, 500, 500, 5, 5, 5])
    assert [lengths[rows].tolist() for rows in packed_rows(lengths, 4, CPU, differentiated=True)] == [
        [6000], [3000], [500, 500, 500, 500], [5, 5, 5],
    ]  # fmt: skip


def test_no_rows_at_a_time_are_refused():
    check_chunk_size(None)
    check_chunk_size(1)
    for refused in (
        lambda: check_chunk_size(0),
        lambda: list(packed_rows(torch.tensor([3]), 0, CPU, differentiated=True)),
    ):
        with pytest.raises(ValueError, match="chunk_size is 0: give at least 1 row"):
            refused()
