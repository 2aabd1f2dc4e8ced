"""No configuration calls anything but classes derived from the declared bases; each attack would write a file."""

import copy
import json
from argparse import ArgumentError
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple, TypedDict

import fsspec
import pytest
import torch
import yaml
from lightning import Callback
from torch.nn.functional import relu
from torch.optim import Optimizer

from lightning_xai.commands.class_checks import CheckedParser
from lightning_xai.commands.cli import XAICLI
from tests.commands.conftest import NETWORK, changed, command, refusal, save, tiny_config

# the parser library warns of some paths, which are refused here with a line of our own
pytestmark = pytest.mark.filterwarnings(r"ignore:[\s\S]*import path denylist")


class Part:
    """A base whose subclasses a configuration may name."""

    def __init__(self, name: str = "part", anything: Any = None) -> None:
        self.name = name
        self.anything = anything


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
    with pytest.raises(ValueError, match="value names torch.nn.functional.gelu"):
        build(Callable, "torch.nn.functional.gelu", default=relu)


def test_message_names_the_key_the_class_path_and_the_base():
    with pytest.raises(ValueError) as caught:
        build(Part, {"class_path": f"{HERE}.Whole", "init_args": {"parts": [attacks(Path())["function"]]}})
    assert str(caught.value) == (
        f"value.init_args.parts.0 names {HERE}.make_part, which is not a class: name a class derived from Part"
    )


