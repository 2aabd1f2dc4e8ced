"""Corpora in several processes: maps in loader processes, commands at once, and commands that are killed."""

import multiprocessing
import pickle
import time

import numpy as np
import pytest
import torch

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from tests.data.corpora.test_encoded_source import WORDS, planted


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
    ids, lengths = queue.get(timeout=120)
    worker.join()
    assert ids == split[[1, 0]].table.input_ids.tolist() and lengths == split.lengths.tolist()


def encode_in_process(folder, barrier, queue) -> None:
    torch.set_num_threads(1)
    data = planted(folder, num_train=200)
    barrier.wait()
    before = data._loaded is None
    corpus = data.corpus("train")
    queue.put((data._loaded is not None and before, str(corpus.folder), corpus.manifest["examples_hash"]))


def test_two_processes_at_once_load_and_encode_once(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue = context.Barrier(2), context.Queue()
    workers = [context.Process(target=encode_in_process, args=(tmp_path, barrier, queue)) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [queue.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(loaded for loaded, *_ in results) == [False, True]
    assert len({result[1:] for result in results}) == 1
    assert not list((tmp_path / "corpora").glob("*.lock"))


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
