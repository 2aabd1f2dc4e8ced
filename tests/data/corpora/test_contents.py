"""What decides a corpus and what it holds: nested sources, revisions, libraries, words, shards, hashes and maps."""

import gc
import hashlib
import multiprocessing
import sys
import tracemalloc
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.data.corpora import key as corpus_key
from lightning_xai.data.corpora import writer as corpus_writer
from lightning_xai.data.corpora.corpus import Corpus
from lightning_xai.data.corpora.encoded_source import EncodedSource
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.files import Files
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.functional.model_files.cache_folder import cache_folder
from tests.data.corpora.test_encoded_source import WORDS, planted, written
from tests.runs.processes import WAIT_SECONDS


class Wrapped(TextSource):
    """Another source's rows."""

    class_names = ["class0", "class1"]

    def __init__(self, inner: TextSource) -> None:
        self.inner = inner

    def load(self):
        return self.inner.load()


def folder_of(tmp_path, source: TextSource) -> Path:
    return EncodedSource(source, WORDS, str(tmp_path / "cache")).corpus("test").folder


def test_the_arguments_of_a_source_in_a_source_count(tmp_path):
    first, same, other = (folder_of(tmp_path, Wrapped(Planted(num_test=4, seed=seed))) for seed in (0, 0, 1))
    assert first == same != other


def test_the_files_of_a_source_in_a_source_count(tmp_path):
    def wrapped(text: str, time: int) -> Path:
        file = written(tmp_path, text, time=time)
        return folder_of(tmp_path, Wrapped(Files({"test": str(file)}, class_names=["0", "1"])))

    assert wrapped("w1,0\n", 1_600_000_000) == wrapped("w1,0\n", 1_600_000_001) != wrapped("w2,0\n", 1_600_000_002)


class FromHub(Planted):
    """Rows with a revision."""

    revision = "a"

    def remote_revision(self) -> str:
        return self.revision


@pytest.mark.slow
def test_the_revision_on_the_hub_counts(tmp_path, monkeypatch):
    first = folder_of(tmp_path, FromHub(num_test=4))
    monkeypatch.setattr(FromHub, "revision", "b")
    assert folder_of(tmp_path, FromHub(num_test=4)) != first


@pytest.mark.slow
def test_the_versions_of_the_libraries_count(tmp_path, monkeypatch):
    first = folder_of(tmp_path, Planted(num_test=4))
    monkeypatch.setattr(corpus_key, "version", lambda name: f"{version(name)}.1")
    corpus_key.library_facts.cache_clear()
    try:
        assert folder_of(tmp_path, Planted(num_test=4)) != first
    finally:
        corpus_key.library_facts.cache_clear()


@pytest.mark.slow
def test_the_words_of_a_checkpoint_give_another_corpus(tmp_path):
    def ids(words: list[str] | None) -> tuple[str, list[int]]:
        data = TextDataModule(Planted(num_train=12), VocabularyEncoder(), cache_dir=str(tmp_path))
        if words is not None:
            data.setup("fit")
            learned = data.encoder.state_dict()
            data.load_state_dict({"encoder": {**learned, "words": words}})
        return data.split("train").corpus.folder.name, data.split("train")[0].table.input_ids.tolist()

    own, of_checkpoint = ids(None), ids(["w1", "w2"])
    assert own[0] != of_checkpoint[0] and own[1] != of_checkpoint[1]


def test_a_corpus_of_several_shards_is_read_like_one_of_one_shard(tmp_path, monkeypatch):
    monkeypatch.setattr("lightning_xai.data.sources.row_stream.BLOCK_ROWS", 5)
    one = planted(tmp_path / "one", num_train=23).corpus("train")
    limit = int(one.lengths[:5].sum()) + 40
    monkeypatch.setattr(corpus_writer, "SHARD_TOKENS", limit)
    several = planted(tmp_path / "several", num_train=23).corpus("train")
    assert len(list(one.folder.glob("tokens-*"))) == 1 < len(list(several.folder.glob("tokens-*")))
    begin = 0
    for rows in several.manifest["blocks"]:
        assert several.lengths[begin : begin + sum(rows)].sum() <= limit
        begin += sum(rows)
    rows = [22, 0, 7, 7]
    assert several.take(rows).input_ids.tolist() == one.take(rows).input_ids.tolist()
    assert [several.example(row) for row in range(23)] == [one.example(row) for row in range(23)]
    assert several.is_whole() and several.manifest["examples_hash"] == one.manifest["examples_hash"]


