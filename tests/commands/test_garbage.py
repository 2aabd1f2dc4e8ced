"""The garbage collector is paused while a command starts, and runs again after it."""

import gc
import importlib
import sys

import pytest

from lightning_xai.commands.garbage import without_collections
from lightning_xai.commands.main import main
from tests.commands.conftest import refusal, save, tiny_config


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


@pytest.mark.parametrize(("imports", "freeze"), [(True, True), (True, False), (False, True)])
def test_objects_are_left_out_later_only_at_a_start_that_imports(imports, freeze):
    gc.unfreeze()
    sys.modules.pop("colorsys", None)
    with without_collections(freeze=freeze):
        if imports:
            importlib.import_module("colorsys")
    assert (gc.get_freeze_count() > 0) == (imports and freeze)
    gc.unfreeze()


def test_a_parser_that_imports_a_class_of_the_user_can_be_freed(tmp_path, monkeypatch):
    (tmp_path / "parts_of_a_user.py").write_text(
        "from lightning.pytorch.callbacks import Callback\n\n\nclass Mine(Callback):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = tiny_config(callbacks=[{"class_path": "parts_of_a_user.Mine"}])
    refusal("fit", "--no_such_option", "1")  # imports what every fit needs
    gc.unfreeze()
    refusal("fit", "--config", save(config, tmp_path / "mine.yaml"), "--runs_dir", tmp_path, "--no_such_option", "1")
    assert "parts_of_a_user" in sys.modules and gc.get_freeze_count() == 0


@pytest.mark.slow
def test_a_command_that_ends_in_the_parser_leaves_the_collector_on(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--config", "stability.yaml", "--print_config"])
    assert "seed_everything" in capsys.readouterr().out and gc.isenabled()
