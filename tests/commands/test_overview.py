"""Help: of all commands at once, of a command, and of any class."""

import subprocess
import sys

import pytest

from lightning_xai.commands.main import main
from lightning_xai.commands.overview import COMMANDS
from tests.commands.conftest import ROOT, refusal


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]], ids=["nothing", "help", "h"])
def test_all_commands_are_listed_with_an_example(argv, capsys):
    main(argv)
    printed = capsys.readouterr().out
    names = "fit validate test predict search data explain racu compare stability tables"
    assert list(COMMANDS) == names.split()
    for name, (_, example) in COMMANDS.items():
        assert f"\n  {name} " in printed and f"run.py {example}" in printed and example.startswith(name)


def test_help_loads_no_library():
    code = "import sys; sys.argv = ['lightning-xai']; from lightning_xai.commands.main import main; main(); " + (
        "assert not {'torch', 'lightning', 'transformers', 'numpy'} & set(sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "lightning-xai fit --config tm.yaml" in printed


def test_command_outside_the_environment_says_how_to_activate_it():
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from lightning_xai.commands.main import main; main(['fit'])"
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)  # no site-packages
    assert ended.returncode == 1 and ended.stderr.startswith("error: No module named '")
    assert ". .venv/bin/activate" in ended.stderr and ended.stderr.count("\n") == 1


def printed_help(capsys, *argv: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(argv))
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_help_of_a_command_says_where_the_help_of_classes_is(capsys):
    assert "run.py --help CLASS" in " ".join(printed_help(capsys, "fit", "--help").split())


@pytest.mark.parametrize(
    ("option", "name", "argument"),
    [
        ("--model.help", "Supervised", "head_lr_factor"), ("--data.help", "TextDataModule", "max_examples"),
        ("--trainer.callbacks.help", "ComputeAttributions", "during_fit"),
    ],
)  # fmt: skip
def test_help_that_errors_name_lists_the_arguments(capsys, option, name, argument):
    assert argument in printed_help(capsys, "fit", option, name)


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("IntegratedGradients", "num_steps: int (default 50)"), ("Files", "label_column: str (default 'label')"),
        ("Entropy", "name: "), ("AdamW", "lr: "), ("EarlyStopping", "monitor: str (required)"),
        ("lightning_xai.models.plm_ca.PLMCA", "segment_length: int"), ("AttributionMethod", "AttInGrad, "),
    ],
)  # fmt: skip
def test_help_of_a_class_lists_its_arguments(capsys, name, argument):
    main(["--help", name])
    assert argument in capsys.readouterr().out


@pytest.mark.parametrize("name", ["IntegratedGradient", "no.such.Class"])
def test_class_that_does_not_exist_is_named(name):
    line = refusal("--help", name)
    assert name in line and ("choose one of IntegratedGradients" in line or "correct the name" in line)
