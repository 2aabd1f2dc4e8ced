"""Files that replace a part of a run, such as its data, instead of changing the part of earlier files."""

from pathlib import Path

import pytest
import yaml

from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.parser.part_files import with_merged_files

DATA = "lightning_xai.data.module.TextDataModule"


@pytest.fixture
def files(tmp_path):
    """A run's configuration run.yaml with data and network, in the folder of the returned path."""
    import_all()  # short class names are found among imported classes

    def source(kind, **arguments):
        return {"class_path": f"lightning_xai.data.sources.{kind}", "init_args": arguments}

    written = {
        "run.yaml": {
            "data": "old.yaml",
            "model": {"class_path": "Supervised", "init_args": {"network": "network.yaml"}},
        },
        "old.yaml": {
            "class_path": DATA,
            "init_args": {
                "source": source("files.Files", data_files={"train": "a.csv"}, rationale_format="word_mask"),
                "encoder": {"class_path": "TokenizerEncoder", "init_args": {"max_length": 64}},
                "max_examples": {"train": 8},
                "cache_dir": "private",
                "seed": 3,
            },
        },
        "network.yaml": {"class_path": "HFClassifier", "init_args": {"config": {"model_type": "bert"}}},
        "files.yaml": {"class_path": "TextDataModule", "init_args": {"source": source("files.Files", data_files={})}},
        "sst.yaml": {"class_path": DATA, "init_args": {"source": source("sst.SST", path="x"), "batch_size": 2}},
        "change.yaml": {"data": {"init_args": {"batch_size": 2}}},
        "replace.yaml": {"data": "sst.yaml"},
        "path.yaml": {"class_path": "HFClassifier", "init_args": {"path": "MODEL"}},
    }
    for name, content in written.items():
        (tmp_path / name).write_text(yaml.safe_dump(content))
    return tmp_path


OF_SOURCE = "--data.init_args.source.init_args.rationale_format=char_spans"
OF_DATA = "--data.init_args.max_examples=null"


@pytest.mark.parametrize(
    ("options", "added"),
    [
        (["--data", "files.yaml"], [OF_DATA, OF_SOURCE]),
        (["--data=files.yaml"], [OF_DATA, OF_SOURCE]),
        (["--data", "sst.yaml"], [OF_DATA]),
        (["--config", "replace.yaml"], [OF_DATA]),
        (["--config", "replace.yaml", "--data", "files.yaml"], [OF_DATA, "--data.init_args.batch_size=16"]),
        (["--config", "change.yaml"], []),
        (["--data.init_args.source.init_args.path", "files.yaml"], []),
        (["--model.init_args.network", "path.yaml"], ["--model.init_args.network.init_args.config=null"]),
        (["--model.network=path.yaml"], ["--model.init_args.network.init_args.config=null"]),
    ],
    ids=str,
)
def test_what_a_new_file_leaves_out_gets_its_default(files, monkeypatch, options, added):
    monkeypatch.chdir(files)
    given = ["fit", "--config", "run.yaml", *options]
    found = with_merged_files(given)
    assert [argument for argument in found if argument not in given] == added


def test_options_that_follow_a_new_file_keep_their_effect(files, monkeypatch):
    monkeypatch.chdir(files)
    found = with_merged_files(["fit", "--config", "run.yaml", "--data", "sst.yaml", "--data.init_args.max_examples=3"])
    assert found.index(OF_DATA) < found.index("--data.init_args.max_examples=3")


def test_a_first_file_and_a_missing_file_change_nothing(files):
    for argv in (["fit", "--config", str(files / "run.yaml")], ["fit", "--data", str(Path("no", "such.yaml"))]):
        assert with_merged_files(argv) == argv
