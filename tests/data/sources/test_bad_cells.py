"""Cells with mistakes end in one line with the row and the remedy; a file corrected in that way loads."""

import pytest

from tests.data.sources.bad_inputs import Bad, check_mistake, lines, parquet, replaced, rewritten, row

HEAD = "text,label\n"
WHY = {"rationale_column": "why"}
MASK = WHY | {"rationale_format": "word_mask"}

INPUTS = {
    "mixed types, object": Bad(
        "jsonl",
        lines(row(), row(text={"x": 1})),
        "train row 1: text is {'x': 1}",
        "write a string",
        correct=replaced(b'{"x": 1}', b'"x"'),
    ),
    "mixed types, list": Bad(
        "jsonl",
        lines(row(), row(text=["a", 1])),
        "train row 1: text",
        "write a string",
        correct=replaced(b'["a", 1]', b'"a 1"'),
    ),
    "mixed types, label": Bad(
        "jsonl",
        lines(row(), row(label={"x": 1})),
        "train row 1: label {'x': 1}",
        "correct it",
        correct=replaced(b'{"x": 1}', b'"x"'),
    ),
    "mixed types, bytes": Bad(
        "parquet",
        parquet(text=[b"a"], label=["x"]),
        "train row 0: text is b'a'",
        "write a string",
        correct=rewritten(parquet(text=["a"], label=["x"])),
    ),
    "half a character": Bad(
        "jsonl",
        b'{"text": "a \\ud83d", "label": "x"}',
        "row 0: '\\ud83d' is half of",
        "remove it",
        correct=replaced(b"\\ud83d", b""),
    ),
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
        "write pos;neg and set `multilabel: true`",
        correct=replaced(b"\"['pos', 'neg']\"", b"pos;neg", multilabel=True),
    ),
    "nested list of labels": Bad(
        "jsonl",
        lines(row(label=[["pos"]])),
        "train row 0: label ['pos']",
        "correct",
        {"multilabel": True},
        replaced(b'[["pos"]]', b'["pos"]'),
    ),
    "word as rationale": Bad(
        "csv",
        b"text,label,why\na good film,pos,good\n",
        "train row 0",
        "[[begin, end], ...]",
        WHY,
        replaced(b"pos,good", b'pos,"[[2, 6]]"'),
    ),
    "cut JSON as rationale": Bad(
        "csv",
        b'text,label,why\na good film,pos,"[[2, 6]"\n',
        "train row 0: rationale '[[2, 6]'",
        "[[begin, end], ...]",
        WHY,
        replaced(b"6]", b"6]]"),
    ),
    "python as rationale": Bad(
        "csv",
        b"text,label,why\na good film,pos,\"{'label': 'pos'}\"\n",
        "train row 0",
        "[[begin, end], ...]",
        WHY,
        replaced(b"{'label': 'pos'}", b"[[2, 6]]"),
    ),
    "number as rationale": Bad(
        "csv",
        b"text,label,why\na good film,pos,12\n",
        "train row 0: rationale 12",
        "[[begin, end]",
        WHY,
        replaced(b"pos,12", b'pos,"[[2, 6]]"'),
    ),
    "flat list as rationale": Bad(
        "jsonl",
        lines(row(why=[2, 6])),
        "train row 0: rationale [2, 6]",
        "[[begin, end], ...]",
        WHY,
        lambda content, arguments: (content.replace(b"[2, 6]", b"[[2, 6]]"), arguments),
    ),
    "span outside the text": Bad(
        "jsonl",
        lines(row(why=[[2, 99]])),
        "train row '0': rationale span [2, 99]",
        "correct",
        WHY,
        replaced(b"99", b"6"),
    ),
    "span without label": Bad(
        "jsonl",
        lines(row(why=[{"spans": [[2, 6]]}])),
        "train row 0: rationale {'spans'",
        "write label and spans",
        WHY,
        replaced(b'{"spans"', b'{"label": "pos", "spans"'),
    ),
    "span without label, begin and end": Bad(
        "jsonl",
        lines(row(why=[{"begin": 2, "end": 6}])),
        "train row 0",
        "write label and spans",
        WHY,
        replaced(b'{"begin": 2, "end": 6}', b'{"label": "pos", "spans": [[2, 6]]}'),
    ),
    "span of another class": Bad(
        "jsonl",
        lines(row(why=[{"label": "neutral", "spans": [[2, 6]]}])),
        "train row 0: label 'neutral'",
        "class_names",
        WHY,
        replaced(b'"label": "neutral"', b'"label": "pos"'),
    ),
    "label without spans": Bad(
        "jsonl",
        lines(row(why=[{"label": "pos"}])),
        "train row 0",
        "[[begin, end], ...]",
        WHY,
        replaced(b'{"label": "pos"}]', b'{"label": "pos", "spans": [[2, 6]]}]'),
    ),
    "span without label, one of two": Bad(
        "jsonl",
        lines(row(why=[{"label": "pos", "spans": [[2, 6]]}, [2, 6]])),
        "train row 0",
        "write label and spans",
        WHY,
        replaced(b", [2, 6]]", b', {"label": "pos", "spans": [[7, 11]]}]'),
    ),
    "short word mask": Bad(
        "jsonl",
        lines(row(why=[1])),
        "train row 0: rationale has 1 value for 3",
        "for each word",
        MASK,
        replaced(b"[1]", b"[0, 1, 0]"),
    ),
    "words in a word mask": Bad(
        "jsonl", lines(row(why=["good"])), "train row 0", "0 and 1", MASK, replaced(b'["good"]', b"[0, 1, 0]")
    ),
    "long label": Bad(
        "csv",
        f"{HEAD}a,{'x' * 500}\n".encode(),
        "train row 0: label 'xxx",
        "class_names",
        {"class_names": ["y"]},
        replaced(b"x" * 500, b"y"),
    ),
}


@pytest.mark.filterwarnings("ignore:.*are also in split", "ignore:no training row")
@pytest.mark.parametrize("bad", INPUTS.values(), ids=INPUTS.keys())
def test_mistake_in_a_cell_ends_in_a_line(tmp_path, bad, capsys):
    check_mistake(tmp_path, bad, capsys)
