"""Corpora in several processes: maps in loader processes, commands at once, and commands that are killed."""

import multiprocessing
import pickle
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from lightning_xai.commands.data import remove
from lightning_xai.data.corpora import encoded_source
from lightning_xai.data.corpora.cache import CorpusCache
from lightning_xai.data.corpora.source_table import SourceTable
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from tests.data.corpora.test_encoded_source import WORDS, planted
from tests.runs.processes import WAIT_SECONDS


def spawned(split, queue) -> None:
    queue.put([split[[1, 0]].table.input_ids.tolist(), split.lengths.tolist()])


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_splits_travel_as_paths_and_open_their_maps_in_each_process(tmp_path, method):
    data = TextDataModule(Planted(num_train=12), WORDS, cache_dir=str(tmp_path), max_examples={"train": 9})
    split = data.split("train")
    assert len(pickle.dumps(split)) < 2000
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    worker = context.Process(target=spawned, args=(split, queue))
    worker.start()
    ids, lengths = queue.get(timeout=WAIT_SECONDS)
    worker.join()
    assert ids == split[[1, 0]].table.input_ids.tolist() and lengths == split.lengths.tolist()


def encode_in_process(folder, barrier, queue) -> None:
    torch.set_num_threads(1)
    data = planted(folder, num_train=200)
    barrier.wait()
    corpus = data.corpus("train")
    queue.put((str(corpus.folder), corpus.manifest["examples_hash"]))


@pytest.mark.slow
def test_two_processes_at_once_tabulate_and_encode_once(tmp_path, monkeypatch):
    """The process that makes the table of the source need not be the one that encodes: another may be faster then."""
    log, of, write = tmp_path / "log", SourceTable.of, encoded_source.write_corpus

    def logged(name: str, function: Callable) -> Callable:
        def call(*arguments, **options):
            with log.open("a") as lines:
                lines.write(f"{name}\n")
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(SourceTable, "of", logged("table", of))
    monkeypatch.setattr(encoded_source, "write_corpus", logged("corpus", write))
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(2), context.Queue()
    workers = [context.Process(target=encode_in_process, args=(tmp_path, barrier, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=WAIT_SECONDS) for _ in workers]
    for worker in workers:
        worker.join()
    assert log.read_text() == "table\ncorpus\n"
    assert len(set(results)) == 1
    assert not list((tmp_path / "corpora").glob("*.lock"))


def read_on(folder, is_open, is_removed, queue) -> None:
    split = TextDataModule(Planted(num_train=12), WORDS, cache_dir=str(folder)).split("train")
    is_open.set()
    is_removed.wait(WAIT_SECONDS)
    queue.put((split[[11, 0]].table.input_ids.tolist(), split.examples[11]["id"]))


def test_a_corpus_may_be_removed_while_another_process_reads_it(tmp_path):
    split = TextDataModule(Planted(num_train=12), WORDS, cache_dir=str(tmp_path)).split("train")
    wanted = split[[11, 0]].table.input_ids.tolist()
    context = multiprocessing.get_context("fork")
    is_open, is_removed, queue = context.Event(), context.Event(), context.Queue()
    reader = context.Process(target=read_on, args=(tmp_path, is_open, is_removed, queue))
    reader.start()
    assert is_open.wait(WAIT_SECONDS)
    remove(CorpusCache(tmp_path / "corpora"), ["all"])
    is_removed.set()
    assert queue.get(timeout=WAIT_SECONDS) == (wanted, "train-11")
    reader.join()
    assert not list((tmp_path / "corpora").glob("*/manifest.json"))


def encode_again(folder, num_train) -> None:
    planted(folder, num_train=num_train).corpus("train")


@pytest.mark.slow
def test_commands_killed_at_any_moment_leave_nothing_that_a_later_one_reads(tmp_path):
    generator, context = np.random.default_rng(0), multiprocessing.get_context("fork")
    began = time.monotonic()
    wanted = planted(tmp_path / "whole", num_train=600).corpus("train").manifest
    usual = time.monotonic() - began
    for _ in range(10):
        worker = context.Process(target=encode_again, args=(tmp_path / "killed", 600))
        worker.start()
        time.sleep(generator.uniform(0, 1.2 * usual))
        worker.kill()
        worker.join()
    corpus = planted(tmp_path / "killed", num_train=600).corpus("train")
    assert corpus.is_whole() and corpus.manifest["files"] == wanted["files"]
    planted(tmp_path / "killed", num_train=600).corpus("test")  # removes the remains of killed commands
    assert not [path.name for path in (tmp_path / "killed" / "corpora").iterdir() if "." in path.name]
