"""Parts of a configuration by name: on the command line, in a user's own file, and from an installed wheel."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lightning_xai.commands.main import main
from lightning_xai.commands.parser.config_files import find_config, with_config_paths
from lightning_xai.commands.parser.parts import SHIPPED, find_part, with_part_paths

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("vader.yaml", "data", "data/vader.yaml"),
        ("data/vader.yaml", "data", "data/vader.yaml"),
        ("minilm.yaml", "network", "network/minilm.yaml"),
        ("eraser.yaml", "callbacks", "presets/eraser.yaml"),
        ("methods/all.yaml", "callbacks", "methods/all.yaml"),
        ("heatmaps.yaml", "callbacks", "callbacks/heatmaps.yaml"),
    ],
)
def test_part_is_found_by_name_in_the_folders_of_its_kind(name, kind, found):
    assert Path(find_part(name, kind)).resolve() == SHIPPED / found


@pytest.mark.parametrize("name", ["../configs/tm.yaml", "no.yaml", "../configs/network/minilm.yaml"])
def test_file_that_is_not_shipped_is_not_found(name):
    message = f"no file '{name}' for data, here or in configs/data: choose one of .*(babi.yaml|and \\d+ others)"
    with pytest.raises(ValueError, match=message):
        find_part(name, "data")


@pytest.mark.parametrize(
    ("name", "kind", "option"),
    [
        ("minilm.yaml", "data", "--model.init_args.network minilm.yaml"),
        ("network/minilm.yaml", "data", "--model.init_args.network network/minilm.yaml"),
        ("tm.yaml", "data", "--config tm.yaml"),
        ("eraser.yaml", "network", "--trainer.callbacks+ presets/eraser.yaml"),
        ("data/vader.yaml", "callbacks", "--data data/vader.yaml"),
    ],
)
def test_file_of_another_kind_is_refused_with_its_own_option(name, kind, option):
    with pytest.raises(ValueError, match=f"^{name} is no file for {kind}: give it as {re.escape(option)}$"):
        find_part(name, kind)
    assert Path(with_config_paths(with_part_paths(["fit", *option.split()]))[-1]).is_file()  # the advice works


@pytest.mark.parametrize("name", ["tm", "aml", "roar", "regex"])
def test_a_configuration_without_its_ending_is_named(name):
    with pytest.raises(ValueError, match=rf"did you mean --config {name}.yaml\?$"):
        find_config(name)


@pytest.mark.parametrize("name", ["eraser", "eraser.yaml", "presets/eraser", "vader.yaml", "minilm.yaml"])
def test_a_part_given_as_a_configuration_is_refused_with_its_own_option(name):
    with pytest.raises(ValueError, match=r"did you mean (--\S+ \S+)\?$") as caught:
        find_config(name)
    option = str(caught.value).rpartition("did you mean ")[2].rstrip("?").split()
    assert Path(with_config_paths(with_part_paths(["fit", *option]))[-1]).is_file()


def test_a_similar_file_of_the_user_is_suggested_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_data.yaml").touch()
    with pytest.raises(ValueError, match="no file 'mydata.yaml' .*: choose one of my_data.yaml, "):
        find_part("mydata.yaml", "data")


def test_file_of_the_user_comes_before_the_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vader.yaml").touch()
    assert with_part_paths(["fit", "--data", "vader.yaml"]) == ["fit", "--data", "vader.yaml"]
    (tmp_path / "configs" / "data").mkdir(parents=True)
    (tmp_path / "configs" / "data" / "sst.yaml").touch()
    assert with_part_paths(["--data=sst.yaml"]) == ["--data=configs/data/sst.yaml"]


def test_only_options_that_take_parts_are_looked_up():
    argv = ["fit", "--config", "x.yaml", "--model.init_args.teacher=x.yaml", "--data.init_args.seed", "1"]
    assert with_part_paths(argv) == argv


@pytest.mark.slow
def test_configuration_in_any_folder_names_shipped_parts(tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sst.yaml").write_text((SHIPPED / "data" / "planted.yaml").read_text())
    (tmp_path / "mine.yaml").write_text(
        "model:\n  class_path: lightning_xai.objectives.supervised.Supervised\n"
        "  init_args: {network: network/minilm.yaml}\n"
        "data: data/sst.yaml\ntrainer:\n  callbacks: [methods/all.yaml]\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["fit", "--config", "mine.yaml", "--print_config"])
    printed = capsys.readouterr().out
    assert "Planted" in printed and "HFClassifier" in printed and "DecompXReverse" in printed


def test_every_package_is_listed_for_the_wheel():
    tomllib = pytest.importorskip("tomllib", reason="reading pyproject.toml needs Python 3.11")
    packages = {".".join(file.parent.relative_to(ROOT).parts) for file in ROOT.glob("lightning_xai/**/__init__.py")}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(packages | {"lightning_xai.configs"})


@pytest.mark.slow
def test_wheel_runs_from_an_empty_folder(tmp_path):
    pytest.importorskip("setuptools", minversion="70.1", reason="building a wheel needs setuptools")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    source, site, empty = (tmp_path / name for name in ("source", "site", "empty"))
    for name in ("lightning_xai", "configs"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    build = "from setuptools.build_meta import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=source, check=True, capture_output=True, env=environment
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = archive.namelist()
    assert {"lightning_xai/configs/methods/all.yaml", "lightning_xai/report/heatmap.html"} <= set(names)
    assert not any(n.startswith("configs/") for n in names)
    assert not any(n.endswith(".png") for n in names)  # the picture of README.md stays in the repository
    empty.mkdir()
    run = "import sys; sys.path.insert(0, sys.argv.pop(1)); from lightning_xai.commands.main import main; main()"
    argv = ["fit", "--config", "roar.yaml", "--data", "planted.yaml", "--print_config"]
    printed = subprocess.run(
        [sys.executable, "-c", run, str(site), *argv], cwd=empty, capture_output=True, text=True, env=environment
    )
    assert printed.returncode == 0, printed.stderr
    assert "lightning_xai.chains.roar.ROAR" in printed.stdout and str(ROOT) not in printed.stdout
