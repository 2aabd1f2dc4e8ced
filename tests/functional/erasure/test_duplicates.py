import pytest
import torch

from lightning_xai.functional.erasure.duplicates import distinct_rows

CASES = {
    "bool": torch.rand(50, 3, generator=torch.Generator().manual_seed(0)) < 0.5,
    "wide bool": torch.rand(50, 11, generator=torch.Generator().manual_seed(0)) < 0.1,
    "pairs": torch.randint(0, 3, (50, 2), generator=torch.Generator().manual_seed(0)),
    "numbers": torch.randint(-4, 4, (50,), generator=torch.Generator().manual_seed(0)),
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
def test_first_places_are_those_of_a_loop_over_sorted_rows(rows):
    values = rows.tolist()
    ascending = sorted({tuple(value) if isinstance(value, list) else value for value in values})
    listed = [tuple(value) if isinstance(value, list) else value for value in values]
    assert distinct_rows(rows)[0].tolist() == [listed.index(value) for value in ascending]


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
def test_the_inverse_rebuilds_all_rows(rows):
    first, inverse = distinct_rows(rows)
    assert torch.equal(rows[first][inverse], rows)
