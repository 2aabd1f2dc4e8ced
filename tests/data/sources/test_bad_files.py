"""Files that cannot be read as a table end in one line with the remedy; a file corrected in that way loads."""

import json

import pyarrow as pa
import pytest

from tests.data.sources.bad_inputs import Bad, check_mistake, lines, parquet, replaced, rewritten, row, with_encoding

CSV = b"text,label\na good film,pos\na bad film,neg\n"
HEAD = "text,label\n"
TABLE = parquet(text=["a", "b"] * 50, label=["pos", "neg"] * 50)


def arrow_stream() -> bytes:
    table = pa.table({"text": ["a", "b"], "label": ["pos", "neg"]})
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue().to_pybytes()


INPUTS = {
    "latin-1 csv": Bad(
        "csv",
        f"{HEAD}caf\xe9,pos\nbad,neg\n".encode("latin-1"),
        "train.csv is not UTF-8 (byte 14)",
        "save it as UTF-8, or set `encoding: latin-1`",
        correct=with_encoding("latin-1"),
    ),
    "latin-1 tsv": Bad(
        "tsv",
        "text\tlabel\nna\xefve\tpos\n\xfc\tneg\n".encode("latin-1"),
        "train.tsv",
        "set `encoding: latin-1`",
        correct=with_encoding("latin-1"),
    ),
    "latin-1 jsonl": Bad(
        "jsonl",
        '{"text": "\xfcber", "label": "pos"}\n'.encode("latin-1"),
        "train.jsonl",
        "set `encoding: latin-1`",
        correct=with_encoding("latin-1"),
    ),
    "cp1252 csv": Bad(
        "csv",
        f"{HEAD}\u201cgood\u201d,pos\n".encode("cp1252"),
        "train.csv",
        "save it as UTF-8, or set `encoding: cp1252`",
        correct=with_encoding("cp1252"),
    ),
    "utf-16 csv": Bad(
        "csv", f"{HEAD}good,pos\n".encode("utf-16"), "train.csv", "utf-16", correct=with_encoding("utf-16")
    ),
    "utf-16 tsv": Bad(
        "tsv",
        "text\tlabel\na\tpos\n".encode("utf-16"),
        "train.tsv",
        "set `encoding: utf-16`",
        correct=with_encoding("utf-16"),
    ),
    "utf-16 jsonl": Bad(
        "jsonl", json.dumps(row()).encode("utf-16"), "train.jsonl", "encoding: utf-16", correct=with_encoding("utf-16")
    ),
    "utf-16 without mark": Bad(
        "csv",
        f"{HEAD}good,pos\n".encode("utf-16-le"),
        "train.csv",
        "encoding: utf-16-le",
        correct=with_encoding("utf-16-le"),
    ),
    "utf-8 read as utf-16": Bad(
        "csv", CSV, "train.csv", "encoding: utf-8", {"encoding": "utf-16"}, with_encoding("utf-8")
    ),
    "unknown encoding": Bad("csv", CSV, "'utf8mb4'", "such as utf-8", {"encoding": "utf8mb4"}, with_encoding("utf-8")),
    "unquoted comma": Bad(
        "csv",
        b"text,label\ngood, but long,pos\n",
        "train.csv, line 2: 3 cells for 2 columns",
        "into double quotes",
        correct=replaced(b"good, but long", b'"good, but long"'),
    ),
    "unquoted commas later": Bad(
        "csv",
        CSV + b"a, b, c,pos\n",
        "train.csv, line 4: 4 cells",
        "into double quotes",
        correct=replaced(b"a, b, c", b'"a, b, c"'),
    ),
    "unquoted comma in the last cell": Bad(
        "csv",
        b"label,text\npos,good\nneg,bad, and long\n",
        "train.csv, line 3: 3 cells",
        "into double quotes",
        correct=replaced(b"bad, and long", b'"bad, and long"'),
    ),
    "unquoted tab": Bad(
        "tsv",
        b"text\tlabel\na\tb\tpos\n",
        "train.tsv, line 2",
        "remove delimiters",
        correct=replaced(b"a\tb", b"a b"),
    ),
    "extra columns": Bad(
        "csv",
        b"text,label\na,pos,0.9\nb,neg,0.8\n",
        "line 2: 3 cells",
        "name every column in line 1",
        correct=replaced(b"text,label\n", b"text,label,score\n"),
    ),
    "extra empty columns": Bad(
        "csv",
        b"text,label\na,pos,,\n",
        "train.csv, line 2: 4 cells",
        "name every column in line 1",
        correct=replaced(b"text,label", b"text,label,more,most"),
    ),
    "extra column in one row": Bad(
        "tsv",
        b"text\tlabel\na\tpos\nb\tneg\t0.8\n",
        "train.tsv, line 3: 3 cells",
        "remove delimiters",
        correct=replaced(b"\t0.8", b""),
    ),
    "column twice": Bad(
        "csv",
        b"text,text,label\na,b,pos\n",
        "two columns are called 'text'",
        "rename",
        correct=replaced(b"text,text", b"title,text"),
    ),
    "missing cell": Bad(
        "csv", CSV + b"good\n", "line 4: 1 cell for", "(text, label)", correct=replaced(b"\ngood\n", b"\ngood,pos\n")
    ),
    "semicolons": Bad(
        "csv",
        b"text;label\na;pos\nb;neg\n",
        "column 'text'; it has text;label",
        "separate the cells by commas",
        correct=replaced(b";", b","),
    ),
    "other column": Bad(
        "csv",
        b"text,stars\na,1\nb,2\n",
        "no column 'label'; it has text, stars",
        "set label_column",
        correct=lambda content, arguments: (content, arguments | {"label_column": "stars"}),
    ),
    "open quote": Bad(
        "csv",
        b'text,label\n"a good film,pos\n',
        "train.csv, line 2",
        "quoting: false",
        correct=lambda content, arguments: (content, arguments | {"quoting": False}),
    ),
    "header only": Bad("csv", b"text,label\n", "train.csv has no rows", "add rows", correct=rewritten(CSV)),
    "cut jsonl": Bad(
        "jsonl",
        lines(row()) + b'{"text": "b", "la',
        "train.jsonl, line 2",
        "one JSON object per line",
        correct=replaced(b'"b", "la', b'"b", "label": "pos"}'),
    ),
    "single quotes in jsonl": Bad(
        "jsonl",
        b"{'text': 'a', 'label': 'pos'}\n",
        "train.jsonl, line 1",
        "JSON object per line",
        correct=replaced(b"'", b'"'),
    ),
    "commas between lines of jsonl": Bad(
        "jsonl",
        b'{"text": "a", "label": "x"},\n{"text": "b", "label": "y"}\n',
        "train.jsonl, line 1",
        "one JSON object",
        correct=replaced(b"},", b"}"),
    ),
    "list in jsonl": Bad(
        "jsonl",
        b'{"text": "a", "label": "x"}\n["b", "y"]\n',
        "train.jsonl, row 1",
        "as an object",
        correct=replaced(b'["b", "y"]', b'{"text": "b", "label": "y"}'),
    ),
    "deep brackets in jsonl": Bad(
        "jsonl",
        b"[" * 30_000,
        "train.jsonl, line 1: brackets are nested",
        "write the file again",
        correct=rewritten(lines(row())),
    ),
    "huge number in jsonl": Bad(
        "jsonl",
        b'{"text": "a", "label": ' + b"9" * 5000 + b"}",
        "line 1: Exceeds the limit",
        "JSON object",
        correct=replaced(b"9" * 5000, b"9"),
    ),
    "cut json": Bad(
        "json",
        b'[{"text": "a", "label": "pos"},',
        "train.json, line 1",
        "write the file again",
        correct=replaced(b"},", b"}]"),
    ),
    "rows under a field": Bad(
        "json",
        json.dumps({"version": 1, "data": [row()]}).encode(),
        "it has version, data",
        "set `field: data`",
        correct=lambda content, arguments: (content, arguments | {"field": "data"}),
    ),
    "wrong field": Bad(
        "json",
        json.dumps({"version": 1, "data": [row()]}).encode(),
        "train.json has no key 'rows'",
        "version, data",
        {"field": "rows"},
        lambda content, arguments: (content, {"field": "data"}),
    ),
    "field of a csv": Bad(
        "csv", CSV, "field is 'data'", "remove `field`", {"field": "data"}, lambda content, _: (content, {})
    ),
    "parquet of text": Bad(
        "parquet", b"hello", "train.parquet cannot be read", "write the file again", correct=rewritten(TABLE)
    ),
    "cut parquet": Bad(
        "parquet", TABLE[:200], "train.parquet cannot be read", "write the file again", correct=rewritten(TABLE)
    ),
    "corrupt parquet body": Bad(
        "parquet",
        TABLE[:20] + b"\xff" * 40 + TABLE[60:],
        "train.parquet",
        "write the file",
        correct=rewritten(TABLE),
    ),
    "corrupt parquet footer": Bad(
        "parquet",
        TABLE[:-60] + b"\xff" * 30 + TABLE[-30:],
        "train.parquet",
        "again",
        correct=rewritten(TABLE),
    ),
    "parquet without rows": Bad(
        "parquet",
        parquet(text=pa.array([], "string"), label=pa.array([], "string")),
        "train.parquet",
        "add rows",
        correct=rewritten(TABLE),
    ),
    "arrow of parquet": Bad(
        "arrow", TABLE, "train.arrow cannot be read", "write the files again", correct=rewritten(arrow_stream())
    ),
    "one row": Bad(
        "csv",
        f"{HEAD}a,pos\n".encode(),
        "split 'train' has 1 row,",
        "set `validation_fraction: 0`",
        {"data_files": ["train"]},
        lambda content, arguments: (content + b"b,pos\n", arguments),
    ),
}


@pytest.mark.filterwarnings("ignore:.*are also in split", "ignore:no training row")
@pytest.mark.parametrize("bad", INPUTS.values(), ids=INPUTS.keys())
def test_mistake_in_a_file_ends_in_a_line(tmp_path, bad, capsys):
    check_mistake(tmp_path, bad, capsys)
