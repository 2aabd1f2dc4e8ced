"""Ragged rows on disk: what was written comes back, also after a kill."""

import json
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.runs.stores.store import RaggedStore, RaggedWriter, stores_in
from lightning_xai.runs.stores.store_shards import complete_rows


def write(path, rows, rank=0, metadata=None):
    with RaggedWriter(path, rank=rank, metadata=metadata) as writer:
        for index, target, values in rows:
            writer.add(index, target, np.array(values))


def test_rows_of_different_lengths_come_back_by_key(tmp_path):
    write(tmp_path, [(3, 1, [0.5, -1.0]), (0, 2, [1.0, 2.0, 3.0]), (7, 0, [])], metadata={"method": "Random"})
    store = RaggedStore(tmp_path)
    assert store.keys() == [(0, 2), (3, 1), (7, 0)]
    assert store.get(0, 2).tolist() == [1.0, 2.0, 3.0]
    assert store.get(7, 0).tolist() == []
    assert store.metadata == {"method": "Random"}
    assert (3, 1) in store and (3, 0) not in store


def test_missing_key_is_a_key_error(tmp_path):
    write(tmp_path, [(0, 0, [1.0])])
    with pytest.raises(KeyError):
        RaggedStore(tmp_path).get(1, 0)


def test_rows_of_a_later_process_alone_are_readable(tmp_path):
    write(tmp_path, [(4, 1, [2.0])], rank=1, metadata={"method": "Gradient"})
    store = RaggedStore(tmp_path)
    assert store.metadata == {"method": "Gradient"} and store.keys() == [(4, 1)]


def test_first_shard_wins_where_ranks_wrote_the_same_key(tmp_path):
    write(tmp_path, [(0, 0, [1.0])], rank=0)
    write(tmp_path, [(0, 0, [2.0]), (1, 0, [3.0])], rank=1)
    store = RaggedStore(tmp_path)
    assert store.get(0, 0).tolist() == [1.0] and store.get(1, 0).tolist() == [3.0]


@pytest.mark.parametrize("cut", [("0.rows", 5), ("0.values", 3)])
def test_shard_cut_by_a_kill_loses_only_the_unfinished_row(tmp_path, cut):
    write(tmp_path, [(0, 0, [1.0, 2.0]), (1, 0, [3.0, 4.0])])
    name, num_bytes = cut
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:-num_bytes])
    assert RaggedStore(tmp_path).keys() == [(0, 0)]
    write(tmp_path, [(1, 0, [5.0, 6.0])])
    store = RaggedStore(tmp_path)
    assert store.get(0, 0).tolist() == [1.0, 2.0] and store.get(1, 0).tolist() == [5.0, 6.0]


def test_store_killed_between_making_its_files_can_be_read_and_continued(tmp_path, monkeypatch):
    made: list[Path] = []

    def killed(file: Path) -> None:
        if made:
            raise KeyboardInterrupt
        made.append(file)
        file.open("ab").close()

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "touch", killed)
        RaggedWriter(tmp_path)
    assert len(RaggedStore(tmp_path)) == 0
    with RaggedWriter(tmp_path) as writer:
        writer.add(0, 0, np.ones(2))
    assert RaggedStore(tmp_path).get(0, 0).tolist() == [1, 1]


def test_other_metadata_is_refused_with_the_folder_named(tmp_path):
    write(tmp_path, [(0, 0, [1.0])], metadata={"method": "Random"})
    with pytest.raises(ValueError, match="holds rows with .*Random.* not .*Attention"):
        RaggedWriter(tmp_path, metadata={"method": "Attention"})


def test_folder_without_a_store_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a store"):
        RaggedStore(tmp_path)


def test_store_of_an_older_format_is_neither_read_nor_continued(tmp_path):
    write(tmp_path, [(0, 0, [1.0])], metadata={"method": "Random"})
    (tmp_path / "store.json").write_text('{"method": "Random"}')
    for open_store in (RaggedStore, lambda path: RaggedWriter(path, metadata={"method": "Random"})):
        with pytest.raises(ValueError, match="has format 1, but this version reads format 2: remove this folder"):
            open_store(tmp_path)