class XAICLIWithoutRun(XAICLI):
    def fit(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: the test looks at what was built."""


class ReadsNothing(Callback):
    """A callback with plain data among its arguments."""

    def __init__(self, data: dict[str, Any] | None = None) -> None:
        self.data = data


def lambda_callback(value: Any) -> list[Any]:
    return [{"class_path": "lightning.pytorch.callbacks.LambdaCallback", "init_args": {"setup": value}}]


def loading(path: str) -> dict[str, Any]:
    """Returns a class path of Lightning's function that unpickles a checkpoint."""
    objective = "lightning_xai.objectives.supervised.Supervised"
    return {"class_path": f"{objective}.load_from_checkpoint", "init_args": {"checkpoint_path": path}}


def in_memory(value: Any) -> str:
    """Returns the address of a file that another library than this one would read."""
    with fsspec.open("memory://part.yaml", "w") as file:
        json.dump(value, file)
    return "memory://part.yaml"


RANDOM_BERT = {"class_path": "lightning_xai.models.hf_classifier.random_bert"}
POPEN = {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", "marker"]}}
NETWORK_KEY, OPTIMIZER = "model.init_args.network", "model.init_args.optimizer"
# a change of a configuration, from an attack and the test's folder, and a part of the line that refuses it
RUNS: dict[str, tuple[Callable[[dict, Path], Any], str]] = {
    "optimizer": (lambda spec, _: changed(OPTIMIZER, spec), f"{OPTIMIZER} names os.system, which is not a class"),
    "optimizer by name": (lambda spec, _: changed(OPTIMIZER, "os.system"), f"{OPTIMIZER} names os.system"),
    "optimizer in a file": (lambda spec, folder: changed(OPTIMIZER, save(spec, folder / "part.yaml")), "os.system"),
    "class as optimizer": (lambda *_: changed(OPTIMIZER, POPEN), "subprocess.Popen, which is not a class derived from"),
    "loading function": (lambda spec, folder: changed("model", loading(str(folder))), "derived from Objective"),
    "function as network": (lambda *_: changed(NETWORK_KEY, RANDOM_BERT), "name a class derived from Classifier"),
    "callback's function": (
        lambda spec, _: changed("trainer.callbacks", lambda_callback(spec)),
        "setup names os.system",
    ),
    "callback's name": (lambda *_: changed("trainer.callbacks", lambda_callback("os.system")), "setup names os.system"),
    "plugin": (lambda spec, _: changed("trainer.plugins", [spec]), "trainer.plugins names os.system, which is not"),
    "resolver": (
        lambda _, folder: both(
            changed(OPTIMIZER, {"class_path": "registers_resolver.SGD"}),
            changed("experiment", f"${{call:{folder / 'marker'}}}"),
        ),
        "Unsupported interpolation type call",
    ),
    "file elsewhere": (lambda *_: changed(NETWORK_KEY, in_memory(NETWORK)), "memory://part.yaml"),
}


def both(*changes):
    def change(config):
        for one in changes:
            one(config)

    return change


def config_of(name: str, folder: Path) -> tuple[str, str]:
    """Writes the attack `name` and returns its file and a part of the line with which it is refused."""
    change, line = RUNS[name]
    config = tiny_config(callbacks=[], max_epochs=1)
    change(attacks(folder / "marker")["builtin"], folder)(config)
    return save(config, folder / "tiny.yaml"), line


@pytest.mark.parametrize("name", RUNS)
def test_attack_on_a_run_is_refused_in_a_line_before_anything_is_built(name, tmp_path, monkeypatch):
    (tmp_path / "registers_resolver.py").write_text(
        "import pathlib\nfrom omegaconf import OmegaConf\nfrom torch.optim import SGD\n"
        "OmegaConf.register_new_resolver('call', lambda path: pathlib.Path(path).touch())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config, line = config_of(name, tmp_path)
    assert line in refusal("fit", "--config", config, "--runs_dir", tmp_path / "runs")
    assert not (tmp_path / "marker").exists() and not (tmp_path / "runs").exists()


@pytest.mark.parametrize("command_name", ["test", "predict"])
def test_attack_is_refused_by_every_command(command_name, fitted, tmp_path):
    config = yaml.safe_load((fitted.path / "config.yaml").read_text())
    changed(OPTIMIZER, attacks(tmp_path / "marker")["builtin"])(config)
    assert "names os.system" in refusal(command_name, "--config", save(config, tmp_path / "config.yaml"))
    assert not (tmp_path / "marker").exists()


def test_attack_on_the_command_line_is_refused_and_not_printed(tmp_path, capsys):
    config = save(tiny_config(), tmp_path / "tiny.yaml")
    attack = json.dumps(attacks(tmp_path / "marker")["builtin"])
    for argv in (["--model.init_args.optimizer", attack], [f"--model.init_args.optimizer={attack}", "--print_config"]):
        assert "model.init_args.optimizer names os.system" in refusal("fit", "--config", config, *argv)
    assert not capsys.readouterr().out and not (tmp_path / "marker").exists()


def test_tag_of_python_in_yaml_is_refused(tmp_path):
    (tmp_path / "tiny.yaml").write_text(
        f"seed_everything: !!python/object/apply:os.system ['touch {tmp_path}/marker']\n"
    )
    assert (
        "python/object/apply" in refusal("fit", "--config", tmp_path / "tiny.yaml")
        and not (tmp_path / "marker").exists()
    )


@pytest.mark.parametrize("place", ["configuration", "checkpoint"])
def test_encoder_that_explain_reads_is_refused(run_copy, tmp_path, place):
    attack = attacks(tmp_path / "marker")["builtin"]
    config = yaml.safe_load((run_copy / "config.yaml").read_text())
    config["data"]["init_args"]["encoder"] = attack
    save(config, run_copy / "config.yaml")
    file = run_copy / "checkpoints" / "best.ckpt"
    checkpoint = torch.load(file, weights_only=True)
    facts = checkpoint.pop("encoder")
    torch.save(checkpoint | ({"encoder": facts | attack} if place == "checkpoint" else {}), file)
    assert "encoder names os.system" in refusal("explain", "--ckpt", run_copy, "--text", "w1 w2")
    assert not (tmp_path / "marker").exists()


def test_method_of_explain_is_refused(fitted, tmp_path):
    attack = json.dumps(attacks(tmp_path / "marker")["builtin"])
    line = refusal("explain", "--ckpt", fitted.path, "--text", "w1 w2", "--method", attack)
    assert "method names os.system" in line and not (tmp_path / "marker").exists()


def test_network_that_a_checkpoint_names_is_refused(run_copy, tmp_path):
    file = run_copy / "checkpoints" / "best.ckpt"
    checkpoint = torch.load(file, weights_only=True)
    checkpoint["network"] = attacks(tmp_path / "marker")["builtin"]
    torch.save(checkpoint, file)
    assert "os.system" in refusal("explain", "--ckpt", run_copy, "--text", "w1 w2")
    assert not (tmp_path / "marker").exists()


def test_usual_classes_of_lightning_and_of_the_user_are_built(tmp_path):
    config = tiny_config(max_epochs=1, fast_dev_run=True)
    lightning = "lightning.pytorch"
    data = {"class_path": "os.system", "init_args": {"command": "x"}}
    config["trainer"] |= {
        "logger": [{"class_path": f"{lightning}.loggers.CSVLogger", "init_args": {"save_dir": str(tmp_path)}}],
        "plugins": [{"class_path": f"{lightning}.plugins.io.TorchCheckpointIO"}],
        "profiler": {"class_path": f"{lightning}.profilers.SimpleProfiler"},
        "strategy": {"class_path": f"{lightning}.strategies.SingleDeviceStrategy", "init_args": {"device": "cpu"}},
        "callbacks": [
            {"class_path": f"{lightning}.callbacks.{name}", "init_args": arguments}
            for name, arguments in [
                ("EarlyStopping", {"monitor": "val/log_loss"}), ("LearningRateMonitor", {}), ("ModelSummary", {}),
                ("StochasticWeightAveraging", {"swa_lrs": 0.1}),
                ("LambdaCallback", {}),
            ]
        ] + [{"class_path": f"{HERE}.ReadsNothing", "init_args": {"data": {"x": data}}}],
    }  # fmt: skip
    argv = ["fit", "--config", save(config, tmp_path / "tiny.yaml"), "--runs_dir", str(tmp_path)]
    trainer: Any = XAICLIWithoutRun(argv).trainer
    assert type(trainer.profiler).__name__ == "SimpleProfiler"
    assert next(c for c in trainer.callbacks if isinstance(c, ReadsNothing)).data == {"x": data}


class Pickled:
    """An object that touches a file when a checkpoint that holds it is read with all its objects."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("weights_only", [None, False, True])
def test_checkpoint_to_resume_from_runs_no_code(tmp_path, weights_only):
    checkpoints = tmp_path / "runs" / "tiny" / "seed0" / "checkpoints"
    checkpoints.mkdir(parents=True)
    torch.save({"state_dict": {}, "pickled": Pickled(tmp_path / "marker")}, checkpoints / "last.ckpt")
    config = save(tiny_config(callbacks=[]) | {"weights_only": weights_only}, tmp_path / "tiny.yaml")
    with pytest.raises((SystemExit, UnpicklingError)):
        command("fit", "--config", config, "--runs_dir", tmp_path / "runs")
    assert not (tmp_path / "marker").exists()
