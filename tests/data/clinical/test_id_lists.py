"""The three published forms of lists of admissions, and lists of classes."""

import pyarrow as pa
import pytest
from pyarrow import feather

from lightning_xai.data.clinical.id_lists import read_class_names, read_id_lists


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_feather_file_has_all_splits(tmp_path, kind):
    table = pa.table({"_id": pa.array([101, 102, 103, 104]).cast(kind), "split": ["train", "val", "test", "train"]})
    feather.write_feather(table, tmp_path / "splits.feather")
    parts = read_id_lists(str(tmp_path / "splits.feather"))
    assert parts == {"train": [101, 104], "validation": [102], "test": [103]}


def test_feather_file_without_ids_is_refused(tmp_path):
    feather.write_feather(pa.table({"split": ["train"]}), tmp_path / "splits.feather")
    with pytest.raises(ValueError, match="splits.feather has no column _id; its columns are split"):
        read_id_lists(str(tmp_path / "splits.feather"))


def test_decimals_of_a_feather_file_are_refused(tmp_path):
    feather.write_feather(pa.table({"_id": [101.0], "split": ["train"]}), tmp_path / "splits.feather")
    with pytest.raises(ValueError, match="splits.feather, row 0: _id must be a whole number"):
        read_id_lists(str(tmp_path / "splits.feather"))


def test_other_file_is_no_feather_file(tmp_path):
    (tmp_path / "splits.feather").write_text("101\n")
    with pytest.raises(ValueError, match="is not a feather file"):
        read_id_lists(str(tmp_path / "splits.feather"))


def test_classes_of_a_text_file_keep_their_order(tmp_path):
    (tmp_path / "codes.txt").write_text("401.9\n038.9\n")
    assert read_class_names(tmp_path / "codes.txt") == ["401.9", "038.9"]


@pytest.mark.parametrize(
    ("content", "message"),
    [('["401.9", "401.9"]', "has the code 401.9 twice"), ('{"a": 1}', "is not a list of strings"),
     ("[1]", "not a list"), ("[", "is not a JSON file"), ("[]", "is not a list of strings")],
)  # fmt: skip
def test_wrong_classes_are_refused(tmp_path, content, message):
    (tmp_path / "codes.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_class_names(tmp_path / "codes.json")
