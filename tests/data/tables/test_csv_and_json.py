"""CSV, TSV and JSON files are read as they stand there, and a line that cannot be read is named."""

import pytest

from lightning_xai.data.sources.files import Files
from lightning_xai.data.tables.csv_and_json import read_delimited, read_json_rows

TEXTS = ['"Great', 'a "good" film"', '""', "'tis", "a,b", '"a\\"', " x ", "a\u2028b", "it's 5\" long", "\ufeffa"]


def test_every_line_of_a_tsv_is_a_row(tmp_path):
    lines = [f"{text}\t{i % 2}\n" for i, text in enumerate(TEXTS)]
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    loaded = Files({"train": str(tmp_path / "rows.tsv")}, validation_fraction=0.0).load()["train"]
    assert loaded["text"][:] == TEXTS
    assert loaded["labels"][:] == [i % 2 for i in range(len(TEXTS))]


@pytest.mark.parametrize("kind, delimiter", [("tsv", "\t"), ("csv", ",")])
@pytest.mark.parametrize("quoting", [True, False, None])
def test_quotes_enclose_a_cell_only_where_quoting_is_set(tmp_path, kind, delimiter, quoting):
    path = tmp_path / f"rows.{kind}"
    path.write_text(delimiter.join(["text", "label"]) + "\n" + delimiter.join(['"He said ""no"""', "x"]) + "\n")
    loaded = Files({"train": str(path)}, quoting=quoting, validation_fraction=0.0).load()["train"]
    quoted = kind == "csv" if quoting is None else quoting
    assert loaded["text"][:] == ['He said "no"' if quoted else '"He said ""no"""']


def test_quoted_cell_may_hold_delimiters_and_line_breaks(tmp_path):
    (tmp_path / "rows.csv").write_text('\ufefftext,label\r\n"a, b\nc",x\r\n\r\n d ,y\r\n', encoding="utf-8", newline="")
    rows = list(read_delimited(tmp_path / "rows.csv", delimiter=",", quoting=True))
    assert rows == [{"text": "a, b\nc", "label": "x"}, {"text": " d ", "label": "y"}]


def test_cell_may_be_longer_than_the_limit_of_csv(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\n" + "a" * 200_000 + ",x\n")
    assert len(next(read_delimited(tmp_path / "rows.csv", delimiter=",", quoting=True))["text"]) == 200_000


@pytest.mark.parametrize(
    "content, quoting, message",
    [
        ("text,label\na,b,x\n", True, "line 2: 3 cells for 2 columns .text, label.; put a cell"),
        ("text,label\na,x\nb\n", True, "line 3: 1 cell for 2 columns"),
        ("text,label\na,b,x\n", False, "line 2: 3 cells .*and set `quoting: true"),
        ('text,label\n"Great" film,x\n', True, "line 2: .*or set `quoting: false"),
        ('text,label\n"Great film,x\nb,y\n', True, "line 3: .*write each quote in a quoted cell twice"),
        ("text,text\na,b\n", True, "two columns are called 'text'"),
    ],
)
def test_line_that_is_no_row_is_named(tmp_path, content, quoting, message):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        list(read_delimited(tmp_path / "rows.csv", delimiter=",", quoting=quoting))


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_file_that_is_not_utf_8_is_named(tmp_path, kind):
    (tmp_path / f"rows.{kind}").write_bytes("text,label\ncaf\u00e9,x\n".encode("latin-1"))
    with pytest.raises(ValueError, match=f"rows.{kind} is not UTF-8 .byte 14.: save it as UTF-8"):
        Files({"train": str(tmp_path / f"rows.{kind}")}).load()


@pytest.mark.parametrize(
    "content",
    [
        '{"text": "a", "label": 1}\n\n{"text": "b", "label": 2.0}\n',
        '[{"text": "a", "label": 1}, {"text": "b", "label": 2.0}]',
        '{"text": ["a", "b"],\n "label": [1, 2.0]}',
    ],
)
def test_three_forms_of_json_give_the_same_rows(tmp_path, content):
    (tmp_path / "rows.json").write_text(content)
    assert list(read_json_rows(tmp_path / "rows.json")) == [{"text": "a", "label": 1}, {"text": "b", "label": 2.0}]


def test_one_line_of_a_json_file_with_lists_is_one_row(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": ["a", "b"], "evidence": [0, 1]}')
    assert list(read_json_rows(tmp_path / "rows.jsonl")) == [{"text": ["a", "b"], "evidence": [0, 1]}]


@pytest.mark.parametrize(
    "content, message", [('{"text": "a"}\n{"text": \n', "line 2: .*write one JSON"), ("3\n", "row 0: 3 is no")]
)
def test_json_that_is_no_row_is_named(tmp_path, content, message):
    (tmp_path / "rows.jsonl").write_text(content)
    with pytest.raises(ValueError, match=message):
        list(read_json_rows(tmp_path / "rows.jsonl"))
