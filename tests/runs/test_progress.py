"""Messages of a run: each once, and none of the libraries' advertisements."""

import logging
import warnings

from lightning_xai.runs.progress import quiet, say

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
