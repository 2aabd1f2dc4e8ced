"""Files: every kind of file, every form of label and rationale, and errors that name the file or row."""

import json

import pytest
from datasets import Dataset

from lightning_xai.data.sources.files import Files
from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.tables.rationale_cells import word_mask_spans

ROWS = [
    {"text": "a good film", "label": "pos", "evidence": [0, 1, 0]},
    {"text": "a bad film", "label": "neg", "evidence": [0, 1, 1]},
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def write(folder, kind, rows=ROWS):
    """Writes train, validation and test files with the rows and returns `data_files`."""
    files = {split: str(folder / f"{split}.{kind}") for split in ("train", "validation", "test")}
    for path in files.values():
        if kind in ("csv", "tsv"):
            text = [{k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows]
            Dataset.from_list(text).to_csv(path, sep="\t" if kind == "tsv" else ",")
        elif kind == "jsonl":
            Dataset.from_list(rows).to_json(path)
        else:
            Dataset.from_list(rows).to_parquet(path)
    return files


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_file_gives_the_same_rows(tmp_path, kind):
    source = Files(write(tmp_path, kind), rationale_column="evidence", rationale_format="word_mask")
    assert source.class_names == ["neg", "pos"]
    assert source.load()["test"].to_list() == [
        {"text": "a good film", "labels": 1, "rationales": [{"label": 1, "spans": [[2, 6]]}], "id": "0"},
        {"text": "a bad film", "labels": 0, "rationales": [{"label": 0, "spans": [[2, 10]]}], "id": "1"},
    ]


def test_named_classes_set_the_order(tmp_path):
    source = Files(write(tmp_path, "csv"), class_names=["pos", "neg"])
    assert source.load()["train"]["labels"][:] == [0, 1]


def test_numbers_from_one_on_become_classes_from_zero_on(tmp_path):
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 5}]
    source = Files(write(tmp_path, "jsonl", rows))
    assert (source.class_names, source.load()["train"]["labels"][:]) == (["1", "5"], [0, 1])


def test_numbers_count_the_named_classes(tmp_path):
    rows = [{"text": "a", "label": 0}, {"text": "b", "label": 1}]
    assert Files(write(tmp_path, "csv", rows), class_names=["no", "yes"]).load()["train"]["labels"][:] == [0, 1]


@pytest.mark.parametrize(
    "kind, labels", [("csv", ["x;y", "y"]), ("csv", ["x; y ;", " y"]), ("jsonl", [["x", "y"], ["y"]])]
)
def test_several_labels_are_a_list_or_a_separated_text(tmp_path, kind, labels):
    rows = [{"text": "a", "label": label} for label in labels]
    source = Files(write(tmp_path, kind, rows), multilabel=True)
    assert source.class_names == ["x", "y"]
    assert source.load()["train"]["labels"][:] == [[0, 1], [1]]


def test_character_spans_may_name_their_labels(tmp_path):
    evidence = [{"label": "y", "spans": [[0, 1]]}]
    rows = [{"text": "a b", "label": ["x", "y"], "evidence": evidence}]
    source = Files(write(tmp_path, "jsonl", rows), multilabel=True, rationale_column="evidence")
    assert source.load()["train"]["rationales"][0] == [{"label": 1, "spans": [[0, 1]]}]


def test_words_are_joined_into_text(tmp_path):
    rows = [{"tokens": ["a", "b"], "label": 0}]
    source = Files(write(tmp_path, "jsonl", rows), text_column="tokens")
    assert source.load()["train"]["text"][:] == ["a b"]


def test_masks_of_several_annotators_are_put_to_the_vote():
    assert word_mask_spans([[1, 0, 0], [1, 1, 0], [0, 1, 0]], "a b c", "x") == [[0, 3]]


def test_mask_that_does_not_fit_its_text_is_refused_by_name():
    with pytest.raises(ValueError, match="row 3: rationale has 2 values for 3 whitespace words"):
        word_mask_spans([1, 0], "a b c", "row 3")


def test_missing_column_is_named_with_those_there_are(tmp_path):
    with pytest.raises(ValueError, match="no column 'body'; it has text, label, evidence"):
        Files(write(tmp_path, "csv"), text_column="body").load()


def test_missing_file_is_named_with_those_there_are(tmp_path):
    files = write(tmp_path, "csv") | {"test": str(tmp_path / "tset.csv")}
    with pytest.raises(ValueError, match="tset.csv is missing; .* has test.csv, train.csv, validation.csv"):
        Files(files).prepare()


def test_of_many_files_those_with_similar_names_are_listed_first(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}.txt").touch()
    with pytest.raises(ValueError, match="trian.csv is missing; .* has train.csv, "):
        Files(write(tmp_path, "csv") | {"train": str(tmp_path / "trian.csv")}).prepare()


def test_only_visible_files_of_the_same_kind_are_listed_if_there_are_any(tmp_path):
    for name in (".hidden.csv", ".gitignore", "run.py", "notes.jsonl", "more.csv.gz"):
        (tmp_path / name).touch()
    (tmp_path / "old.csv").mkdir()
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").touch()
    with pytest.raises(ValueError, match=r"has train\.csv, test\.csv, more\.csv\.gz$"):
        Files({"train": str(tmp_path / "trian.csv")}).prepare()
    with pytest.raises(ValueError, match="has train.csv, test.csv, more.csv.gz, notes.jsonl$"):
        Files({"train": str(tmp_path / "trian.tsv")}).prepare()


def test_files_of_an_unknown_kind_are_refused():
    with pytest.raises(ValueError, match="end in .'.xlsx'."):
        Files({"train": "a.xlsx"})


def test_unknown_label_is_refused_by_row(tmp_path):
    with pytest.raises(ValueError, match="train row 1: label 'neg' is not in class_names"):
        Files(write(tmp_path, "csv"), class_names=["pos"]).load()


def test_missing_label_is_refused_by_row(tmp_path):
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": None}]
    with pytest.raises(ValueError, match="train row 1: label is missing; fill it in"):
        Files(write(tmp_path, "csv", rows)).load()


def test_word_mask_that_is_read_as_spans_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(ValueError, match="row 0: rationale .0, 1, 0. is not a list of .* set `rationale_format"):
        Files(write(tmp_path, "jsonl"), rationale_column="evidence").load()


def test_fraction_that_leaves_no_training_rows_is_refused():
    with pytest.raises(ValueError, match="validation_fraction is 1.0"):
        Files({"train": "a.csv"}, validation_fraction=1.0)


def test_validation_is_taken_from_train_where_there_is_none(tmp_path):
    rows = [{"text": f"t{i}", "label": i % 2} for i in range(20)]
    files = write(tmp_path, "jsonl", rows)
    del files["validation"]
    splits = Files(files, validation_fraction=0.2, seed=1).load()
    assert (len(splits["train"]), len(splits["validation"])) == (16, 4)
    assert set(splits["train"]["text"]).isdisjoint(splits["validation"]["text"])


def test_laws(tmp_path):
    check_source(Files(write(tmp_path, "csv"), rationale_column="evidence", rationale_format="word_mask"))


def test_quoting_is_refused_for_files_without_quoted_cells():
    with pytest.raises(ValueError, match="quoting is False, but .json files have no quoted cells: remove `quoting`"):
        Files({"train": "a.json"}, quoting=False)
