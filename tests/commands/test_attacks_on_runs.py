"""Nothing that a run, a checkpoint or a command line names is called unless it is a class of the declared base."""

import json
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import fsspec
import pytest
import torch
import yaml
from lightning import Callback

from lightning_xai.commands.cli import XAICLI
from tests.commands.conftest import NETWORK, changed, command, refusal, save, tiny_config
from tests.commands.parser.test_class_checks import attacks

# the parser library warns of some paths, which are refused here with a line of our own
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(r"ignore:[\s\S]*import path denylist")]

HERE = __name__


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
    "callback's name": (
        lambda *_: changed("trainer.callbacks", lambda_callback("os.system")),
        "setup is os.system, but takes no class",
    ),
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
