"""Ragged rows on disk: what was written comes back, also after a kill."""

import json
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.runs.store import RaggedStore, RaggedWriter, stores_in


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
    with pytest.raises(ValueError, match="holds rows of .*Random.* not of .*Attention"):
        RaggedWriter(tmp_path, metadata={"method": "Attention"})


def test_folder_without_a_store_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a store"):
        RaggedStore(tmp_path)


def test_store_of_an_older_format_is_neither_read_nor_continued(tmp_path):
    write(tmp_path, [(0, 0, [1.0])], metadata={"method": "Random"})
    (tmp_path / "store.json").write_text('{"method": "Random"}')
    for open_store in (RaggedStore, lambda path: RaggedWriter(path, metadata={"method": "Random"})):
        with pytest.raises(ValueError, match="has format 1, but this version reads format 2: remove it"):
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
