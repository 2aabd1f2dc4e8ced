"""Settings with mistakes end in one line that names the key, the value and the remedy; most corrections run."""

from typing import Any

import pytest

from tests.commands.conftest import METHODS, changed, refusal, save, tiny_config

pytestmark = pytest.mark.slow

LONGEST_LINE = 300
IG = "lightning_xai.attributions.integrated_gradients.IntegratedGradients"
ENTROPY = "lightning_xai.metrics.complexity.Entropy"
EVALUATION = "lightning_xai.callbacks.evaluation.AttributionEvaluation"
HELP_OF_COMPUTE = "--trainer.callbacks.help ComputeAttributions"


def compute(**arguments):
    """Returns a change that gives ComputeAttributions some arguments."""
    return changed("trainer.callbacks", [METHODS | {"init_args": METHODS["init_args"] | arguments}])


def evaluate(**metric):
    """Returns a change that adds an evaluation with one metric."""
    evaluation = {"class_path": EVALUATION, "init_args": {"preset": "mine", "metrics": [metric]}}
    return changed("trainer.callbacks", [METHODS, evaluation])


ARGUMENTS = {  # what is wrong -> a change of the configuration or an option, parts of the line
    "objective": (
        changed("model.class_path", "lightning_xai.objectives.supervised.Supervise"),
        ["model is", "not a subclass of Objective", "choose one of Supervised"],
    ),
    "objective by name": ("--model=Supervisd", ["'Supervisd'", "choose one of Supervised"]),
    "network": ("--model.init_args.network=HFClasifier", ["model.init_args.network", "choose one of HFClassifier"]),
    "source": (
        "--data.init_args.source=Fles",
        ["data.init_args.source", "not a subclass of TextSource", "choose one of Files"],
    ),
    "module": (changed("data.init_args.source.class_path", "no.such.Files"), ["No module named 'no'", "Files, "]),
    "optimizer": ("--model.init_args.optimizer=AdamX", ["not a subclass of Optimizer", "AdamW"]),
    "callback": (
        "--trainer.callbacks+=ComputAttributions",
        ["not a subclass of Callback", "choose one of ComputeAttributions"],
    ),
    "method in a mapping": (
        compute(methods={"r": {"class_path": "lightning_xai.attributions.random.Randm"}}),
        ["methods[Randm]", "not a subclass of AttributionMethod", "choose one of Random"],
    ),
    "metric in a list": (evaluate(class_path="Entropi"), ["metrics is 'Entropi'", "choose one of Entropy"]),
    "argument of the objective": (
        changed("model.init_args.learning_rate", 3),
        [
            "model.init_args.learning_rate is not an argument of Supervised",
            "network",
            "run.py fit --model.help Supervised",
        ],
    ),
    "argument of the source": (
        changed("data.init_args.source.init_args.num_trains", 3),
        ["source.init_args.num_trains is not an argument of Planted: choose one of num_train", "run.py --help Planted"],
    ),
    "argument of the optimizer": (
        changed("model.init_args.optimizer.init_args.learning_rate", 3),
        ["learning_rate is not an argument of AdamW", "lr, ", "run.py --help AdamW"],
    ),
    "argument of a method in a mapping": (
        compute(methods={"r": {"class_path": IG, "init_args": {"num_step": 3}}}),
        ["methods[IntegratedGradients].init_args.num_step", "choose one of num_steps", "--help IntegratedGradients"],
    ),
    "argument of a metric in a list": (
        evaluate(class_path=ENTROPY, init_args={"foo": 1}),
        ["callbacks[AttributionEvaluation].init_args.metrics[Entropy].init_args.foo", "run.py --help Entropy"],
    ),
    "argument of a callback": (
        compute(max_example=3),
        ["max_example is not an argument", "max_examples", HELP_OF_COMPUTE],
    ),
    "option": (
        "--trainer.max_epoch=3",
        ["--trainer.max_epoch=3", "choose one of trainer.max_epochs", "run.py fit --help"],
    ),
    "key of the file": (changed("trainer.max_epoch", 3), ["trainer.max_epoch", "choose one of trainer.max_epochs"]),
    "word": (
        "tm.yaml",
        ["tm.yaml is not an option of run.py fit: put --config or --data before it", "run.py fit --help"],
    ),
    "number as network": (changed("model.init_args.network", 3), ["network is '3'", "choose one of", "HFClassifier"]),
    "text as number": ("--data.init_args.batch_size=many", ["batch_size is many: give a whole number", "--data.help"]),
    "number in a network": ("--model.init_args.network.init_args.dropout=high", ["dropout is high: give a number"]),
    "number in a method": (
        compute(methods={"r": {"class_path": IG, "init_args": {"num_steps": "x"}}}),
        ["num_steps is x: give a whole number"],
    ),
    "max_examples of a callback": (
        compute(max_examples="many"),
        ["max_examples is many: give a whole", HELP_OF_COMPUTE],
    ),
    "max_examples of data": ("--data.init_args.max_examples=many", ["whole number or a mapping"]),
    "choice": (compute(targets="best"), ["targets is best: give one of gold, predicted"]),
    "choice of the trainer": ("--trainer.precision=7", ["trainer.precision is 7: give one of", "bf16-mixed"]),
    "true or false": ("--test_after_fit=maybe", ["test_after_fit is maybe: give true or false"]),
    "tuple": ("--model.init_args.optimizer.init_args.betas=[0.9]", ["betas is [0.9]", "2 elements"]),
    "lr nan": ("--model.init_args.optimizer.init_args.lr=nan", ["optimizer.init_args.lr is nan: give a finite number"]),
    "lr inf": ("--model.init_args.optimizer.init_args.lr=inf", ["optimizer.init_args.lr is inf: give a finite number"]),
    "seed is text": ("--seed_everything=abc", ["seed_everything is abc: give a whole number"]),
    "seed is true": ("--seed_everything=true", ["seed_everything is True: give a whole number"]),
    "dict_kwargs of an optimizer": (
        changed("model.init_args.optimizer", {"class_path": "AdamW", "dict_kwargs": {"foo": 1}}),
        ["model.init_args.optimizer: foo is not an argument of AdamW: remove it from dict_kwargs"],
    ),
    "dict_kwargs of a network": (
        "--model.init_args.network.dict_kwargs={foo: 1}",
        ["foo is not an argument of the class"],
    ),
    "dict_kwargs of data": ("--data.dict_kwargs={foo: 1}", ["foo is not an argument of TextDataModule: remove it"]),
    "argument of a class without arguments": (
        changed("trainer.callbacks", [{"class_path": "Callback", "init_args": {"foo": 1}}]),
        ["trainer.callbacks[Callback].init_args.foo: Callback has no arguments, so remove this setting"],
    ),
    "missing argument": (
        changed("trainer.callbacks", [METHODS, {"class_path": "EarlyStopping"}]),
        ["trainer.callbacks[EarlyStopping] lacks monitor", "--trainer.callbacks.help EarlyStopping"],
    ),
    "argument of other classes": (
        changed("model.init_args.network.init_args.paired", True),
        ["paired is not an argument of HFClassifier", "(paired is an argument of BiLSTMAttention)"],
    ),
    "missing data": (lambda config: config.pop("data"), ["run.py fit lacks data", "--config", "--data"]),
    "missing file": (
        changed("model.init_args.network", "network/minilmm.yaml"),
        ["'network/minilmm.yaml'", "minilm.yaml"],
    ),
    "missing preset": (
        changed("trainer.callbacks", ["presets/edinn.yaml"]),
        ["'presets/edinn.yaml'", "presets/edin.yaml"],
    ),
    "interpolation": (
        changed("trainer.max_epochs", "${epochs}"),
        ["trainer.max_epochs", "'epochs' not found", "define"],
    ),
}


