"""The set of ROW_IDs finds repeated ids, in little memory."""

import random
import tracemalloc

from lightning_xai.data.clinical.row_ids import PAGE, RowIds


def test_finds_the_same_repeated_ids_as_a_set():
    draw = random.Random(0)
    ids = [
        draw.choice([0, 7, PAGE - 1, PAGE, draw.randrange(3 * PAGE), 10**12 + draw.randrange(9)]) for _ in range(999)
    ]
    seen, known = RowIds(), set()
    for row_id in ids:
        assert seen.add(row_id) == (row_id not in known)
        known.add(row_id)


def test_ids_in_a_row_take_an_eighth_of_a_byte_each():
    seen = RowIds()
    tracemalloc.start()
    for row_id in range(4 * PAGE):
        seen.add(row_id)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 1.1 * 4 * PAGE / 8
