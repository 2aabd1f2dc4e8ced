"""Compressed files and names with wildcards: the same rows as in plain files, and files that are refused by name."""

import gzip
import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lightning_xai.data.sources.files import Files

ROWS = [{"text": f"w{i} caf\u00e9", "label": str(i % 2)} for i in range(6)]


def content(kind: str, rows=ROWS) -> bytes:
    if kind == "jsonl":
        return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()
    separator = "," if kind == "csv" else "\t"
    return "\n".join(separator.join(cells) for cells in [("text", "label"), *(row.values() for row in rows)]).encode()


def compressed(data: bytes, suffix: str) -> bytes:
    if suffix == "zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    return gzip.compress(data)


def load(files, **options):
    return Files({"train": files}, class_names=["0", "1"], validation_fraction=0, **options).load()["train"].to_list()


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_compressed_files_have_the_rows_of_plain_ones(tmp_path, kind, suffix):
    (tmp_path / f"a.{kind}").write_bytes(content(kind))
    (tmp_path / f"a.{kind}.{suffix}").write_bytes(compressed(content(kind), suffix))
    assert load(str(tmp_path / f"a.{kind}.{suffix}")) == load(str(tmp_path / f"a.{kind}"))


def test_a_wildcard_names_all_files_that_match_sorted_by_name(tmp_path):
    for name, rows in (("b", ROWS[3:]), ("a", ROWS[:3]), ("c", ROWS[:1])):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(content("jsonl", rows)))
    texts = [row["text"] for row in load(str(tmp_path / "[ab].jsonl.gz"))]
    assert texts == [row["text"] for row in ROWS]


def test_wildcards_name_parquet_files_too(tmp_path):
    import pyarrow.parquet as pq

    for name, rows in (("b", ROWS[3:]), ("a", ROWS[:3])):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    assert [row["text"] for row in load(str(tmp_path / "*.parquet"))] == [row["text"] for row in ROWS]


def test_a_wildcard_without_a_match_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no file matches '.*\*.csv': correct the name in data_files"):
        load(str(tmp_path / "*.csv"))


def test_a_file_in_two_splits_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(content("csv"))
    splits: dict[str, str | list[str]] = {"train": str(tmp_path / "*.csv"), "test": str(tmp_path / "a.csv")}
    with pytest.raises(ValueError, match="a.csv is in the splits 'train' and 'test': choose one"):
        Files(splits, class_names=["0", "1"]).load()


def test_a_file_with_other_columns_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(content("csv"))
    (tmp_path / "b.csv").write_bytes(content("csv").replace(b"label", b"stars"))
    with pytest.raises(ValueError, match="b.csv has the columns text, but .*a.csv of split 'train' has label, text"):
        load(str(tmp_path / "*.csv"))


@pytest.mark.parametrize("suffix", ["gz", "zst"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_cut_file_is_refused(tmp_path, kind, suffix):
    data = compressed(content(kind, ROWS * 50), suffix)
    (tmp_path / f"a.{kind}.{suffix}").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=rf"a.{kind}.{suffix} is cut off or damaged .*: copy or compress"):
        load(str(tmp_path / f"a.{kind}.{suffix}"))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_line_of_bad_utf8_is_named_also_in_compressed_files(tmp_path, kind):
    lines = content(kind).split(b"\n")
    lines[2] = lines[2].replace("\u00e9".encode(), b"\xe9")
    (tmp_path / f"a.{kind}.gz").write_bytes(gzip.compress(b"\n".join(lines)))
    with pytest.raises(ValueError, match="is not UTF-8 .*; the first wrong line is line 3"):
        load(str(tmp_path / f"a.{kind}.gz"))


def test_zstandard_without_its_package_is_refused(tmp_path, monkeypatch):
    (tmp_path / "a.csv.zst").write_bytes(compressed(content("csv"), "zst"))
    without = SimpleNamespace(Codec=SimpleNamespace(is_available=lambda name: name != "zstd"))
    monkeypatch.setattr("lightning_xai.runs.files.compressed_files.pa", without)
    with pytest.raises(ValueError, match="a.csv.zst needs a pyarrow that supports zstd: install pyarrow from PyPI"):
        load(str(tmp_path / "a.csv.zst"))


def test_files_of_several_kinds_are_refused():
    with pytest.raises(
        ValueError, match=r"data_files end in \['.csv', '.jsonl'\]; give files with the same ending, one of"
    ):
        Files({"train": "a.csv.gz", "test": "b.jsonl"})


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_the_place_of_a_wrong_byte_is_counted_from_the_beginning_of_the_file(tmp_path, kind):
    data = content(kind, ROWS * 2000)
    place = data.rindex("\u00e9".encode())
    (tmp_path / f"a.{kind}").write_bytes(data[:place] + b"\xe9" + data[place + 2 :])
    with pytest.raises(ValueError, match=rf"is not UTF-8 \(byte {place}\)"):
        load(str(tmp_path / f"a.{kind}"))
