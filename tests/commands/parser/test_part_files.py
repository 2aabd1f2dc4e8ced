"""Files that replace a part of a run, such as its data, instead of changing the part of earlier files."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightning import LightningDataModule

from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.parser.part_files import with_merged_files
from lightning_xai.commands.parser.parts import PARSER_MODE, SHIPPED, find_shipped_parts
from lightning_xai.commands.parser.run_parser import RunParser, as_data

MODULE = "lightning_xai.data.module.TextDataModule"


def source(kind: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": f"lightning_xai.data.sources.{kind}", "init_args": arguments}


FILES = {
    "run.yaml": {"data": "old.yaml", "model": {"class_path": "Supervised", "init_args": {"network": "network.yaml"}}},
    "old.yaml": {
        "class_path": MODULE,
        "init_args": {
            "source": source("files.Files", data_files={"train": "a.csv"}, rationale_format="word_mask", seed=7),
            "encoder": {"class_path": "TokenizerEncoder", "init_args": {"max_length": 64}},
            "max_examples": {"train": 8},
            "cache_dir": "private",
            "seed": 3,
        },
    },
    "network.yaml": {"class_path": "HFClassifier", "init_args": {"config": {"model_type": "bert"}, "num_classes": 3}},
    "files.yaml": {"class_path": "TextDataModule", "init_args": {"source": source("files.Files", data_files={})}},
    "sst.yaml": {"class_path": MODULE, "init_args": {"source": source("sst.SST", path="x"), "batch_size": 2}},
    "name.yaml": {"class_path": MODULE, "init_args": {"source": "Files", "encoder": "VocabularyEncoder"}},
    "patch.yaml": {"init_args": {"batch_size": 2}},
    "change.yaml": {"data": {"init_args": {"batch_size": 2}}},
    "replace.yaml": {"data": "sst.yaml"},
    "path.yaml": {"class_path": "HFClassifier", "init_args": {"path": "MODEL"}},
}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """The folder with FILES, which is the working directory; the "=" in its name must not confuse anything."""
    import_all()  # short class names are found among imported classes
    find_shipped_parts()
    folder = tmp_path / "lr=1"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(yaml.safe_dump(content))
    monkeypatch.chdir(folder)
    return folder


def added(*options: str) -> list[str]:
    """Returns the options that are added to a command with run.yaml and `options`."""
    given = ["fit", "--config", "run.yaml", *options]
    return [argument for argument in with_merged_files(given) if argument not in given]


def reset(key: str, **defaults: Any) -> str:
    return f"--{key}.init_args={json.dumps(defaults)}"


SOURCE = reset("data.init_args.source", rationale_format="char_spans", seed=0)
DATA = reset("data", max_examples=None)
NETWORK = reset("model.init_args.network", config=None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--data", "files.yaml"], [SOURCE, DATA]),
        (["--data=files.yaml"], [SOURCE, DATA]),
        (["--data", "sst.yaml"], [DATA]),
        (["--data", "name.yaml"], [reset("data.init_args.encoder", max_length=512), SOURCE, DATA]),
        (["--config", "replace.yaml"], [DATA]),
        (["--config", "replace.yaml", "--data", "files.yaml"], [DATA, reset("data", batch_size=16)]),
        (["--data", "patch.yaml", "--data", "sst.yaml"], [DATA]),
        (["--config", "change.yaml"], []),
        (["--data.init_args.source.init_args.path", "files.yaml"], []),
        (["--model.init_args.network", "path.yaml"], [NETWORK]),
        (["--model.network=path.yaml"], [NETWORK]),
    ],
    ids=str,
)
def test_what_a_new_file_leaves_out_gets_its_default(options, expected):
    assert added(*options) == expected


@pytest.mark.parametrize(
    "options",
    [
        ["--data.init_args.max_examples.train=3"],
        ["--data.max_examples=null"],
        ["--data.init_args.max_examples+=3"],
        ["--data.init_args", '{"max_examples": 3}'],
        ["--data.init_args.max_examples=3", "--config", "change.yaml", "--data.init_args.batch_size=9"],
    ],
    ids=str,
)
def test_what_an_option_sets_after_the_earlier_file_is_kept(options):
    assert added(*options, "--data", "files.yaml") == [SOURCE]


def test_an_option_before_the_earlier_file_does_not_count():
    given = ["fit", "--data.init_args.max_examples=3", "--config", "run.yaml", "--data", "sst.yaml"]
    assert DATA in with_merged_files(given)


def test_options_that_follow_a_new_file_keep_their_effect():
    found = with_merged_files(["fit", "--config", "run.yaml", "--data", "sst.yaml", "--data.init_args.max_examples=3"])
    assert found.index(DATA) < found.index("--data.init_args.max_examples=3")


def test_a_first_file_and_a_missing_file_change_nothing(files):
    for argv in (["fit", "--config", str(files / "run.yaml")], ["fit", "--data", str(Path("no", "such.yaml"))]):
        assert with_merged_files(argv) == argv


def parsed(key: str, base: type, *argv: str) -> dict[str, Any]:
    """Returns the value of `key` that a parser reads from a command line."""
    parser = RunParser(exit_on_error=False, parser_mode=PARSER_MODE)
    parser.add_argument("--config", action="config")
    parser.add_subclass_arguments(base, key)
    return as_data(parser, parser.parse_args(with_merged_files(["fit", *argv])[1:]))[key]


SHIPPED_DATA = sorted((SHIPPED / "data").glob("*.yaml"))


@pytest.mark.parametrize("number", range(len(SHIPPED_DATA)), ids=[path.stem for path in SHIPPED_DATA])
def test_shipped_data_replace_the_saved_data_of_a_run(files, number):
    # a saved configuration sets every argument
    earlier, later = (str(SHIPPED_DATA[place]) for place in (number - 1, number))
    saved = {"data": parsed("data", LightningDataModule, "--data", earlier)}
    (files / "saved.yaml").write_text(yaml.safe_dump(saved))
    found = parsed("data", LightningDataModule, "--config", "saved.yaml", "--data", later)
    assert found == parsed("data", LightningDataModule, "--data", later)
