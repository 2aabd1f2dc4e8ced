"""The files, the experiment and the run folder that a command line names."""

import json
from pathlib import Path

import pytest
from jsonargparse import Namespace

from lightning_xai.commands.parser.config_files import (
    experiment_name,
    find_config,
    folder_of_config,
    run_of_command,
    with_config_paths,
)
from lightning_xai.commands.parser.config_syntax import check_files
from lightning_xai.commands.parser.parts import find_part
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.format import with_format


def test_configuration_is_found_as_given_beside_others_or_among_those_shipped(tmp_path):
    (tmp_path / "beside.yaml").touch()
    assert find_config(str(tmp_path / "beside.yaml")) == str(tmp_path / "beside.yaml")
    assert find_config("beside.yaml", [tmp_path]) == str(tmp_path / "beside.yaml")
    assert find_config("tm.yaml").endswith("configs/tm.yaml")


@pytest.mark.parametrize("option", [["--config", "b.yaml"], ["-c", "b.yaml"], ["--config=b.yaml"]])
def test_later_configuration_is_looked_for_beside_the_earlier(tmp_path, option):
    for name in "ab":
        (tmp_path / f"{name}.yaml").touch()
    found = with_config_paths(["fit", "--config", str(tmp_path / "a.yaml"), *option])
    assert found[-1] == str(tmp_path / "b.yaml") and found[-2] in ("-c", "--config")


def test_experiment_is_what_a_file_sets_or_the_first_file_s_name(tmp_path):
    (tmp_path / "a.yaml").write_text("x: 1")
    (tmp_path / "b.yaml").write_text("experiment: chosen")
    assert experiment_name([str(tmp_path / "a.yaml")]) == "a"
    assert experiment_name([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]) == "chosen"
    assert experiment_name([]) == "default"


STATUS = {"status": "finished"}


def saved(folder: Path, experiment: str) -> str:
    """Writes what a run saves in its folder, and returns the path of its configuration."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(with_format({"settings": {}, **STATUS})))
    (folder / "config.yaml").write_text(f"experiment: {experiment}\nseed_everything: 0")
    return str(folder / "config.yaml")


def test_saved_configuration_leads_to_its_own_folder(tmp_path):
    folder = tmp_path / "moved" / "name" / "seed0"
    file = saved(folder, "name")
    assert folder_of_config([file], RunFolder(Path("runs/name/seed0")), "name", 0).path == folder
    other = RunFolder(Path("runs/other/seed0"))
    assert folder_of_config([file], other, "other", 0) == other


@pytest.mark.parametrize(
    "args, seed, place",
    [
        ([], 0, "kept/a/copy/seed0"),
        (["--experiment=b/name"], 0, "runs/b/name/seed0"),
        (["--experiment", "a/name"], 0, "runs/a/name/seed0"),
        (["--experiment=b/copy"], 0, "runs/b/copy/seed0"),
        (["--runs_dir=runs"], 0, "runs/a/name/seed0"),
        (["--seed_everything=1"], 1, "runs/a/name/seed1"),
    ],
)
def test_configuration_in_a_renamed_folder_leads_there_unless_the_command_names_another_run(
    tmp_path, monkeypatch, args, seed, place
):
    monkeypatch.chdir(tmp_path)
    folder = Path("kept", "a", "copy", "seed0")
    saved(folder, "a/name")
    (folder / "manifest.json").write_text(json.dumps(with_format({"settings": {"experiment": "first/name"}, **STATUS})))
    named = args[-1].partition("=")[2] if args and "b/" in args[-1] else None
    config = Namespace(experiment=named or "a/name", runs_dir="runs", seed_everything=seed)
    run = run_of_command(config, [str(folder / "config.yaml")], args)
    assert run.path.absolute() == tmp_path / place
    assert config.experiment == str(Path(*Path(place).parts[1:-1]))


def test_a_part_given_by_config_is_named_with_the_option_that_takes_it(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("class_path: TextDataModule")
    options = "give it by the option for its class: --data, --model.init_args.network, --trainer.callbacks\\+"
    for argv in (["--config", str(file)], [f"--config={file}"]):
        with pytest.raises(ValueError, match=f"mine.yaml has a class_path, so it describes one part .*: {options}$"):
            check_files(["fit", *argv])
    check_files(["fit", "--data", str(file)])
    table = tmp_path / "mine.csv"
    table.write_text("text,label")
    with pytest.raises(ValueError, match="name mine.csv under data_files, and give the copy by --data"):
        check_files(["fit", "--data", str(table)])
    with pytest.raises(ValueError, match="give it by --data data/vader.yaml"):
        check_files(["fit", "--config", find_part("vader.yaml", "data")])
