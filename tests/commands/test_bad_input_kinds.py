"""Each kind of bad input that users had is tested by three inputs at least, and all together by a hundred."""

from collections.abc import Iterable

import pytest

from tests.commands import test_bad_runs as runs
from tests.commands import test_bad_settings as settings
from tests.commands.parser import test_trainer_settings as training
from tests.data.sources.test_bad_cells import INPUTS as CELLS
from tests.data.sources.test_bad_files import INPUTS as FILES
from tests.runs.files import test_whole_files as whole_files


def named(names: Iterable[str], word: str) -> list[str]:
    return [name for name in names if word in name]


def of_trainer(name: str) -> list[str]:
    return [str(wrong) for wrong in training.TRAINER_SETTINGS if name in wrong]


KINDS = {
    "latin-1": named(FILES, "latin-1"),
    "UTF-16": named(FILES, "utf-16"),
    "unquoted comma": named(FILES, "unquoted comma"),
    "extra columns": named(FILES, "extra "),
    "mixed types": named(CELLS, "mixed types"),
    "broken JSON Lines": named(FILES, "jsonl"),
    "corrupt Parquet": named(FILES, "parquet"),
    "lists as labels": named(CELLS, "list of"),
    "other content in the cell of a rationale": named(CELLS, "as rationale"),
    "spans without a label": named(CELLS, "span without label"),
    "corrupt manifest.json": list(runs.BROKEN_FACTS),
    "corrupt results.parquet": list(runs.BROKEN_TABLES),
    "disk that is full or read-only": named(dir(whole_files), "_disk_"),
    "name of 300 characters": list(runs.LONG_NAMES),
    "accelerator": of_trainer("accelerator"),
    "devices": of_trainer("devices"),
    "seed": [str(seed) for seed in training.SEEDS],
    "learning rate": [str(wrong) for wrong in training.OPTIMIZERS if "lr" in wrong],
    "missing shard": named(runs.DAMAGES, "missing"),
    "quantized model": [name for name in runs.DAMAGES if "quantiz" in name or name in ("gptq", "bitsandbytes")],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_three_inputs(kind):
    assert len(set(KINDS[kind])) >= 3


def test_there_are_a_hundred_inputs_that_are_files():
    of_runs = [runs.BROKEN_FACTS, runs.BROKEN_TABLES, runs.BROKEN_SETTINGS, runs.BROKEN_CURVES, runs.DAMAGES]
    assert sum(map(len, [FILES, CELLS, *of_runs, runs.OTHER_TEXTS, settings.CONFIGURATIONS])) >= 100
