"""Large tables: rows pass one by one, lie in a file that leaves no trace, and are those of small tables."""

import gzip
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

from lightning_xai.data.sources.files import Files
from lightning_xai.data.tables import stored_rows as module
from lightning_xai.data.tables.stored_rows import stored_rows
from tests.data.sources.test_compressed import compressed

COLUMNS = ["text", "labels", "rationales", "id"]


def row(number: int) -> dict:
    return {
        "text": f"w{number} " * 20,
        "labels": number % 3,
        "rationales": [{"label": 1, "spans": [[0, number]]}] if number % 2 else [],
        "id": str(number),
    }


def test_rows_on_the_disk_are_those_in_memory_and_their_file_is_gone(tmp_path):
    rows = list(map(row, range(1500)))
    on_disk = stored_rows(iter(rows), COLUMNS, folder=tmp_path / "work", in_memory=1000)
    assert on_disk.cache_files and list((tmp_path / "work").iterdir()) == []
    in_memory = stored_rows(iter(rows), COLUMNS)
    assert not in_memory.cache_files and on_disk.features == in_memory.features
    assert on_disk.to_list() == in_memory.to_list() == rows
    assert on_disk.select([1499, 0, 17]).to_list() == [rows[1499], rows[0], rows[17]]


def test_an_error_in_a_row_leaves_no_file(tmp_path):
    rows = [*map(row, range(4100)), {**row(0), "labels": 1.5}]
    with pytest.raises(ValueError, match=r"label 1.5 is not a class number"):
        stored_rows(rows, COLUMNS, folder=tmp_path, in_memory=1000)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_readable_for_its_owner_only(tmp_path):
    modes: list[int] = []

    def rows():
        for number in range(4200):
            modes.extend(path.stat().st_mode & 0o777 for path in (tmp_path / "work").glob("*") if number % 4199 == 0)
            yield row(number)

    stored_rows(rows(), COLUMNS, folder=tmp_path / "work", in_memory=1000)
    assert set(modes) == {0o600} and (tmp_path / "work").stat().st_mode & 0o777 == 0o700


def test_no_rows_are_an_empty_table_with_its_columns():
    assert stored_rows([], COLUMNS).column_names == COLUMNS


@pytest.mark.parametrize("in_memory", [0, 1 << 25])
def test_validation_rows_are_those_that_a_data_set_would_choose(tmp_path, monkeypatch, in_memory):
    monkeypatch.setattr(module, "IN_MEMORY", in_memory)
    rows = [{"text": f"w{i}", "label": str(i % 2)} for i in range(97)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = Files({"train": str(tmp_path / "a.jsonl")}, validation_fraction=0.2, seed=5)
    parts = Dataset.from_list(rows).train_test_split(0.2, seed=5)
    splits = source.load()
    for split, part in (("train", "train"), ("validation", "test")):
        assert splits[split]["text"][:] == parts[part]["text"][:]


def large_file(folder, kind: str) -> str:
    """Writes 400 rows of 10,000 characters each, and returns the file's name."""
    letters = np.random.default_rng(0).integers(97, 123, (400, 10_000), dtype=np.uint8)
    rows = [{"text": bytes(line).decode(), "label": str(i % 2)} for i, line in enumerate(letters)]
    file = folder / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=50)
        return str(file)
    head = "text,label\n" if "csv" in kind else ""
    lines = [",".join(one.values()) if head else json.dumps(one) for one in rows]
    data = (head + "\n".join(lines)).encode()
    data = gzip.compress(data, 1) if kind.endswith("gz") else compressed(data, "zst") if kind.endswith("zst") else data
    file.write_bytes(data)
    return str(file)


@pytest.mark.parametrize("kind", ["csv", "jsonl.zst", "parquet"])
def test_a_large_file_is_never_whole_in_memory(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(module, "IN_MEMORY", 1 << 19)
    monkeypatch.setattr("lightning_xai.data.sources.row_stream.READ_AT_ONCE", 32)
    source = Files({"train": large_file(tmp_path, kind)}, validation_fraction=0)
    source.work_folder = tmp_path
    source.load_table()  # imports the reader
    pool = pa.default_memory_pool()
    arrow_before = pool.bytes_allocated()
    tracemalloc.start()
    try:
        table = source.load()
        assert len(table["train"]) == 400 and source.class_names == ["0", "1"]
        python_peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert python_peak < 2_500_000 and pool.bytes_allocated() - arrow_before < 1_000_000  # of 4 million
