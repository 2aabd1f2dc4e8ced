"""ERASER corpora: token numbers become characters, whatever the layout of the documents."""

import json

import pytest

from lightning_xai.data.sources.eraser import Eraser, evidence_spans
from lightning_xai.data.sources.laws import check_source


def evidence(document, first, end):
    return {"docid": document, "start_token": first, "end_token": end}


def annotation(name, label, *groups, **more):
    return {
        "annotation_id": name,
        "classification": label,
        "query": f"about {name}?",
        "evidences": list(groups),
        **more,
    }


def corpus(folder, rows, documents, *, collected=False):
    for file in ("train", "val", "test"):
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if collected:
        lines = [json.dumps({"docid": name, "document": text}) for name, text in documents.items()]
        (folder / "docs.jsonl").write_text("\n".join(lines))
    else:
        (folder / "docs").mkdir()
        for name, text in documents.items():
            (folder / "docs" / name).write_text(text)
    return str(folder)


DOCUMENTS = {"d1": "one two\nthree  four .", "d2": "five six"}
ROWS = [annotation("d1", "POS", [evidence("d1", 1, 3)]), annotation("d2", "NEG")]


def test_evidence_ends_before_its_end_token():
    assert evidence_spans([[evidence("d1", 1, 3)]], {"d1": DOCUMENTS["d1"]}, "x") == [[4, 13]]


def test_evidence_in_a_second_document_is_moved_behind_the_first():
    spans = evidence_spans([[evidence("d2", 0, 1)]], DOCUMENTS, "x")
    assert "\n".join(DOCUMENTS.values())[slice(*spans[0])] == "five"


def test_evidence_of_no_token_is_dropped():
    assert evidence_spans([[evidence("d1", 2, 2)]], DOCUMENTS, "x") == []


def test_evidence_outside_its_document_is_refused_by_name():
    with pytest.raises(ValueError, match="row7: evidence tokens 1-9 are outside document d2, which has 2 tokens"):
        evidence_spans([[evidence("d2", 1, 9)]], DOCUMENTS, "row7")


@pytest.mark.parametrize("collected", [False, True])
def test_rows_carry_text_label_and_evidence(tmp_path, collected):
    source = Eraser(corpus(tmp_path, ROWS, DOCUMENTS, collected=collected))
    rows = source.load()["validation"].to_list()
    assert source.class_names == ["NEG", "POS"]
    assert rows[0]["rationales"] == [{"label": 1, "spans": [[4, 13]]}]
    assert (rows[1]["text"], rows[1]["labels"], rows[1]["rationales"]) == ("five six", 0, [])


def test_listed_documents_are_joined(tmp_path):
    rows = [annotation("x", "A", [evidence("d2", 0, 2)], docids=["d1", "d2"])]
    row = Eraser(corpus(tmp_path, rows, DOCUMENTS)).load()["train"][0]
    assert row["text"] == "one two\nthree  four .\nfive six"
    assert row["rationales"][0]["spans"] == [[22, 30]]


def test_query_becomes_the_pair_on_request(tmp_path):
    folder = corpus(tmp_path, ROWS, DOCUMENTS)
    assert Eraser(folder, query_as_pair=True).load()["train"]["text_pair"][:] == ["about d1?", "about d2?"]
    assert "text_pair" not in Eraser(folder).load()["train"].column_names


def test_class_that_is_not_named_is_refused(tmp_path):
    with pytest.raises(ValueError, match="d2: classification 'NEG' is not in class_names"):
        Eraser(corpus(tmp_path, ROWS, DOCUMENTS), class_names=["POS"]).load()


def test_a_collected_document_may_be_empty(tmp_path):
    rows = [annotation("x", "A", [], docids=["d1", "d3"])]
    row = Eraser(corpus(tmp_path, rows, {**DOCUMENTS, "d3": ""}, collected=True)).load()["train"][0]
    assert row["text"] == "one two\nthree  four .\n"


def test_missing_document_is_named(tmp_path):
    with pytest.raises(ValueError, match="document 'd2' is neither"):
        Eraser(corpus(tmp_path, ROWS, {"d1": DOCUMENTS["d1"]})).load()


@pytest.mark.slow
def test_movies_have_the_published_size_and_evidence_reads_as_annotated(shared):
    folder = shared / "data" / "eraser_movies"
    splits = Eraser(str(folder)).load()
    assert len(splits["validation"]) + len(splits["test"]) == 399  # oracle E16
    annotations = [json.loads(line) for line in (folder / "val.jsonl").read_text(encoding="utf-8").splitlines()]
    for row, annotated in zip(splits["validation"], annotations, strict=True):
        marked = [" ".join(row["text"][begin:end].split()) for begin, end in row["rationales"][0]["spans"]]
        for group in annotated["evidences"]:
            assert all(any(e["text"] in text for text in marked) for e in group)


def test_laws(tmp_path):
    check_source(Eraser(corpus(tmp_path, ROWS, DOCUMENTS)))