@pytest.mark.slow
def test_blocks_that_were_read_leave_few_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("lightning_xai.data.sources.row_stream.BLOCK_ROWS", 1)
    monkeypatch.setattr("lightning_xai.data.corpora.corpus.MOST_TABLES", 3)
    corpus = planted(tmp_path, num_train=300).corpus("train")
    wanted = [corpus.encoded(row).input_ids.tolist() for row in range(300)]
    again = Corpus(corpus.folder)
    assert again.take([0]).input_ids.tolist() == wanted[0]
    left = np.zeros(300, dtype=int)
    tracemalloc.start()
    for row in range(300):
        assert again.take([row]).input_ids.tolist() == wanted[row]
        left[row] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sum(map(len, again.manifest["blocks"])) == 300 and len(again._tables) <= 3
    assert again.example(299)["id"] == "train-299"
    assert left[200:].max() - left[100:200].max() < 16 * 100  # bytes of a hundred blocks


def test_the_hash_of_the_examples_is_that_of_indices_and_ids(tmp_path):
    split = EncodedSplit(planted(tmp_path).corpus("train"))
    digest = hashlib.sha256(split.index.astype("<i8").tobytes())
    for encoded in split.encoded:
        digest.update(encoded.input_ids.astype("<i4").tobytes() + b"\0")
    assert split.hash() == digest.hexdigest()[:12]


def encode_without_locks(folder, barrier, queue) -> None:
    data = planted(folder, num_train=100)
    barrier.wait()
    corpus = data.corpus("train")
    queue.put((data._loaded is not None, str(corpus.folder), corpus.is_whole()))


@pytest.mark.slow
def test_where_locks_do_nothing_both_processes_encode_and_one_folder_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("lightning_xai.runs.locks.shared_work.take", lambda lock: None)
    monkeypatch.setattr("lightning_xai.runs.locks.shared_work.release", lambda lock: None)
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(2), context.Queue()
    workers = [context.Process(target=encode_without_locks, args=(tmp_path, barrier, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=WAIT_SECONDS) for _ in workers]
    for worker in workers:
        worker.join()
    assert [whole for *_, whole in results] == [True, True] and len({folder for _, folder, _ in results}) == 1
    assert [path.name for path in (tmp_path / "corpora").iterdir()] == [Path(results[0][1]).name]


@pytest.mark.skipif(sys.platform != "linux", reason="lists the maps of a process")
def test_maps_are_closed_once_the_data_are_out_of_use(tmp_path):
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    data = TextDataModule(Planted(num_train=12), WORDS, cache_dir=str(tmp_path))
    data.setup("fit")
    assert len(list(data.train_dataloader())) and maps()
    del data
    gc.collect()
    assert maps() == 0


def test_the_folder_is_that_of_the_data_then_of_the_environment_then_of_the_user(monkeypatch):
    monkeypatch.setenv("LIGHTNING_XAI_CACHE", "from/environment")
    assert [cache_folder(given).as_posix() for given in ("given", None)] == ["given", "from/environment"]
    monkeypatch.delenv("LIGHTNING_XAI_CACHE")
    assert cache_folder(None) == Path.home() / ".cache" / "lightning_xai"


def test_a_selection_keeps_4_bytes_an_example_and_a_whole_split_none(tmp_path):
    corpus = planted(tmp_path).corpus("train")
    part = EncodedSplit(corpus, np.arange(0, 12, 2))
    assert part._rows is not None and part._rows.nbytes == 4 * 6 and EncodedSplit(corpus)._rows is None
