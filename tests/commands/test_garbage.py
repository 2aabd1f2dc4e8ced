"""The garbage collector is paused while a command starts, and runs again after it."""

import gc
import importlib
import sys

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


@pytest.mark.parametrize("imports", [True, False])
def test_objects_are_left_out_later_only_if_the_block_imports(imports):
    gc.unfreeze()
    sys.modules.pop("colorsys", None)
    with without_collections():
        if imports:
            importlib.import_module("colorsys")
    assert (gc.get_freeze_count() > 0) == imports
    gc.unfreeze()


def test_a_command_that_ends_in_the_parser_leaves_the_collector_on(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--config", "stability.yaml", "--print_config"])
    assert "seed_everything" in capsys.readouterr().out and gc.isenabled()
