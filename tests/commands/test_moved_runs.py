"""Commands on the saved configuration of a run whose folder was moved, renamed or copied."""

import pandas as pd
import pytest

from tests.commands.conftest import command, numbers


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--ckpt_path", "best"]], ids=["default", "best"])
def test_test_on_the_saved_config_of_a_moved_run_gives_the_same_numbers(fitted, run_copy, arguments):
    for file in run_copy.glob("results.*"):
        file.unlink()
    command("test", "--config", run_copy / "config.yaml", *arguments)
    pd.testing.assert_frame_equal(numbers(run_copy / "results.csv"), numbers(fitted.path / "results.csv"))


@pytest.mark.slow
def test_a_renamed_copy_of_an_experiment_is_a_run_of_its_own(fitted, run_copy):
    original = numbers(fitted.path / "results.csv")
    renamed = run_copy.parent.rename(run_copy.parent.with_name("copy")) / "seed0"
    for file in renamed.glob("results.*"):
        file.unlink()
    command("test", "--config", renamed / "config.yaml")
    table = numbers(renamed / "results.csv")
    assert set(table["experiment"]) == {"copy"}
    pd.testing.assert_frame_equal(table.drop(columns="experiment"), original.drop(columns="experiment"))
    by_name = ["--experiment", "copy", "--runs_dir", renamed.parents[1]]
    for argv in (["--config", renamed / "config.yaml"], ["--config", fitted.path / "config.yaml", *by_name]):
        assert f"{renamed} is finished already" in command("fit", *argv)
