"""Laws of every data source; the classes are found by walking the package."""

import importlib
import inspect
import itertools
import pkgutil
import random
from pathlib import Path
from typing import Any

import pytest

import lightning_xai.data.sources
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.planted import Planted


def source_classes() -> list[type[TextSource]]:
    classes = set()
    for module in pkgutil.iter_modules(lightning_xai.data.sources.__path__, "lightning_xai.data.sources."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and issubclass(value, TextSource) and value.__module__ == module.name:
                classes |= set() if inspect.isabstract(value) else {value}
    return sorted(classes, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", source_classes(), ids=lambda cls: cls.__name__)
def test_every_source_is_checked_on_data_that_its_own_test_makes(cls):
    own = Path(__file__).with_name(f"test_{cls.__module__.rpartition('.')[2]}.py")
    assert "check_source(" in own.read_text(), f"{own.name} calls no check_source({cls.__name__}(...))"


def test_the_walk_finds_the_sources():
    assert {"Files", "Planted", "Vader"} <= {cls.__name__ for cls in source_classes()}


ROWS = [{"text": "a good film", "labels": 1, "id": "0"}, {"text": "a bad film", "labels": 0, "id": "1"}]
NUMBERS = itertools.count()


class Outside(TextSource):
    """A source outside the package that keeps all laws. Its subclasses break one law each."""

    class_names = ["bad", "good"]

    def load(self):
        return rows_to_splits({"train": ROWS, "validation": ROWS, "test": self.rows()})

    def rows(self):
        return ROWS


class RepeatsAnId(Outside):
    def rows(self):
        return [ROWS[0], {**ROWS[1], "id": "0"}]


class HasALongSpan(Outside):
    def rows(self):
        return [{**ROWS[0], "rationales": [{"label": 1, "spans": [[0, 99]]}]}]


class LacksIds(Outside):
    def rows(self):
        return [{"text": "a good film", "labels": 1}]


class PairsSomeRows(Outside):
    def rows(self):
        return [{**ROWS[0], "text_pair": "yes"}, ROWS[1]]


class LoadsOtherRows(Outside):
    def rows(self):
        return [{**ROWS[0], "text": f"film {next(NUMBERS)}"}]


class ListsSpans(Outside):
    def rows(self):
        return [{**ROWS[0], "rationales": [[0, 1]]}]


class ListsALabel(Outside):
    def rows(self):
        return [{**ROWS[0], "labels": [1]}]


class GivesTuples(Outside):
    def rows(self):
        return [("a good film", 1)]


class NamesNoSplits(Outside):
    def load(self):
        rows: Any = ROWS
        return rows_to_splits(rows)


class CountsItsClasses(Outside):
    class_names: Any = 2


class DrawsNumbers(Outside):
    def rows(self):
        random.random()
        return ROWS


class NamesAClassTwice(Outside):
    class_names = ["bad", "bad"]


class ReturnsAList(Outside):
    def load(self):
        return ROWS


class RepeatsFiller(Outside):
    def load_filler(self):
        return {"train": ["so"], "test": ["so"]}


class FindsNamesLater(Outside):
    class_names = ["later"]

    def load(self):
        self.class_names = ["bad", "good"]
        return super().load()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (RepeatsAnId, "split 'test' has the id '0' twice: give every row its own id"),
        (HasALongSpan, "99"),
        (ListsSpans, r"row '0': rationales is \[\[0, 1\]\]; write \[{'label': class number, 'spans'"),
        (ListsALabel, r"row '0': labels is \[1\], not an integer, though the source is single-label"),
        (GivesTuples, r"row \('a good film', 1\) is not a dict: write {'text'"),
        (NamesNoSplits, "not a dict: write {'train': rows, 'test': rows}"),
        (CountsItsClasses, "class_names is 2: give a list of different strings"),
        (LacksIds, "lacks column 'id'"),
        (PairsSomeRows, "some rows of split 'test' have a text_pair"),
        (LoadsOtherRows, "a second load gives other rows in split 'test'"),
        (DrawsNumbers, "loading the data changed Python's random state"),
        (NamesAClassTwice, r"class_names is \['bad', 'bad'\]"),
        (ReturnsAList, "load returned list, not a DatasetDict with at least one split: return rows_to_splits"),
        (RepeatsFiller, "filler text 'so' is in the splits 'train' and 'test'"),
        (FindsNamesLater, r"class_names is \['later'\] before the rows are loaded"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_source_outside_the_package_that_breaks_a_law_is_told_which(source, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_source(source())
    assert "\n" not in str(caught.value)


def test_a_source_outside_the_package_that_keeps_all_laws_passes():
    check_source(Outside())
    check_source(Planted(multilabel=True, num_classes=3, num_train=6, num_validation=4, num_test=4))
