"""Damaged files of runs and models, and places that cannot be written, end in one line; most remedies are followed."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from lightning_xai.commands.execution import user_errors
from lightning_xai.commands.explain import file_lines
from lightning_xai.commands.outputs import write_output
from lightning_xai.commands.trained.devices import usable_device
from lightning_xai.models.checkpoints.checkpoint import load_trained
from lightning_xai.report.roar import read_chains
from lightning_xai.runs.files.whole_files import write_whole
from lightning_xai.runs.folder import RunFolder
from tests.commands.conftest import BERT, command, refusal, save, tiny_config

pytestmark = pytest.mark.slow

LONGEST_LINE = 300


def line_of(function, *arguments) -> str:
    """Returns the line in which a function ends, as a command would print it."""
    with pytest.raises(SystemExit) as caught, user_errors():
        function(*arguments)
    line = str(caught.value.code)
    assert line.startswith("error: ") and "\n" not in line
    return line


def short(line: str, folder) -> str:
    """Returns a line without the name of the temporary folder, after a check of its length."""
    line = line.replace(f"{folder}/", "")
    assert len(line) <= LONGEST_LINE
    return line


BROKEN_FACTS = {
    "cut": b'{"format": 2, "sta', "empty": b"", "list": b"[]", "null": b"null", "utf-16": b"\xff\xfe{\0",
    "no status": b'{"format": 2}', "text as format": b'{"format": "x", "status": "finished"}',
    "list of settings": b'{"format": 2, "status": "finished", "settings": []}',
}  # fmt: skip


@pytest.mark.parametrize("content", BROKEN_FACTS.values(), ids=BROKEN_FACTS.keys())
def test_damaged_manifest_is_named(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    line = short(line_of(lambda: RunFolder(tmp_path).manifest), tmp_path)
    assert line.startswith("error: manifest.json is damaged (") and "remove it and run the command again" in line


BROKEN_TABLES = {"text": b"hello", "empty": b"", "footer": b"PAR1" + b"\0" * 30 + b"PAR1", "cut": b"PAR1\x15\x04"}


@pytest.mark.parametrize("content", BROKEN_TABLES.values(), ids=BROKEN_TABLES.keys())
def test_damaged_table_of_results_is_named(tmp_path, content):
    (tmp_path / "results.parquet").write_bytes(content)
    for read in (lambda run: run.results, lambda run: run.results_table.checkpoint):
        line = short(line_of(read, RunFolder(tmp_path)), tmp_path)
        assert line.startswith("error: results.parquet is damaged (") and "remove it" in line


BROKEN_SETTINGS = [b"{", b"[]", b'{"checkpoint": "a"}']


@pytest.mark.parametrize("content", BROKEN_SETTINGS)
def test_damaged_settings_of_results_are_named(tmp_path, content):
    (tmp_path / "results.json").write_bytes(content)
    assert "results.json is damaged" in line_of(lambda: RunFolder(tmp_path).results_table.settings)


BROKEN_CURVES = [b"", b"\xff\xfe\0", b'a\n"b']


@pytest.mark.parametrize("content", BROKEN_CURVES)
def test_damaged_curves_of_a_chain_are_named(tmp_path, content):
    folder = tmp_path / "roar" / "seed0"
    folder.mkdir(parents=True)
    (folder / "roar.csv").write_bytes(content)
    assert "roar.csv" in line_of(read_chains, [tmp_path / "roar"], ["accuracy"], "test")


def test_commands_run_again_once_the_damaged_files_are_removed(fitted, tmp_path):
    run = shutil.copytree(fitted.path, tmp_path / "runs" / "tiny" / "seed0")
    argv = ["fit", "--config", fitted.config, "--runs_dir", tmp_path / "runs"]
    (run / "manifest.json").write_bytes(b"{")
    assert "manifest.json is damaged" in refusal(*argv)
    (run / "manifest.json").write_bytes((fitted.path / "manifest.json").read_bytes())
    (run / "results.parquet").write_bytes(b"hello")
    assert "results.parquet is damaged" in refusal(*argv)
    (run / "manifest.json").unlink()
    (run / "results.parquet").unlink()
    config = save(tiny_config(callbacks=[]), tmp_path / "tiny.yaml")  # evaluates less, so that it is fast
    assert "classification" in command("fit", "--config", config, *argv[3:])


def test_remedy_of_a_damaged_table_leads_to_a_comparison(plain_copy):
    compare = ["compare", plain_copy.parent]
    before = command(*compare)
    (plain_copy / "results.parquet").write_bytes(b"hello")
    remedy = refusal(*compare).partition("remove it and test the run again: python run.py ")[2]
    (plain_copy / "results.parquet").unlink()
    command(*shlex.split(remedy))
    assert command(*compare) == before


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small Hugging Face folder in several shards."""
    folder = tmp_path_factory.mktemp("saved")
    config = BertConfig(**{name: value for name, value in BERT.items() if name != "model_type"})
    BertForSequenceClassification(config).save_pretrained(folder, max_shard_size="10KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    return folder


def shard(folder, number: int):
    return sorted(folder.glob("model-*.safetensors"))[number]


def configured(**values):
    def change(folder):
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


DAMAGES = {
    "missing shard": (lambda folder: shard(folder, 1).unlink(), "model-00002-of-", "download the model again"),
    "missing first shard": (lambda folder: shard(folder, 0).unlink(), "model-00001-of-", "download the model again"),
    "missing shards": (lambda folder: [shard(folder, 0).unlink() for _ in range(3)], "No such file", "download"),
    "missing index": (lambda folder: (folder / "model.safetensors.index.json").unlink(), "no file named", "download"),
    "cut shard": (lambda folder: shard(folder, 1).write_bytes(b"\x10"), "header", "download the model again"),
    "cut index": (lambda folder: (folder / "model.safetensors.index.json").write_text("{"), "line 1", "download"),
    "gptq": (configured(quantization_config={"quant_method": "gptq", "bits": 4}), "(gptq)", "give the float32"),
    "bitsandbytes": (
        configured(quantization_config={"quant_method": "bitsandbytes", "load_in_8bit": True}),
        "(bitsandbytes)",
        "give the float32",
    ),
    "unknown quantization": (configured(quantization_config={"quant_method": "new"}), "(new)", "give the float32"),
    "nameless quantization": (configured(quantization_config={"bits": 4}), "quantization_config", "give the float32"),
    "cut config": (lambda folder: (folder / "config.json").write_text("{"), "config.json", "download it again"),
    "text as size": (configured(hidden_size="16"), "hidden_size", "correct it"),
    "names in a list": (configured(id2label=["a", "b"]), "id2label in config.json is ['a', 'b']", "write it as"),
    "names as keys": (configured(id2label={"no": 0, "yes": 1}), "id2label in config.json is {'no': 0", "write it as"),
    "unknown architecture": (configured(model_type="new"), "`new`", "correct config.json"),
}  # fmt: skip


@pytest.mark.parametrize(("damage", "named", "remedy"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damaged_model_is_named(saved, tmp_path, damage, named, remedy):
    folder = shutil.copytree(saved, tmp_path / "model")
    damage(folder)
    line = short(line_of(load_trained, str(folder)), tmp_path)
    assert "model" in line and named in line and remedy in line


def test_model_that_is_whole_again_is_loaded(saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "model")
    shard(folder, 1).unlink()
    line_of(load_trained, str(folder))
    shutil.copytree(saved, folder, dirs_exist_ok=True)
    assert load_trained(str(folder)).class_names == ["LABEL_0", "LABEL_1"]


LONG = "x" * 300
LONG_NAMES = {
    "experiment": ["fit", "--config", "CONFIG", "--experiment", LONG],
    "experiment in two bytes": ["fit", "--config", "CONFIG", "--experiment", "\xe9" * 150],
    "runs_dir": ["fit", "--config", "CONFIG", "--runs_dir", LONG],
    "configuration": ["fit", "--config", LONG],
    "data": ["fit", "--config", "CONFIG", "--data", f"{LONG}.yaml"],
    "checkpoint": ["explain", "--ckpt", LONG, "--text", "w1"],
    "texts": ["explain", "--ckpt", "RUN", "--file", LONG],
    "page": ["explain", "--ckpt", "RUN", "--text", "w1", "--html", f"{LONG}.html"],
    "chain": ["racu", LONG],
    "runs": ["stability", LONG, f"{LONG}y"],
}


@pytest.mark.parametrize("argv", LONG_NAMES.values(), ids=LONG_NAMES.keys())
def test_name_that_is_too_long_is_named(fitted, tmp_path, argv):
    replaced = {"CONFIG": fitted.config, "RUN": str(fitted.path)}
    line = refusal(*(replaced.get(word, word) for word in argv))
    assert len(line) <= LONGEST_LINE and ("shorter name" in line or "at most 200 bytes" in line)


@pytest.mark.parametrize("name", ["tpu9", "cpu:x", "", "mps" if not torch.backends.mps.is_available() else "cuda"])
def test_device_that_is_not_there_is_named(name):
    if name == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has the device")
    assert f"device is {name!r}" in line_of(usable_device, name)


OTHER_TEXTS = ["caf\xe9".encode("latin-1"), "w1".encode("utf-16"), "w1".encode("utf-16-le")]


@pytest.mark.parametrize("content", OTHER_TEXTS)
def test_texts_in_another_encoding_are_named(tmp_path, content):
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    line = line_of(file_lines, str(file))
    assert f"{file} is not UTF-8" in line and "iconv -f" in line
    encoding = line.split("iconv -f ")[1].split(" ")[0]
    file.write_text(content.decode(encoding), encoding="utf-8")
    assert file_lines(str(file)) == [content.decode(encoding)]


def test_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    def write(path):
        return lambda: write_whole(path, lambda target: target.write_text("a"))

    assert "choose another path" in line_of(write(tmp_path / "file" / "manifest.json"))
    assert "choose a shorter name" in line_of(write(tmp_path / LONG))
    assert "choose a folder that can be created" in line_of(write(Path("/proc/none/manifest.json")))
    (tmp_path / "folder").mkdir()
    assert "folder" in line_of(write(tmp_path / "folder"))
    if (full := Path("/dev/full")).exists():
        line = line_of(lambda: write_output(full, lambda stream: stream.write("a")))
        assert line.startswith("error: /dev/full cannot be written") and "free some space" in line
