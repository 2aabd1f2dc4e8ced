"""Runs of an older format are neither resumed nor tested again: one line says so, and nothing is changed."""

import json
import re
from pathlib import Path

import pytest

from tests.commands.conftest import refusal

pytestmark = pytest.mark.slow


@pytest.fixture
def old(plain_copy) -> Path:
    """A finished run as an older version left it: no number of a format in any file."""
    run = plain_copy
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({name: manifest[name] for name in ("status", "settings")}))
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(re.sub(r"^format:.*\n", "", config, flags=re.MULTILINE) + "renamed: 1\n")
    return run


def files(run: Path) -> dict[Path, float]:
    return {path: path.stat().st_mtime_ns for path in run.rglob("*")}


@pytest.mark.parametrize("command_name", ["fit", "test", "validate", "predict"])
def test_command_on_the_folder_of_an_old_run_is_refused(plain, old, command_name):
    before = files(old)
    message = refusal(command_name, "--config", plain.config, "--runs_dir", old.parents[1])
    assert f"{old} has format 1, but this version reads format 2: choose another --experiment" in message
    assert files(old) == before


@pytest.mark.parametrize("command_name", ["racu", "stability"])
def test_command_that_reads_runs_asks_to_run_an_old_run_again(plain, old, command_name):
    (old / "roar.csv").touch()
    message = refusal(command_name, *([old.parent] if command_name == "racu" else [plain.path, old]))
    assert message == (f"error: {old} has format 1, but this version reads format 2: repeat the run with this version")


@pytest.mark.parametrize("command_name", ["fit", "test"])
def test_configuration_of_an_old_run_is_refused_before_its_settings_are_read(old, command_name):
    message = refusal(command_name, "--config", old / "config.yaml")
    assert f"{old} has format 1" in message and "renamed" not in message


def test_configuration_of_a_newer_format_is_refused(plain, tmp_path):
    message = refusal("fit", "--config", plain.config, "--runs_dir", tmp_path, "--format", "3")
    assert "format is 3, but this version reads configurations of format 2" in message
