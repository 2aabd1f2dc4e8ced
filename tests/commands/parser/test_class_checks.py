"""A parser calls nothing but classes derived from the declared bases; each attack would write a file."""

import copy
from argparse import ArgumentError
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest
from torch.nn.functional import relu
from torch.optim import Optimizer

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.parser.class_checks import CheckedParser

# the parser library warns of some paths, which are refused here with a line of our own
pytestmark = pytest.mark.filterwarnings(r"ignore:[\s\S]*import path denylist")


class Part:
    """A base whose subclasses a configuration may name."""

    def __init__(self, name: str = "part", anything: Any = None) -> None:
        self.name = name
        self.anything = anything


class Unfinished(AttributionMethod):
    """A user's method without `passes`."""

    def scores(self, model, inputs, targets):
        return inputs.token_mask.unsqueeze(1)


class Whole(Part):
    """A part with parts."""

    def __init__(self, parts: "list[Part] | None" = None, table: "dict[str, Any] | None" = None) -> None:
        super().__init__("whole")
        self.parts = parts
        self.table = table


class Unrelated:
    """A class that writes a file, and is no Part."""

    def __init__(self, path: str) -> None:
        Path(path).touch()


def make_part(path: str) -> Part:
    """A function that returns a Part."""
    Path(path).touch()
    return Part()


class Maker(Part):
    @classmethod
    def make(cls, path: str) -> Part:
        return make_part(path)

    @staticmethod
    def make_static(path: str) -> Part:
        return make_part(path)


@dataclass
class Settings:
    part: Part | None = None
    data: Any = None


class Pair(NamedTuple):
    part: Part | None = None
    data: Any = None


class Named(TypedDict, total=False):
    part: Part
    data: Any


PART = Part()
HERE = __name__


@pytest.fixture
def marker(tmp_path) -> Path:
    return tmp_path / "marker"


def build(hint: Any, value: Any, default: Any = None) -> Any:
    """Returns what a parser builds from a value of the given type."""
    parser = CheckedParser(exit_on_error=False, parser_mode="omegaconf+")
    parser.add_argument("--value", type=hint, default=default)
    return parser.instantiate(parser.parse_object({"value": value})).value


def attacks(marker: Path) -> dict[str, Any]:
    """Returns class paths that would write `marker`, by name."""
    return {
        "builtin": {"class_path": "os.system", "init_args": {"command": f"touch {marker}"}},
        "class": {"class_path": "subprocess.check_call", "init_args": {"popenargs": ["touch", str(marker)]}},
        "unrelated": {"class_path": f"{HERE}.Unrelated", "init_args": {"path": str(marker)}},
        "function": {"class_path": f"{HERE}.make_part", "init_args": {"path": str(marker)}},
        "classmethod": {"class_path": f"{HERE}.Maker.make", "init_args": {"path": str(marker)}},
        "staticmethod": {"class_path": f"{HERE}.Maker.make_static", "init_args": {"path": str(marker)}},
    }


PLACES: dict[str, tuple[Any, Callable[[dict], Any]]] = {  # a declared type, and an attack inside a value
    "class": (Part, lambda spec: spec),
    "optional": (Part | None, lambda spec: spec),
    "text or class": (str | Part | None, lambda spec: spec),
    "list": (list[Part] | Part | None, lambda spec: [spec]),
    "iterable": (Iterable[Part] | bool, lambda spec: [spec]),
    "tuple": (tuple[int, Part], lambda spec: [1, spec]),
    "dict": (dict[str, Part], lambda spec: {"x": spec}),
    "dict like a class path": (dict[str, Part], lambda spec: {"class_path": spec}),
    "dict of lists": (dict[str, list[Part]], lambda spec: {"x": [spec]}),
    "function of a class": (Callable[[int], Part], lambda spec: spec),
    "optimizer": (Callable[[Iterable], Optimizer], lambda spec: spec),
    "callable": (Callable, lambda spec: spec),
    "name of a callable": (Callable | None, lambda spec: spec["class_path"]),
    "argument": (Part, lambda spec: {"class_path": f"{HERE}.Whole", "init_args": {"parts": [spec]}}),
    "dataclass": (Settings, lambda spec: {"part": spec}),
    "optional dataclass": (Settings | None, lambda spec: {"part": spec}),
    "dataclasses": (list[Settings], lambda spec: [{"part": spec}]),
    "named tuple": (Pair, lambda spec: {"part": spec}),
    "typed dict": (Named, lambda spec: {"part": spec}),
    "number": (int, lambda spec: spec),
}


