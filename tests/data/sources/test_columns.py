"""Cells become texts, classes and rationales by the same rules in every kind of file."""

import csv
import json

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from lightning_xai.data.sources.files import Files
from lightning_xai.data.sources.hub import Hub

KINDS = ["csv", "tsv", "jsonl", "parquet"]
MISSING_WORDS = ["null", "None", "NA", "N/A", "nan", "NULL", "NaN", "#N/A"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def written(folder, kind, rows):
    """Writes rows into a file and returns its path."""
    path = folder / f"{len(list(folder.iterdir()))}.{kind}"
    if kind in ("csv", "tsv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            is_list = {name: isinstance(rows[0][name], list) for name in rows[0]}
            writer.writerows({k: json.dumps(v) if is_list[k] else v for k, v in row.items()} for row in rows)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pd.DataFrame(rows).to_parquet(path)
    return str(path)


def source(folder, kind, rows, test=None, **options):
    files = {"train": written(folder, kind, rows), "test": written(folder, kind, test or rows)}
    return Files(files, **({"validation_fraction": 0.0} | options))


def labelled(*labels):
    return [{"text": f"t{i}", "label": label} for i, label in enumerate(labels)]


@pytest.mark.parametrize("kind", KINDS)
def test_words_that_stand_for_missing_values_elsewhere_stay_words(tmp_path, kind):
    rows = [{"text": word, "second": word, "label": word} for word in MISSING_WORDS]
    data = source(tmp_path, kind, rows, text_pair_column="second")
    assert data.class_names == sorted(MISSING_WORDS)
    loaded = data.load()["train"]
    assert loaded["text"][:] == loaded["text_pair"][:] == MISSING_WORDS
    assert [data.class_names[label] for label in loaded["labels"]] == MISSING_WORDS


@pytest.mark.parametrize("kind, labels", [(k, ["NA;null", "nan", ""]) for k in ("csv", "tsv")])
def test_words_stay_labels_in_a_separated_list(tmp_path, kind, labels):
    data = source(tmp_path, kind, labelled(*labels), multilabel=True)
    assert data.class_names == ["NA", "nan", "null"]
    assert data.load()["train"]["labels"][:] == [[0, 2], [1], []]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_words_stay_labels_in_a_list(tmp_path, kind):
    data = source(tmp_path, kind, labelled(["NA", "null"], ["nan"], []), multilabel=True)
    assert (data.class_names, data.load()["train"]["labels"][:]) == (["NA", "nan", "null"], [[0, 2], [1], []])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column, message", [("text", "text is missing"), ("second", "text_pair is missing")])
@pytest.mark.parametrize("empty", [None, ""])
def test_empty_text_is_refused_by_row(tmp_path, kind, column, message, empty):
    row = {"text": "a", "second": "b", "label": "x"}
    rows = [row, {**row, column: empty}, row]
    with pytest.raises(ValueError, match=f"train row 1: {message}; fill it in"):
        source(tmp_path, kind, rows, text_pair_column="second").load()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [["01", "02", "03"], None])
def test_leading_zeros_of_labels_and_ids_are_kept(tmp_path, kind, names):
    rows = [{"text": "t", "label": label, "id": f"00{label}"} for label in ("01", "03", "02")]
    data = source(tmp_path, kind, rows, class_names=names, id_column="id")
    assert data.class_names == ["01", "02", "03"]
    assert data.load()["train"]["labels"][:] == [0, 2, 1]
    assert data.load()["train"]["id"][:] == ["0001", "0003", "0002"]


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_in_order_of_their_size_name_the_classes(tmp_path, kind):
    data = source(tmp_path, kind, labelled(10, 9, -1, 100))
    assert data.class_names == ["-1", "9", "10", "100"]
    assert data.load()["train"]["labels"][:] == [2, 1, 0, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [None, ["0", "1"], ["0.0", "1.0"], ["no", "yes"]])
def test_whole_floats_are_integers(tmp_path, kind, names):
    data = source(tmp_path, kind, labelled(1.0, 0.0, 1.0), test=labelled(1, 0, 0), class_names=names)
    assert data.class_names == (names or ["0", "1"])
    assert data.load()["train"]["labels"][:] == [1, 0, 1]
    assert data.load()["test"]["labels"][:] == [1, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [None, ["250.0", "401.1"]])
def test_codes_stay_codes(tmp_path, kind, names):
    data = source(tmp_path, kind, labelled("401.1", "250.0"), class_names=names)
    assert (data.class_names, data.load()["train"]["labels"][:]) == (["250.0", "401.1"], [1, 0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "label, names",
    [("1", ["01", "02"]), (0, ["1", "2"]), ("38", ["038", "039"]), (0.5, ["no", "yes"]), (2, ["1", "3+", "x"]),
     ("01", ["no", "yes"]), (250, ["250.0", "401.1"])],
)  # fmt: skip
def test_number_is_no_class_number_where_class_names_are_numbers(tmp_path, kind, label, names):
    with pytest.raises(ValueError, match=r"train row 0: label '.*' is not in class_names \["):
        source(tmp_path, kind, labelled(label), class_names=names).load()


@pytest.mark.parametrize("kind", KINDS)
def test_booleans_count_two_named_classes(tmp_path, kind):
    assert source(tmp_path, kind, labelled(True, False), class_names=["no", "yes"]).load()["train"]["labels"][:] == [
        1,
        0,
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [-1, -1.0, "-1"])
@pytest.mark.parametrize("names", [None, ["0", "1"], ["no", "yes"]])
def test_hidden_labels_of_another_split_are_refused(tmp_path, kind, hidden, names):
    with pytest.raises(ValueError, match="test row 0: label '-1.*-1 often marks hidden labels: drop this split or row"):
        source(tmp_path, kind, labelled(0, 1), test=labelled(hidden, hidden), class_names=names).load()


def test_class_that_only_another_split_has_is_refused(tmp_path):
    data = source(tmp_path, "csv", labelled("x", "y"), test=labelled("x", "z"))
    assert data.class_names == ["x", "y"]
    with pytest.raises(
        ValueError, match=r"test row 1: label 'z' .* \['x', 'y'\], which are the classes of the training"
    ):
        data.load()


def test_without_a_training_split_all_splits_name_the_classes(tmp_path):
    files = {split: written(tmp_path, "csv", labelled(label)) for split, label in (("validation", "x"), ("test", "y"))}
    assert Files(files).class_names == ["x", "y"]


@pytest.mark.parametrize("names", [["no", "no"], ["a", "b", "a"]])
def test_repeated_class_name_is_refused(names):
    with pytest.raises(ValueError, match="twice: name every class once"):
        Files({"train": "a.csv"}, class_names=names)


def saved(folder, names, labels, type="int64"):
    """Returns a saved data set whose label column has class names."""
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    rows = {"text": ["a"] * len(labels), "label": labels}
    DatasetDict({"train": Dataset.from_dict(rows, features=features)}).save_to_disk(folder / "saved")
    return str(folder / "saved")


@pytest.mark.parametrize(
    "names, given, expected",
    [
        (["1", "2", "3"], None, [0, 1, 2]),  # names that are numbers are no class numbers
        (["neg", "neutral", "pos"], ["Pos", "NEUTRAL", "n-e-g"], [2, 1, 0]),  # the same classes in another order
        (["neg", "neutral", "pos"], ["bad", "fair", "good"], [0, 1, 2]),  # other names for the same numbers
    ],
)
def test_numbers_of_a_column_with_class_names_mean_these_names(tmp_path, names, given, expected):
    data = Hub(saved(tmp_path, names, [0, 1, 2]), class_names=given, validation_fraction=0.0)
    assert data.load()["train"]["labels"][:] == expected


@pytest.mark.parametrize(
    "names, given, label", [(["a", "b"], None, -1), (["a", "b", "unknown"], ["a", "b"], 2), (["a", "b"], ["b", "c"], 0)]
)
def test_number_without_a_named_class_is_refused(tmp_path, names, given, label):
    with pytest.raises(ValueError, match="train row 0: label '.*' is not in class_names"):
        Hub(saved(tmp_path, names, [label]), class_names=given, validation_fraction=0.0).load()


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_folder_of_files_is_read_without_guesses(tmp_path, kind):
    (tmp_path / "folder").mkdir()
    rows = [{"text": "null", "label": "01", "id": "007"}, {"text": '"Great" film', "label": "02", "id": "1.0"}]
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    if kind == "tsv":
        text = "".join("\t".join(cells) + "\n" for cells in lines)
        (tmp_path / "folder" / "train.tsv").write_text(text)
    else:
        pd.DataFrame(rows).to_csv(tmp_path / "folder" / "train.csv", index=False)
    data = Hub(str(tmp_path / "folder"), id_column="id", validation_fraction=0.0)
    assert data.class_names == ["01", "02"]
    assert data.load()["train"].to_list() == [
        {"text": "null", "labels": 0, "id": "007"},
        {"text": '"Great" film', "labels": 1, "id": "1.0"},
    ]


def test_categories_of_pandas_are_words(tmp_path):
    frame = pd.DataFrame({"text": pd.Categorical(["a", "b"]), "label": pd.Categorical(["y", "x"])})
    frame.to_parquet(tmp_path / "train.parquet")
    data = Files({"train": str(tmp_path / "train.parquet")}, validation_fraction=0.0)
    assert (data.class_names, data.load()["train"]["labels"][:]) == (["x", "y"], [1, 0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spans", [[[0.9, 4.7]], [[False, True]], [["0", "1"]], [[0, 1, 2]]])
def test_spans_that_are_no_characters_are_refused_by_row(tmp_path, kind, spans):
    if kind == "tsv" and isinstance(spans[0][0], str):
        pytest.skip("csv would write quotes, which are characters in a tsv file")
    rows = [{"text": "a b c d e", "label": "x", "evidence": [[0, 1]]} for _ in range(2)]
    if kind == "parquet":
        rows = [{**row, "evidence": []} for row in rows]  # a column has one type
    with pytest.raises(ValueError, match=r"test row 1: rationale span \[.*\] is not a pair \[begin, end\] of whole"):
        source(tmp_path, kind, rows, [rows[0], {**rows[1], "evidence": spans}], rationale_column="evidence").load()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", [[0, 2, 1], [0, 0.9, 1], [0, -1, 1], [[0, 1, 1], [0, 0.5, 0]], ["0", "1", "1"]])
def test_masks_of_other_values_than_0_and_1_are_refused_by_row(tmp_path, kind, mask):
    if kind == "tsv" and isinstance(mask[0], str):
        pytest.skip("csv would write quotes, which are characters in a tsv file")
    row = {"text": "a b c", "label": "x"}
    rows = [{**row, "evidence": []}, {**row, "evidence": mask}]
    with pytest.raises(ValueError, match="train row 1: rationale .* is not a list of 0 and 1"):
        source(tmp_path, kind, rows, rationale_column="evidence", rationale_format="word_mask").load()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mask", [[0, 1, 1], [0.0, 1.0, 1.0], [False, True, True]])
def test_masks_of_0_and_1_are_accepted_in_every_type(tmp_path, kind, mask):
    rows = [{"text": "a b c", "label": "x", "evidence": mask}]
    data = source(tmp_path, kind, rows, rationale_column="evidence", rationale_format="word_mask")
    assert data.load()["train"][0]["rationales"] == [{"label": 0, "spans": [[2, 5]]}]


@pytest.mark.parametrize("cell", ["[[0, 1]", "evidence", "3", '{"a": 1}'])
def test_rationale_cell_that_is_no_list_is_refused_by_row(tmp_path, cell):
    rows = [{"text": "a b", "label": "x", "evidence": cell}]
    with pytest.raises(ValueError, match="train row 0: rationale .* not a (JSON )?list"):
        source(tmp_path, "csv", rows, rationale_column="evidence").load()


def test_rows_are_named_as_in_their_file_also_where_validation_is_taken_from_train(tmp_path):
    rows = labelled(*"xy" * 10) + labelled("")
    with pytest.raises(ValueError, match="train row 20: label is missing"):
        source(tmp_path, "csv", rows, validation_fraction=0.2, seed=1).load()
