"""Phrases planted in clinical notes are in the cache, and nowhere in the run's folder, its logs and event files."""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from tokenizers import ByteLevelBPETokenizer
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.mdace import Mdace
from lightning_xai.data.vocabulary import VocabularyEncoder
from tests.commands.conftest import BERT, ERASER, HEATMAPS, METHODS, PLM_CA, command, refusal, save, tiny_config
from tests.data.clinical.look_alike import edit_rows, write_corpus

pytestmark = pytest.mark.slow

PHRASE = "Zanzibar Porcupin"  # as long as the words that it replaces, so that spans stay right
CACHE = {"class_path": "lightning_xai.callbacks.attribution_cache.AttributionCacheWriter"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    written = write_corpus(
        tmp_path_factory.mktemp("corpus"), num_admissions=12, num_codes=12, words=(5, 8), annotated_fraction=1
    )
    replaced = "Service: MEDICINE"
    assert len(replaced) == len(PHRASE)
    edit_rows(written.mimic_dir / "NOTEEVENTS.csv", lambda row: {**row, "TEXT": row["TEXT"].replace(replaced, PHRASE)})
    return written


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A folder with a tokenizer whose tokens are bytes, so that it has learned nothing from notes."""
    bytes_only = ByteLevelBPETokenizer()
    special = ["<s>", "</s>", "<pad>", "<mask>"]
    bytes_only.train_from_iterator([], vocab_size=260, special_tokens=special, show_progress=False)
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=bytes_only._tokenizer, **names)
    folder = tmp_path_factory.mktemp("tokenizer")
    fast.save_pretrained(folder)
    return folder


def config(corpus, tokenizer, folder, *, allow_text=False, callbacks=(METHODS, ERASER, CACHE)):
    settings = tiny_config(max_epochs=1, callbacks=list(callbacks))
    network = {**PLM_CA, "init_args": {**PLM_CA["init_args"], "config": {**BERT, "vocab_size": 300}}}
    settings["model"]["init_args"]["network"] = network
    settings["data"] = {
        "class_path": "lightning_xai.data.module.TextDataModule",
        "init_args": {
            "source": {
                "class_path": "lightning_xai.data.sources.mdace.Mdace",
                "init_args": {
                    "mimic_dir": str(corpus.mimic_dir), "mdace_dir": str(corpus.mdace_dir), "allow_text": allow_text,
                },
            },
            "encoder": {
                "class_path": "lightning_xai.data.encoding.TokenizerEncoder",
                "init_args": {"path": str(tokenizer), "max_length": 240},
            },
            "cache_dir": str(folder / "cache"),
        },
    }  # fmt: skip
    return save(settings, folder / "notes.yaml")


def contents(file: Path) -> list[bytes]:
    """Returns the contents of a file, of the files that it packs, and of the cells of a compressed table."""
    found = [file.read_bytes()]
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            found += [packed.read(name) for name in packed.namelist()]
    if file.suffix == ".parquet":
        found.append(pd.read_parquet(file).to_csv().encode())
    return found


def secrets(tokenizer) -> list[bytes]:
    """Returns the words of the phrase, and its token ids as arrays hold them."""
    ids = PreTrainedTokenizerFast.from_pretrained(tokenizer)(PHRASE)["input_ids"]
    arrays = [np.array(ids, dtype=kind).tobytes() for kind in ("<i2", "<i4", "<i8", "<f4")]
    return [*(word.encode() for word in PHRASE.split()), *arrays, ", ".join(map(str, ids)).encode()]


def leaks(folder: Path, tokenizer) -> list[str]:
    """Returns the names of the files that hold the phrase."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(s in part for part in contents(path) for s in secrets(tokenizer))]


@pytest.fixture(scope="module")
def run(corpus, tokenizer, tmp_path_factory):
    """A finished fit, with what it printed; a test and predictions follow it."""
    folder = tmp_path_factory.mktemp("private")
    settings, printed, errors = config(corpus, tokenizer, folder), "", io.StringIO()
    original, sys.stderr = sys.stderr, errors
    try:
        printed += command("fit", "--config", settings, "--runs_dir", folder / "runs")
        settings = folder / "runs" / "notes" / "seed0" / "config.yaml"
        for name in ("test", "predict"):
            printed += command(name, "--config", settings, "--runs_dir", folder / "runs", "--ckpt_path", "best")
    finally:
        sys.stderr = original
    return folder, printed + errors.getvalue()


def test_no_file_of_the_run_holds_the_planted_phrase(run, tokenizer):
    folder, printed = run
    names = {path.name.partition(".")[0] for path in (folder / "runs").rglob("*") if path.is_file()}
    assert {"best", "events", "results", "predictions_test", "config"} <= names
    assert leaks(folder / "runs", tokenizer) == []
    assert not any(word in printed for word in PHRASE.split())


def test_the_corpora_hold_it_and_only_their_owner_may_read_them(run, tokenizer):
    folder, _ = run
    assert leaks(folder / "cache", tokenizer)
    for path in (folder / "cache", folder / "cache" / "corpora"):
        assert path.stat().st_mode & 0o077 == 0
    assert not list((folder / "cache").rglob("*notes*"))  # the file of the notes had no name and is gone


@pytest.mark.parametrize("way", ["option", "variable", "link", "runs"])
def test_cache_inside_the_folder_of_the_runs_is_refused_before_the_notes_are_read(
    corpus, tokenizer, tmp_path, monkeypatch, way
):
    settings, runs = config(corpus, tokenizer, tmp_path), tmp_path / "runs"
    cache = str(runs if way == "runs" else runs / "cache")
    if way == "variable":
        monkeypatch.setenv("LIGHTNING_XAI_CACHE", cache)
        cache = "null"
    if way == "link":
        runs.mkdir()
        (tmp_path / "link").symlink_to(runs)
        cache = str(tmp_path / "link" / "cache")
    message = refusal("fit", "--config", settings, "--runs_dir", runs, "--data.init_args.cache_dir", cache)
    assert "is inside" in message and "set cache_dir or $LIGHTNING_XAI_CACHE to a folder elsewhere" in message
    assert not list(runs.rglob("*"))


def test_data_command_refuses_a_cache_inside_the_default_folder_of_the_runs(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = yaml.safe_load(Path(config(corpus, tokenizer, tmp_path)).read_text())
    data = save(settings["data"], tmp_path / "data.yaml")
    message = refusal("data", "--data", data, "--cache_dir", "runs/cache")
    assert "the cache runs/cache is inside runs, the folder of the runs" in message
    assert not Path("runs").exists()


def test_explanations_are_not_written_among_the_runs(run):
    folder, _ = run
    path = folder / "runs" / "notes" / "seed0"
    assert "explain.html would contain texts, but the run's data are private" in refusal(
        "explain", "--ckpt", path, "--text", "a note", "--method", "Random"
    )
    page = folder / "page.html"
    command("explain", "--ckpt", path, "--text", "a note", "--method", "Random", "--html", page)
    assert page.is_file()


def test_heatmaps_are_refused_before_training(corpus, tokenizer, tmp_path):
    settings = config(corpus, tokenizer, tmp_path, callbacks=(METHODS, HEATMAPS))
    message = refusal("fit", "--config", settings, "--runs_dir", tmp_path / "runs")
    assert "Heatmaps writes texts into the run's folder, but the data are private" in message


def test_allowed_text_is_in_the_heatmaps(corpus, tokenizer, tmp_path):
    settings = config(corpus, tokenizer, tmp_path, allow_text=True, callbacks=(METHODS, HEATMAPS))
    command("fit", "--config", settings, "--runs_dir", tmp_path / "runs")
    command(
        "test", "--config", tmp_path / "runs" / "notes" / "seed0" / "config.yaml", "--runs_dir", tmp_path / "runs",
        "--ckpt_path", "best",
    )  # fmt: skip
    assert "test.html" in leaks(tmp_path / "runs", tokenizer)


def test_vocabulary_of_private_notes_is_refused_since_checkpoints_would_hold_it():
    with pytest.raises(
        ValueError, match="VocabularyEncoder learns from the training texts, .* text of Mdace is private"
    ):
        TextDataModule(Mdace("mimic", "mdace"), VocabularyEncoder())
    TextDataModule(Mdace("mimic", "mdace", allow_text=True), VocabularyEncoder())
    TextDataModule(Mdace("mimic", "mdace"), VocabularyEncoder(words=95))