@pytest.mark.parametrize("attack", attacks(Path()))
@pytest.mark.parametrize("place", PLACES)
def test_nothing_but_a_derived_class_is_called(marker, place, attack):
    hint, inside = PLACES[place]
    with pytest.raises((ValueError, ArgumentError)):
        build(hint, inside(attacks(marker)[attack]))
    assert not marker.exists()


DATA: dict[str, tuple[Any, Callable[[dict], Any]]] = {
    "any": (Any, lambda spec: spec),
    "object": (object, lambda spec: spec),
    "deep in any": (Any, lambda spec: [{"x": spec}]),
    "dict": (dict, lambda spec: spec),
    "dict of any": (dict[str, Any], lambda spec: spec),
    "deep in a dict": (dict[str, Any], lambda spec: {"x": {"y": [spec]}}),
    "list of any": (list[Any] | None, lambda spec: [spec]),
    "list": (list, lambda spec: [[spec]]),
    "dicts": (dict[str, dict[str, Any]], lambda spec: {"x": {"y": spec}}),
    "class or dict": (Part | dict[str, Any], lambda spec: {"x": spec}),
}


@pytest.mark.parametrize("attack", attacks(Path()))
@pytest.mark.parametrize("place", DATA)
def test_class_path_under_any_or_dict_stays_data(marker, place, attack):
    hint, inside = DATA[place]
    value = inside(attacks(marker)[attack])
    assert build(hint, copy.deepcopy(value)) == value
    assert not marker.exists()


def test_class_path_in_any_argument_of_a_class_stays_data(marker):
    spec = attacks(marker)["builtin"]
    whole = build(
        Part,
        {
            "class_path": f"{HERE}.Whole",
            "init_args": {
                "table": {"x": spec},
                "parts": [{"class_path": f"{HERE}.Part", "init_args": {"anything": spec}}],
            },
        },
    )
    assert whole.table == {"x": spec} and whole.parts[0].anything == spec


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Part, {"class_path": f"{HERE}.Maker"}),
        (Part | None, f"{HERE}.Maker"),
        (list[Part] | Part, [{"class_path": f"{HERE}.Maker"}]),
        (dict[str, Part], {"x": {"class_path": f"{HERE}.Maker"}}),
        (Settings, {"part": {"class_path": f"{HERE}.Maker"}}),
        (Pair, {"part": {"class_path": f"{HERE}.Maker"}}),
        (Callable[[], Part], {"class_path": f"{HERE}.Maker"}),
    ],
    ids=str,
)  # fmt: skip
def test_derived_class_is_built_wherever_its_base_is_declared(hint, value):
    built = build(hint, value)
    while not isinstance(built, Part):
        built = (
            built()
            if callable(built)
            else getattr(built, "part", None) or list(built.values() if isinstance(built, dict) else built)[0]
        )
    assert type(built).__name__ == "Maker"


@pytest.mark.parametrize("value", [f"{HERE}.PART", f"{HERE}.make_part"])
def test_object_by_name_is_refused_unless_it_is_the_default(value):
    with pytest.raises((ValueError, ArgumentError)):
        build(Part | Callable, value)


def test_default_function_may_be_named_again():
    assert build(Callable, "torch.nn.functional.relu", default=relu) in (relu, "torch.nn.functional.relu")
    with pytest.raises(ValueError, match="value is torch.nn.functional.gelu, but takes no class or function"):
        build(Callable, "torch.nn.functional.gelu", default=relu)


def test_message_names_the_key_the_class_path_and_the_base():
    with pytest.raises(ValueError) as caught:
        build(Part, {"class_path": f"{HERE}.Whole", "init_args": {"parts": [attacks(Path())["function"]]}})
    assert str(caught.value) == (
        f"value.init_args.parts.0 names {HERE}.make_part, which is not a class: name a class derived from Part"
    )


@pytest.mark.parametrize(
    ("class_path", "message"),
    [
        (f"{HERE}.Unfinished", "Unfinished, but Unfinished.passes is missing: define passes"),
        ("lightning_xai.attributions.base.AttributionMethod", "value needs the name of a class: choose one of ALTI,"),
    ],
)
def test_message_about_an_abstract_class_says_what_it_lacks_or_which_classes_there_are(class_path, message):
    import_all()
    with pytest.raises(ArgumentError, match=message):
        build(AttributionMethod, class_path)