def test_format_is_written_but_no_part_of_the_metadata(tmp_path):
    write(tmp_path, [], metadata={"method": "Random"})
    assert json.loads((tmp_path / "store.json").read_text()) == {"format": 2, "method": "Random"}
    assert RaggedStore(tmp_path).metadata == {"method": "Random"}


def test_stores_are_found_at_their_depth_only(tmp_path):
    for name in ("b", "a/x", "a/x/tokens"):
        RaggedWriter(tmp_path / name).close()
    assert stores_in(tmp_path) == [Path("b")]
    assert stores_in(tmp_path, depth=2) == [Path("a/x")]
    assert stores_in(tmp_path / "none") == []


def write_bits(path, rows, **options):
    with RaggedWriter(path, bits=True, **options) as writer:
        for index, row in rows:
            writer.add(index, 0, np.array(row))


def test_bits_need_a_byte_for_eight_values_and_come_back_as_booleans(tmp_path):
    rows = [(5, [1, 0, 1]), (2, [0] * 8 + [1]), (9, [])]
    write_bits(tmp_path, rows)
    assert (tmp_path / "0.bits").stat().st_size == 1 + 2
    store = RaggedStore(tmp_path)
    assert {index: store.get(index, 0).tolist() for index, _ in rows} == {i: [v == 1 for v in row] for i, row in rows}
    assert store.get(5, 0).dtype == bool and store.examples.tolist() == [2, 5, 9]


@pytest.mark.parametrize("cut", [("0.rows", 5), ("0.bits", 1)])
def test_shard_of_bits_cut_by_a_kill_loses_only_the_unfinished_row(tmp_path, cut):
    write_bits(tmp_path, [(0, [1, 0, 1]), (1, [1] * 9)])
    file = tmp_path / cut[0]
    file.write_bytes(file.read_bytes()[: -cut[1]])
    assert RaggedStore(tmp_path).keys() == [(0, 0)]
    write_bits(tmp_path, [(1, [0, 1])])
    store = RaggedStore(tmp_path)
    assert store.get(0, 0).tolist() == [True, False, True] and store.get(1, 0).tolist() == [False, True]


def test_store_of_numbers_is_continued_with_numbers(tmp_path):
    write(tmp_path, [(0, 0, [1.0, 0.0])])
    write_bits(tmp_path, [(1, [1, 0, 1])])
    store = RaggedStore(tmp_path)
    assert [store.get(index, 0).tolist() for index in (0, 1)] == [[1.0, 0.0], [1.0, 0.0, 1.0]]
    assert not (tmp_path / "0.bits").exists()


def test_keys_of_many_shards_are_found_as_in_a_dictionary(tmp_path):
    generator, wanted = np.random.default_rng(0), {}
    for rank in (2, 0, 1):
        rows = [(int(i), int(t), [float(100 * rank + n)]) for n, (i, t) in enumerate(generator.integers(0, 9, (40, 2)))]
        write(tmp_path, rows, rank=rank)
        wanted[rank] = rows
    expected: dict[tuple[int, int], list[float]] = {}
    for rank in range(3):
        for index, target, values in wanted[rank]:
            expected.setdefault((index, target), values)
    store = RaggedStore(tmp_path)
    assert store.keys() == sorted(expected) and len(store) == len(expected)
    assert all(store.get(*key).tolist() == values for key, values in expected.items())
    absent = {(i, t) for i in range(10) for t in range(10)} - set(expected)
    assert absent and not any(key in store for key in absent)


def test_rows_whose_file_of_values_is_missing_are_left_out(tmp_path):
    write(tmp_path, [(0, 2, [1.0, 2.0])])
    next(tmp_path.glob("0.values")).unlink()
    assert len(complete_rows(tmp_path, 0)) == 0 and RaggedStore(tmp_path).keys() == []
