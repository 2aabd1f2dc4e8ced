"""A run that an older version began knows fewer options than this version."""

from dataclasses import dataclass
from typing import Any

import pytest

from lightning_xai.runs.evaluation_settings import changed_evaluation, changed_training
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.run_state import begin_run


@dataclass
class Search:
    steps: int = 3


DEFAULT_SEARCH = Search()


class Base:
    def __init__(self, parent_option: str = "a") -> None:
        pass


class Network(Base):
    """Has one option of an older version, `size`, and newer ones."""

    def __init__(
        self,
        size: int,
        code: bool = False,
        scales: tuple[float, ...] = (0.5, 1.0),
        search: Search = DEFAULT_SEARCH,
        **kwargs: str,
    ) -> None:
        super().__init__(**kwargs)


class Renamed(Network):
    pass


OWNER = "model.init_args.network"


def options(name: str = "Network", **arguments: Any) -> dict[str, Any]:
    """Returns flat settings of a network."""
    class_path = f"{__name__}.{name}" if "." not in name else name
    named = {f"{OWNER}.init_args.{key.replace('__', '.')}": value for key, value in arguments.items()}
    return {f"{OWNER}.class_path": class_path} | named


OLDER = options(size=4)


@pytest.mark.parametrize(
    "new",
    [
        {"code": False},
        {"scales__0": 0.5, "scales__1": 1.0},
        {"search__steps": 3},
        {"parent_option": "a"},
        {"code": False, "parent_option": "a"},
    ],
)
def test_new_option_at_its_default_is_no_difference(new):
    assert without_new_options(options(size=4, **new), OLDER) == OLDER
    assert changed_training(OLDER, options(size=4, **new)) == changed_training(options(size=4, **new), OLDER) == {}


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        (options(size=4, code=True), "init_args.code"),
        (options(size=4, scales__0=0.25, scales__1=1.0), "init_args.scales.0"),
        (options(size=4, search__steps=4), "init_args.search.steps"),
        (options(size=5, code=False), "init_args.size"),
        (options("Renamed", size=4, code=False), "class_path"),
        (options(size=4, unknown=False), "init_args.unknown"),
    ],
)
def test_other_values_and_other_classes_are_differences(now, changed):
    assert f"{OWNER}.{changed}" in changed_training(OLDER, now)


def test_option_of_a_class_that_is_not_installed_is_a_difference():
    before, now = options("not.installed.Network", size=4), options("not.installed.Network", size=4, code=False)
    assert list(changed_training(before, now)) == [f"{OWNER}.init_args.code"]


def test_new_option_of_an_evaluating_callback_asks_for_no_new_evaluation():
    name = "lightning_xai.callbacks.heatmaps.Heatmaps"
    before = {"trainer.callbacks.0.class_path": name, "trainer.callbacks.0.init_args.num_documents": 8}
    assert changed_evaluation(before, before | {"trainer.callbacks.0.init_args.max_image_tokens": 400}) == []
    assert changed_evaluation(before, before | {"trainer.callbacks.0.init_args.max_image_tokens": 300}) != []


def test_examples_of_an_older_run_are_its_own(tmp_path):
    source = {"data.init_args.source.class_path": f"{__name__}.Network", "data.init_args.source.init_args.size": 4}
    run = RunFolder(tmp_path)
    begin_run(run, source)
    assert run.other_data(source | {"data.init_args.source.init_args.code": False}) == ""
    assert run.other_data(source | {"data.init_args.source.init_args.code": True}) != ""
