"""Files with mistakes end in one line that names the place and the remedy; a file corrected in that way loads."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lightning_xai.commands.execution import user_errors
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.files import Files
from lightning_xai.data.vocabulary import VocabularyEncoder

LONGEST_LINE = 300


class Bad(NamedTuple):
    """A file with a mistake.

    Args:
        kind: ending of the file.
        content: its content.
        place, remedy: parts of the line.
        arguments: arguments of Files.
        correct: returns the corrected content and arguments; None where the remedy is to write other data.
    """

    kind: str
    content: bytes
    place: str
    remedy: str
    arguments: dict[str, Any] = {}
    correct: Callable[[bytes, dict[str, Any]], tuple[bytes, dict[str, Any]]] | None = None


def lines(*rows: Any) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def row(**cells: Any) -> dict[str, Any]:
    return {"text": "a good film", "label": "pos"} | cells


def parquet(**columns: Any) -> bytes:
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue().to_pybytes()


def with_encoding(name: str):
    return lambda content, arguments: (content, arguments | {"encoding": name})


def replaced(old: bytes, new: bytes, **more: Any):
    return lambda content, arguments: (content.replace(old, new), arguments | more)


CSV = b"text,label\na good film,pos\na bad film,neg\n"
HEAD = "text,label\n"
WHY = {"rationale_column": "why"}
MASK = WHY | {"rationale_format": "word_mask"}
TABLE = parquet(text=["a", "b"] * 50, label=["pos", "neg"] * 50)

INPUTS = {
    "latin-1 csv": Bad(
        "csv",
        f"{HEAD}caf\xe9,pos\nbad,neg\n".encode("latin-1"),
        "train.csv is not UTF-8 (byte 14)",
        "save it as UTF-8, or set encoding: latin-1",
        correct=with_encoding("latin-1"),
    ),
    "latin-1 tsv": Bad(
        "tsv",
        "text\tlabel\nna\xefve\tpos\n\xfc\tneg\n".encode("latin-1"),
        "train.tsv",
        "set encoding: latin-1",
        correct=with_encoding("latin-1"),
    ),
    "latin-1 jsonl": Bad(
        "jsonl",
        '{"text": "\xfcber", "label": "pos"}\n'.encode("latin-1"),
        "train.jsonl",
        "set encoding: latin-1",
        correct=with_encoding("latin-1"),
    ),
    "cp1252 csv": Bad(
        "csv",
        f"{HEAD}\u201cgood\u201d,pos\n".encode("cp1252"),
        "train.csv",
        "save it as UTF-8",
        correct=lambda content, arguments: (content.decode("cp1252").encode(), arguments),
    ),
    "utf-16 csv": Bad(
        "csv", f"{HEAD}good,pos\n".encode("utf-16"), "train.csv", "utf-16", correct=with_encoding("utf-16")
    ),
    "utf-16 tsv": Bad(
        "tsv",
        "text\tlabel\na\tpos\n".encode("utf-16"),
        "train.tsv",
        "set encoding: utf-16",
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
    "unquoted commas later": Bad("csv", CSV + b"a, b, c,pos\n", "line 4: 4 cells", "double quotes"),
    "unquoted tab": Bad("tsv", b"text\tlabel\na\tb\tpos\n", "train.tsv, line 2", "remove delimiters"),
    "extra columns": Bad(
        "csv",
        b"text,label\na,pos,0.9\nb,neg,0.8\n",
        "line 2: 3 cells",
        "name every column in line 1",
        correct=replaced(b"text,label\n", b"text,label,score\n"),
    ),
    "extra empty columns": Bad("csv", b"text,label\na,pos,,\n", "line 2: 4 cells", "name every column"),
    "column twice": Bad("csv", b"text,text,label\na,b,pos\n", "two columns are called 'text'", "rename"),
    "missing cell": Bad("csv", CSV + b"good\n", "line 4: 1 cells", "(text, label)"),
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
    "open quote": Bad("csv", b'text,label\n"a good film,pos\n', "train.csv, line 2", "quoting: false"),
    "header only": Bad("csv", b"text,label\n", "train.csv has no rows", "fill it"),
    "mixed types, object": Bad(
        "jsonl", lines(row(), row(text={"x": 1})), "train row 1: text is {'x': 1}", "write a string"
    ),
    "mixed types, list": Bad("jsonl", lines(row(), row(text=["a", 1])), "train row 1: text", "write a string"),
    "mixed types, label": Bad("jsonl", lines(row(), row(label={"x": 1})), "train row 1: label {'x': 1}", "correct it"),
    "mixed types, bytes": Bad(
        "parquet", parquet(text=[b"a"], label=["x"]), "train row 0: text is b'a'", "write a string"
    ),
    "cut jsonl": Bad("jsonl", lines(row()) + b'{"text": "b", "la', "train.jsonl, line 2", "one JSON object a line"),
    "single quotes": Bad("jsonl", b"{'text': 'a', 'label': 'pos'}\n", "train.jsonl, line 1", "one JSON object a line"),
    "commas between lines": Bad(
        "jsonl", b'{"text": "a", "label": "x"},\n{}\n', "train.jsonl, line 1", "one JSON object"
    ),
    "list in a line": Bad("jsonl", b'{"text": "a", "label": "x"}\n["b", "y"]\n', "train.jsonl, row 1", "as an object"),
    "deep brackets": Bad("jsonl", b"[" * 30_000, "train.jsonl, line 1: too many brackets", "write the file again"),
    "huge number": Bad(
        "jsonl", b'{"text": "a", "label": ' + b"9" * 5000 + b"}", "line 1: Exceeds the limit", "JSON object"
    ),
    "half a character": Bad("jsonl", b'{"text": "\\ud83d", "label": "x"}', "row 0: '\\ud83d' is half of", "remove it"),
    "cut json": Bad("json", b'[{"text": "a", "label": "pos"},', "train.json, line 1", "write the file again"),
    "rows under a field": Bad(
        "json",
        json.dumps({"version": 1, "data": [row()]}).encode(),
        "it has version, data",
        "set field: data",
        correct=lambda content, arguments: (content, arguments | {"field": "data"}),
    ),
    "wrong field": Bad(
        "json",
        json.dumps({"version": 1, "data": [row()]}).encode(),
        "train.json has no field 'rows'",
        "version, data",
        {"field": "rows"},
        lambda content, arguments: (content, {"field": "data"}),
    ),
    "field of a csv": Bad(
        "csv", CSV, "field is 'data'", "leave it out", {"field": "data"}, lambda content, _: (content, {})
    ),
    "parquet of text": Bad("parquet", b"hello", "train.parquet cannot be read", "write the file again"),
    "cut parquet": Bad("parquet", TABLE[:200], "train.parquet cannot be read", "write the file again"),
    "corrupt parquet body": Bad("parquet", TABLE[:20] + b"\xff" * 40 + TABLE[60:], "train.parquet", "write the file"),
    "corrupt parquet footer": Bad("parquet", TABLE[:-60] + b"\xff" * 30 + TABLE[-30:], "train.parquet", "again"),
    "parquet without rows": Bad(
        "parquet", parquet(text=pa.array([], "string"), label=pa.array([], "string")), "train.parquet", "fill it"
    ),
    "arrow of parquet": Bad("arrow", TABLE, "train.arrow cannot be read", "write the files again"),
    "list of labels": Bad(
        "jsonl",
        lines(row(label=["pos", "neg"])),
        "train row 0: label is the list ['pos', 'neg']",
        "multilabel: true",
        correct=lambda content, arguments: (content, arguments | {"multilabel": True}),
    ),
    "list of one label": Bad(
        "parquet",
        parquet(text=["a"], label=[["x"]]),
        "train row 0: label is the list ['x']",
        "multilabel: true",
        correct=lambda content, arguments: (content, arguments | {"multilabel": True}),
    ),
    "list as text": Bad(
        "csv",
        b"text,label\na,\"['pos', 'neg']\"\n",
        "train row 0: label",
        "write pos;neg and set multilabel: true",
        correct=replaced(b"\"['pos', 'neg']\"", b"pos;neg", multilabel=True),
    ),
    "nested labels": Bad(
        "jsonl", lines(row(label=[["pos"]])), "train row 0: label ['pos']", "correct", {"multilabel": True}
    ),
    "rationale without quotes": Bad(
        "csv", b"text,label,why\na good film,pos,good\n", "train row 0", "[[begin, end], ...]", WHY
    ),
    "cut rationale": Bad(
        "csv",
        b'text,label,why\na good film,pos,"[[2, 6]"\n',
        "train row 0: rationale '[[2, 6]'",
        "[[begin, end], ...]",
        WHY,
        replaced(b"6]", b"6]]"),
    ),
    "python in a rationale": Bad(
        "csv", b"text,label,why\na good film,pos,\"{'label': 'pos'}\"\n", "train row 0", "[[begin, end], ...]", WHY
    ),
    "number as rationale": Bad(
        "csv", b"text,label,why\na good film,pos,12\n", "train row 0: rationale 12", "[[begin, end]", WHY
    ),
    "flat rationale": Bad(
        "jsonl",
        lines(row(why=[2, 6])),
        "train row 0: rationale [2, 6]",
        "[[begin, end], ...]",
        WHY,
        lambda content, arguments: (content.replace(b"[2, 6]", b"[[2, 6]]"), arguments),
    ),
    "span outside the text": Bad(
        "jsonl", lines(row(why=[[2, 99]])), "train row '0': rationale span [2, 99]", "correct", WHY
    ),
    "span without label": Bad(
        "jsonl",
        lines(row(why=[{"spans": [[2, 6]]}])),
        "train row 0: rationale {'spans'",
        "write label and spans",
        WHY,
        replaced(b'{"spans"', b'{"label": "pos", "spans"'),
    ),
    "begin and end": Bad(
        "jsonl", lines(row(why=[{"begin": 2, "end": 6}])), "train row 0", "write label and spans", WHY
    ),
    "span of another class": Bad(
        "jsonl",
        lines(row(why=[{"label": "neutral", "spans": [[2, 6]]}])),
        "train row 0: label 'neutral'",
        "class_names",
        WHY,
    ),
    "spans without a list": Bad("jsonl", lines(row(why=[{"label": "pos"}])), "train row 0", "[[begin, end], ...]", WHY),
    "label and plain spans": Bad(
        "jsonl",
        lines(row(why=[{"label": "pos", "spans": [[2, 6]]}, [2, 6]])),
        "train row 0",
        "write label and spans",
        WHY,
    ),
    "short word mask": Bad(
        "jsonl", lines(row(why=[1])), "train row 0: rationale has 1 values for 3", "for each word", MASK
    ),
    "words in a word mask": Bad("jsonl", lines(row(why=["good"])), "train row 0", "0 and 1", MASK),
    "long label": Bad(
        "csv", f"{HEAD}a,{'x' * 500}\n".encode(), "train row 0: label 'xxx", "class_names", {"class_names": ["y"]}
    ),
    "one row": Bad(
        "csv",
        f"{HEAD}a,pos\n".encode(),
        "split 'train' has 1 rows",
        "set validation_fraction: 0",
        {"data_files": ["train"]},
        lambda content, arguments: (content + b"b,pos\n", arguments),
    ),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def load(folder, bad: Bad, content: bytes, arguments: dict[str, Any]) -> None:
    """Writes the splits and reads them as a command does."""
    splits = arguments.get("data_files", ["train", "validation", "test"])
    files: dict[str, str | list[str]] = {split: str(folder / f"{split}.{bad.kind}") for split in splits}
    for split in splits:
        (folder / f"{split}.{bad.kind}").write_bytes(content)
    data = TextDataModule(
        Files(files, **{k: v for k, v in arguments.items() if k != "data_files"}), VocabularyEncoder()
    )
    data.setup("fit")


@pytest.mark.filterwarnings("ignore:.*are also in split", "ignore:no training row")
@pytest.mark.parametrize("bad", INPUTS.values(), ids=INPUTS.keys())
def test_mistake_in_a_file_ends_in_a_line(tmp_path, bad, capsys):
    with pytest.raises(SystemExit) as caught, user_errors():
        load(tmp_path, bad, bad.content, bad.arguments)
    line = str(caught.value.code).replace(f"{tmp_path}/", "")
    assert line.startswith("error: ") and "\n" not in line and len(line) <= LONGEST_LINE
    assert bad.place in line and bad.remedy in line
    assert "Failed" not in capsys.readouterr().err
    if bad.correct is not None:
        load(tmp_path, bad, *bad.correct(bad.content, bad.arguments))
