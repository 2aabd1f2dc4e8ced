"""The pass that stores erasures: bits, a pass that goes on, and facts that do not agree."""

import json
from typing import Any

import pytest
import torch
from datasets import DatasetDict

from lightning_xai.chains.erasure_pass import check_complete, read_complete, write_erasures
from lightning_xai.data.sources.planted import Planted
from lightning_xai.runs.stores.store import RaggedStore
from tests.callbacks.conftest import planted_data, trainer

FACTS = {"method": "first"}
SIZES: dict[str, Any] = {
    "num_classes": 3, "num_train": 8, "num_validation": 6, "num_test": 7, "words_per_document": (4, 10)
}  # fmt: skip


class PlantedAndBooks(Planted):
    """Planted data with a further test split."""

    def load(self):
        splits = super().load()
        return DatasetDict({**splits, "books": splits["validation"]})


def keep_all_but_first(batch, split, keep):
    """Erases the first token that may be erased of every example."""
    return {"first": batch.inputs.token_mask.cumsum(dim=1) != 1}


@pytest.fixture
def tested(tmp_path, objective):
    """A trainer whose test has ended."""
    finished = trainer(tmp_path)
    finished.test(objective, datamodule=planted_data(), verbose=False)
    return finished


def rows(folder, split="test") -> list[list[float]]:
    store = RaggedStore(folder / split)
    return [store.get(*key).tolist() for key in store.keys()]


def test_one_stands_for_an_erased_token_and_padding_is_left_out(tested, tmp_path):
    write_erasures(tested, {"first": tmp_path / "first"}, keep_all_but_first, {"first": FACTS})
    for encoded, row in zip(planted_data().split("test").encoded, rows(tmp_path / "first"), strict=True):
        first = int(torch.from_numpy(encoded.token_mask).long().argmax())
        assert row == [float(place == first) for place in range(len(encoded.input_ids))]


def test_every_split_is_stored_before_the_pass_is_complete(tested, tmp_path):
    write_erasures(tested, {"first": tmp_path / "first"}, keep_all_but_first, {"first": FACTS})
    assert [len(rows(tmp_path / "first", split)) for split in ("train", "validation", "test")] == [8, 6, 7]
    assert read_complete(tmp_path / "first") == FACTS
    assert json.loads((tmp_path / "first" / "complete.json").read_text()) == {"format": 2, **FACTS}


@pytest.mark.slow
def test_test_split_that_is_added_later_is_written_alone(tested, tmp_path, objective):
    folders, seen = {"first": tmp_path / "first"}, []

    def remember(batch, split, keep):
        seen.append(split)
        return keep_all_but_first(batch, split, keep)

    write_erasures(tested, folders, keep_all_but_first, {"first": FACTS})
    write_erasures(tested, folders, remember, {"first": FACTS})
    assert seen == []
    rows_before = rows(tmp_path / "first")
    more = trainer(tmp_path)
    data = planted_data(source=PlantedAndBooks(**SIZES))
    more.test(objective, datamodule=data, verbose=False)
    write_erasures(more, folders, remember, {"first": FACTS})
    assert set(seen) == {"books"}
    assert len(rows(tmp_path / "first", "books")) == 6 and rows(tmp_path / "first") == rows_before


def test_tokens_that_the_data_erase_are_handed_on(tested, tmp_path, objective):
    write_erasures(tested, {"first": tmp_path / "first"}, keep_all_but_first, {"first": FACTS})
    handed_on = {}

    def remember(batch, split, keep):
        for row, index in enumerate(batch.index.tolist()):
            handed_on[split, index] = (~keep[row]).nonzero().flatten().tolist()
        return {"again": keep}

    again = trainer(tmp_path)
    again.test(objective, datamodule=planted_data(erasures=str(tmp_path / "first")), verbose=False)
    write_erasures(again, {"again": tmp_path / "again"}, remember, {"again": FACTS})
    assert all(len(erased) == 1 for erased in handed_on.values()) and len(handed_on) == 8 + 6 + 7
    assert rows(tmp_path / "again") == rows(tmp_path / "first")


def test_complete_erasures_are_not_written_again(tested, tmp_path):
    folders = {"first": tmp_path / "first"}
    write_erasures(tested, folders, keep_all_but_first, {"first": FACTS})

    def fail(batch, split, keep):
        raise AssertionError("asked again")

    write_erasures(tested, folders, fail, {"first": FACTS})


def test_other_facts_are_refused(tested, tmp_path):
    write_erasures(tested, {"first": tmp_path / "first"}, keep_all_but_first, {"first": FACTS})
    with pytest.raises(ValueError, match="was written by another run .* remove this folder and repeat the command"):
        check_complete(tmp_path / "first", {"method": "last"})


def test_data_other_than_texts_are_refused(tmp_path):
    with pytest.raises(ValueError, match="a chain needs a TextDataModule to erase tokens, but data has type NoneType"):
        write_erasures(trainer(tmp_path), {"first": tmp_path / "first"}, keep_all_but_first, {"first": FACTS})