@pytest.mark.parametrize(("change", "parts"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_mistake_in_a_setting_names_key_value_and_choices(tmp_path, change, parts):
    config = tiny_config(callbacks=[METHODS])
    options = [change] if isinstance(change, str) else []
    if not isinstance(change, str):
        change(config)
    line = refusal("fit", "--config", save(config, tmp_path / "tiny.yaml"), "--runs_dir", tmp_path / "runs", *options)
    assert len(line) <= LONGEST_LINE
    for part in parts:
        assert part in line


OF_A_RUN: dict[str, Any] = {"trainer": {"callbacks": []}}


@pytest.mark.parametrize("subcommand", ["fit", "data"])
@pytest.mark.parametrize(
    "option", ["--trainer.callbacks", "--trainer.callbacks+", "--data", "--model.init_args.network"]
)
def test_configuration_in_the_place_of_a_part_is_named_with_its_option(tmp_path, option, subcommand):
    file, config = save(OF_A_RUN, tmp_path / "none.yaml"), save(tiny_config(callbacks=[]), tmp_path / "tiny.yaml")
    for argument in ([option, file], [f"{option}={file}"]):
        line = refusal(subcommand, "--config", config, *argument)
        key = option.strip("-+")
        assert line == f"error: {key} is {file}, which is the configuration of a run: give this file by --config"


def test_configuration_among_the_callbacks_of_a_file_is_named(tmp_path):
    file = save(OF_A_RUN, tmp_path / "none.yaml")
    line = refusal("fit", "--config", save(tiny_config(callbacks=[METHODS, "none.yaml"]), tmp_path / "tiny.yaml"))
    assert line.startswith(f"error: trainer.callbacks is {file}, which is the configuration of a run: give this")


CONFIGURATIONS = [
    (b"model: [1,\n", "line 2"),
    (b"model:\n\tclass_path: x\n", "line 2"),
    (b"- a\n- b\n", "contains"),
    (b"hello", "contains 'hello'"),
    (b"", "is empty"),
    ("experiment: caf\xe9".encode("latin-1"), "is not UTF-8"),
    ("a: 1".encode("utf-16"), "iconv -f utf-16"),
    (b"a: &a [*a]\n", "alias"),
    (b"model: !!python/object/apply:os.system [ls]\n", "could not determine a constructor"),
]


@pytest.mark.parametrize(("content", "named"), CONFIGURATIONS)
def test_file_that_is_no_configuration_is_named_with_the_line(tmp_path, content, named):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    line = refusal("fit", "--config", file)
    assert str(file) in line and named in line and len(line) <= LONGEST_LINE + len(str(file))


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("--trainer.devices=0", "trainer.devices is 0"),
        ("--seed_everything=-1", "seed_everything is -1"),
        ("--model.init_args.optimizer.init_args.lr=.nan", "Invalid learning rate: nan"),
        ("--data.init_args.num_workers=-1", "num_workers is -1"),
        ("--data.init_args.max_examples=0", "max_examples is 0: give a number of at least 1"),
        ("--checkpoint.mode=best", "`mode` can be min, max but got best"),
    ],
)
def test_refused_setting_ends_the_command_in_a_line(tmp_path, argument, named):
    config = save(tiny_config(callbacks=[]), tmp_path / "tiny.yaml")
    assert named in refusal("fit", "--config", config, "--runs_dir", tmp_path / "runs", argument)
    assert not list(tmp_path.rglob("*.ckpt"))
