"""Messages of a run: each once, and none of the libraries' advertisements."""

import io
import logging
import sys
import warnings

import pytest
from tqdm import tqdm

from lightning_xai.runs.progress import PACKAGE, flush_every_line, quiet, say, unsaid

LIGHTNING = "lightning.pytorch.utilities.rank_zero"


def test_only_the_first_process_speaks(capsys, monkeypatch):
    say("begin")
    monkeypatch.setenv("RANK", "1")
    say("begin")
    assert capsys.readouterr().out == "begin\n"


def test_advertisements_are_silenced_and_other_messages_are_not(caplog):
    with caplog.at_level(logging.INFO, logger=LIGHTNING), quiet():
        logging.getLogger(LIGHTNING).info("try litlogger")
        logging.getLogger(LIGHTNING).info("epoch 1")
    assert [record.getMessage() for record in caplog.records] == ["epoch 1"]


def test_a_line_is_said_once_in_a_command_and_again_in_the_next(capsys):
    for _ in range(2):
        with quiet():
            assert unsaid(["a", "a", "b"]) == ["a", "a", "b"]
            with quiet():  # of a part of the command
                assert unsaid(["a", "c"]) == ["c"]
            assert unsaid(["b", "c"]) == []
    assert unsaid(["a"]) == unsaid(["a"]) == ["a"]


def test_filters_end_with_the_command(caplog):
    with quiet():
        pass
    with caplog.at_level(logging.INFO, logger=LIGHTNING):
        logging.getLogger(LIGHTNING).info("try litlogger")
    assert len(caplog.records) == 1


def test_warnings_about_our_own_choices_are_silenced():
    with warnings.catch_warnings(record=True) as shown, quiet():
        warnings.warn("the dataloader does not have many workers", stacklevel=1)
        warnings.warn("something else", stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["something else"]


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ("lightning.fabric.utilities.seed", "Seed set to 0"),
        (LIGHTNING, "GPU available: False, used: False"),
        (LIGHTNING, "TPU available: False, using: 0 TPU cores"),
        (LIGHTNING, "Restoring states from the checkpoint path at runs/tm/seed0/checkpoints/best.ckpt"),
        (LIGHTNING, "Loaded model weights from the checkpoint at runs/tm/seed0/checkpoints/best.ckpt"),
        (LIGHTNING, "-----\ndistributed_backend=gloo\nAll distributed processes registered."),
        (LIGHTNING, "`Trainer.fit` stopped: `max_epochs=2` reached."),
        (LIGHTNING, "`Trainer(limit_test_batches=1)` was configured so 1 batch will be used."),
    ],
)
def test_greetings_of_the_trainer_are_silenced(caplog, logger, message):
    with caplog.at_level(logging.INFO, logger=logger), quiet():
        logging.getLogger(logger).info(message)
    assert caplog.records == []


def test_warnings_are_one_line_and_those_of_libraries_name_their_place(capsys):
    before = warnings.formatwarning
    with quiet():
        ours = warnings.formatwarning("raise\nnum_steps", UserWarning, str(PACKAGE / "a.py"), 3)
        theirs = warnings.formatwarning("old function", FutureWarning, "/lib/torch/nn.py", 7)
    assert ours == "warning: raise num_steps\n"
    assert theirs == "warning: old function (nn.py, line 7)\n"
    assert warnings.formatwarning is before


def test_a_line_does_not_continue_the_line_of_a_bar(monkeypatch):
    monkeypatch.setattr("sys.stdout", terminal := io.StringIO())
    with tqdm(total=2, file=terminal):
        say("resuming")
    assert "\rresuming\n" in terminal.getvalue()  # the bar was cleared before


def test_every_line_is_flushed_into_a_file(tmp_path, monkeypatch):
    with (tmp_path / "slurm.out").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        flush_every_line()
        print("step 1")
        assert (tmp_path / "slurm.out").read_text() == "step 1\n"
