"""SNLI: three forms of files, rows without a gold label, and highlighted words as rationales."""

import csv
import json
import shutil

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.snli import SNLI, marked_words

HEADER = [
    "pairID", "gold_label", "Sentence1", "Sentence2", "Sentence1_marked_1", "Sentence2_marked_1",
    "Sentence1_marked_2", "Sentence2_marked_2", "Sentence1_marked_3", "Sentence2_marked_3",
]  # fmt: skip


@pytest.fixture
def sentence_files(tmp_path):
    (tmp_path / "s1.dev").write_text("A man eats .\nA dog runs .\nIt rains .\n")
    (tmp_path / "s2.dev").write_text("He sleeps . \nAn animal moves . \nIt pours . \n")
    (tmp_path / "labels.dev").write_text("contradiction\nentailment\n-\n")
    return tmp_path


def highlights(folder, rows, name="esnli_dev.csv"):
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return str(folder)


def test_premise_is_the_main_text_and_hypothesis_the_pair(sentence_files):
    row = SNLI(str(sentence_files)).load()["validation"][0]
    assert (row["text"], row["text_pair"], row["labels"]) == ("A man eats .", "He sleeps .", 2)


def test_hypothesis_can_be_the_main_text(sentence_files):
    row = SNLI(str(sentence_files), main="hypothesis").load()["validation"][1]
    assert (row["text"], row["text_pair"], row["labels"]) == ("An animal moves .", "A dog runs .", 0)


def test_rows_without_gold_label_are_left_out(sentence_files):
    rows = SNLI(str(sentence_files)).load()["validation"]
    assert rows["id"][:] == ["dev-1", "dev-2"]


def test_splits_without_files_are_left_out(sentence_files):
    assert list(SNLI(str(sentence_files)).load()) == ["validation"]


def test_unknown_label_is_named_with_file_and_line(sentence_files):
    (sentence_files / "labels.dev").write_text("contradiction\nentails\n-\n")
    with pytest.raises(ValueError, match="labels.dev, line 2: label 'entails'"):
        SNLI(str(sentence_files)).load()


def test_files_of_different_lengths_are_named(sentence_files):
    (sentence_files / "labels.dev").write_text("contradiction\n")
    with pytest.raises(ValueError, match="labels.dev has 1 lines"):
        SNLI(str(sentence_files)).load()


def test_missing_companion_is_named(sentence_files):
    (sentence_files / "s2.dev").unlink()
    with pytest.raises(ValueError, match="s2.dev is missing"):
        SNLI(str(sentence_files)).load()


def test_json_lines_of_the_archive(tmp_path):
    rows = [
        {"sentence1": "A man eats.", "sentence2": "He sleeps.", "gold_label": "neutral", "pairID": "1.jpg#0r1n"},
        {"sentence1": "It rains.", "sentence2": "It pours.", "gold_label": "-", "pairID": "2.jpg#0r1n"},
    ]
    (tmp_path / "snli_1.0_test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = SNLI(str(tmp_path)).load()["test"]
    assert rows.to_list() == [{"text": "A man eats.", "text_pair": "He sleeps.", "labels": 1, "id": "1.jpg#0r1n"}]


def test_copy_from_the_hub(tmp_path):
    label = ClassLabel(names=["entailment", "neutral", "contradiction"])
    features = Features({"premise": Value("string"), "hypothesis": Value("string"), "label": label})
    columns = {"premise": ["A man eats.", "It rains."], "hypothesis": ["He sleeps.", "It pours."], "label": [2, -1]}
    DatasetDict({"test": Dataset.from_dict(columns, features=features)}).save_to_disk(tmp_path)
    rows = SNLI(str(tmp_path)).load()["test"]
    assert (rows["text"][:], rows["labels"][:]) == (["A man eats."], [2])


def test_words_between_asterisks_are_marked():
    assert marked_words(" A *gun* *juice.*", "A gun juice.", "row") == [False, True, True]


def test_marks_of_another_text_are_refused():
    with pytest.raises(ValueError, match="row 3.*with asterisks around some words"):
        marked_words("A *gun*", "A pistol", "row 3")


def test_words_that_half_of_the_annotators_marked_are_the_rationale(tmp_path):
    text = "a red hat"
    row = [
        "p1",
        "entailment",
        text,
        "a hat",
        "*a* *red* hat",
        "a hat",
        "a *red* *hat*",
        "a hat",
        "a red *hat*",
        "a hat",
    ]
    read = SNLI(highlights(tmp_path, [row])).load()["validation"][0]
    assert read["rationales"] == [{"label": 0, "spans": [[2, 9]]}]


def test_one_annotator_decides_alone(tmp_path):
    row = ["p1", "entailment", "a red hat", "a hat", "a *red* hat", "a *hat*", *["NA"] * 4]
    folder = highlights(tmp_path, [row])
    assert SNLI(folder).load()["validation"][0]["rationales"] == [{"label": 0, "spans": [[2, 5]]}]
    hypothesis = SNLI(folder, main="hypothesis").load()["validation"][0]
    assert hypothesis["rationales"] == [{"label": 0, "spans": [[2, 5]]}]


def test_premise_without_marks_has_no_rationale(tmp_path):
    row = ["p1", "neutral", "a hat", "a red hat", "a hat", "a *red* hat", *[""] * 4]
    assert SNLI(highlights(tmp_path, [row])).load()["validation"][0]["rationales"] == []


def test_training_highlights_are_read_from_both_files(tmp_path):
    for i in (1, 2):
        row = [f"p{i}", "neutral", "a hat", "a red hat", "a hat", "a *red* hat", *[""] * 4]
        highlights(tmp_path, [row], f"esnli_train_{i}.csv")
    assert SNLI(str(tmp_path)).load()["train"]["id"][:] == ["p1", "p2"]


def test_wrong_marks_are_named_with_file_and_line(tmp_path):
    row = ["p1", "neutral", "a hat", "a red hat", "a hat", "a *blue* hat", *[""] * 4]
    with pytest.raises(ValueError, match="esnli_dev.csv, line 2"):
        SNLI(highlights(tmp_path, [row])).load()


def test_folder_without_files_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no files of SNLI"):
        SNLI(str(tmp_path)).load()


@pytest.mark.slow
def test_published_sizes(shared):
    rows = SNLI(str(shared / "data" / "esnli")).load()
    assert {name: len(part) for name, part in rows.items()} == {
        "validation": 9842,
        "test": 9824,
    }  # Madsen et al. (2022), Table 3


def test_published_highlights(shared, tmp_path):
    shutil.copy(shared / "data" / "esnli" / "sample_highlights_90.csv", tmp_path / "esnli_train_1.csv")
    rows = SNLI(str(tmp_path)).load()["train"]
    row = rows[rows["text"][:].index("A worker searches for the correct tool in their briefcase.")]
    begin, end = row["rationales"][0]["spans"][0]
    assert (len(rows), row["text"][begin:end]) == (90, "tool")


def test_laws(sentence_files):
    check_source(SNLI(str(sentence_files)))
