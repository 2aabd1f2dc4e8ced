"""Data sets of the Hugging Face hub, from folders that stand for them."""

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from lightning_xai.data.sources.hub import Hub
from lightning_xai.data.sources.imdb import IMDB
from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.snli import SNLI

ROWS = [{"text": "a good film", "label": "pos"}, {"text": "a bad film", "label": "neg"}]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


def test_saved_data_set_with_class_labels_is_read_by_split_and_column(tmp_path):
    features = Features({"body": Value("string"), "target": ClassLabel(names=["no", "yes"])})
    part = Dataset.from_dict({"body": ["a", "b"], "target": [1, 0]}, features=features)
    DatasetDict({"train": part, "dev": part, "other": part}).save_to_disk(tmp_path / "saved")
    source = Hub(
        str(tmp_path / "saved"), splits={"train": "train", "validation": "dev", "test": "other"}, text_column="body",
        label_column="target",
    )  # fmt: skip
    assert source.class_names == ["no", "yes"]
    assert source.load()["validation"]["labels"][:] == [1, 0]


def test_folder_of_files_is_read_like_a_hub_data_set(tmp_path):
    (tmp_path / "folder").mkdir()
    for split in ("train", "validation", "test"):
        Dataset.from_list(ROWS).to_csv(tmp_path / "folder" / f"{split}.csv")
    assert len(Hub(str(tmp_path / "folder"), class_names=["neg", "pos"]).load()["test"]) == 2


def test_missing_split_is_named_with_those_there_are(tmp_path):
    DatasetDict({"train": Dataset.from_list(ROWS)}).save_to_disk(tmp_path / "saved")
    with pytest.raises(ValueError, match="no split 'dev'; it has train"):
        Hub(str(tmp_path / "saved"), splits={"validation": "dev"}).load()


@pytest.mark.parametrize(
    "source, names", [(IMDB, ["positive", "negative"]), (SNLI, ["neutral", "entailment", "contradiction"])]
)
def test_source_with_fixed_classes_refuses_other_numbers_for_them(tmp_path, source, names):
    features = Features(
        {name: Value("string") for name in ("text", "premise", "hypothesis")} | {"label": ClassLabel(names=names)}
    )
    rows = Dataset.from_dict({name: [0] if name == "label" else ["a"] for name in features}, features=features)
    DatasetDict({"train": rows, "validation": rows, "test": rows}).save_to_disk(tmp_path / "saved")
    with pytest.raises(ValueError, match=f"saved has the classes .*{names[0]}.*: read it with the source Hub"):
        source(str(tmp_path / "saved")).load()


def test_laws(tmp_path):
    part = Dataset.from_dict({"text": ["a", "b"], "label": ["yes", "no"]})
    DatasetDict({"train": part, "validation": part, "test": part}).save_to_disk(tmp_path / "saved")
    check_source(Hub(str(tmp_path / "saved")))
