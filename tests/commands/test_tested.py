"""A test says which weights it measures."""

import pytest

from lightning_xai.commands.tested import facts_of_test
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.folder import RunFolder
from tests.conftest import tiny_classifier


@pytest.mark.parametrize(
    ("status", "trained", "subcommand", "says_so"),
    [
        ("running", False, "test", True),  # killed in its training
        ("running", True, "test", False),  # killed in its test
        ("running", True, "fit", False),
        ("finished", True, "predict", False),
    ],
)
def test_checkpoint_of_a_training_that_has_not_ended_is_named(plain_copy, capsys, status, trained, subcommand, says_so):
    run = RunFolder(plain_copy)
    run.write_manifest(status=status, trained=trained)
    path = str(run.best_checkpoint)
    facts_of_test(run, Supervised(tiny_classifier("bert")), path, {}, command=subcommand)
    line = f"{run.path}: training has not ended, so best.ckpt comes from an early epoch\n"
    assert capsys.readouterr().out == (line if says_so else "")
