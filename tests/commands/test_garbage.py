"""The garbage collector is paused while a command starts, and runs again after it."""

import gc

import pytest

from lightning_xai.commands.garbage import without_collections
from lightning_xai.commands.main import main


def test_the_collector_is_paused_inside_and_runs_after_an_error():
    with pytest.raises(KeyError), without_collections():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_the_user_turned_off_stays_off():
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_command_that_ends_in_the_parser_leaves_the_collector_on(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--config", "stability.yaml", "--print_config"])
    assert "seed_everything" in capsys.readouterr().out and gc.isenabled()
