"""Mistakes about the stages of a ROAR chain end in a line that names the stage and the remedy."""

import json
import shutil

import pytest

from tests.commands.conftest import refusal, save, tiny_config
from tests.commands.roar_runs import NAMES, roar_config

pytestmark = pytest.mark.slow


def test_unknown_stage_is_named_with_those_there_are(tmp_path):
    argv = ["fit", "--config", roar_config(tmp_path), "--runs_dir", tmp_path / "runs"]
    message = refusal(*argv, "--stage", "gradient/050")
    assert f"no stage 'gradient/050': choose one of root, {', '.join(NAMES)}" in message
    assert not (tmp_path / "runs").exists()


def test_stage_by_name_before_the_root_names_the_root(tmp_path):
    argv = ["fit", "--config", roar_config(tmp_path), "--runs_dir", tmp_path / "runs"]
    message = refusal(*argv, "--stage", "gradient/040")
    root = tmp_path / "runs" / "roar" / "seed0"
    assert f"the chain has not begun: run --stage root first, which trains {root}" in message


def test_stage_without_a_chain_is_refused(tmp_path):
    argv = ["--config", save(tiny_config(callbacks=[]), tmp_path / "tiny.yaml"), "--runs_dir", tmp_path / "runs"]
    assert "--stage needs a chain" in refusal("fit", *argv, "--stage", "gradient/040")
    assert "--stage works only with fit" in refusal("test", *argv, "--stage", "gradient/040")


def test_stage_of_an_older_format_is_refused(whole_roar, tmp_path):
    copy = shutil.copytree(whole_roar[0], tmp_path / "runs" / "roar")
    manifest = copy / "gradient" / "040" / "seed0" / "manifest.json"
    manifest.write_text(json.dumps({"status": "finished"}))
    message = refusal("fit", "--config", roar_config(tmp_path), "--runs_dir", copy.parent)
    assert f"{manifest.parent} has format 1" in message


def test_erasures_of_an_older_format_are_refused(whole_roar, tmp_path):
    copy = shutil.copytree(whole_roar[0], tmp_path / "runs" / "roar")
    shutil.rmtree(copy / "gradient" / "080")
    folder = copy / "seed0" / "erasures" / "gradient" / "080"
    (folder / "complete.json").write_text(json.dumps({"method": "gradient", "percentage": 80}))
    message = refusal("fit", "--config", roar_config(tmp_path), "--runs_dir", copy.parent)
    assert f"{folder} has format 1" in message


def test_stage_told_without_its_erasures_is_refused(whole_roar, tmp_path):
    copy = shutil.copytree(whole_roar[0], tmp_path / "runs" / "roar")
    shutil.rmtree(copy / "random" / "080")
    one = ["--experiment", "roar/random/080", "--follow_up", "false"]
    message = refusal("fit", "--config", roar_config(tmp_path), "--runs_dir", copy.parent, *one)
    assert f"add --data.init_args.erasures={copy / 'seed0' / 'erasures' / 'random' / '080'}" in message


def test_stage_whose_erasures_are_lost_names_the_run_that_writes_them(whole_roar, tmp_path):
    copy = shutil.copytree(whole_roar[0], tmp_path / "runs" / "roar")
    erasures = copy / "seed0" / "erasures" / "gradient" / "080"
    for lost in (copy / "gradient" / "080", erasures):
        shutil.rmtree(lost)
    one = ["--experiment", "roar/gradient/080", "--follow_up", "false", "--data.init_args.erasures", erasures]
    message = refusal("fit", "--config", roar_config(tmp_path), "--runs_dir", copy.parent, *one)
    assert f"run {copy / 'gradient' / '040' / 'seed0'} first" in message


def test_runs_of_a_removed_root_are_not_taken_for_those_of_another(whole_roar, tmp_path):
    copy = shutil.copytree(whole_roar[0], tmp_path / "runs" / "roar")
    shutil.rmtree(copy / "seed0")
    message = refusal("fit", "--config", roar_config(tmp_path, lr=1e-3), "--runs_dir", copy.parent)
    assert "have different settings (model.init_args.optimizer.init_args.lr is 0.001 and 0.005)" in message


def test_stage_before_its_erasures_is_refused(tmp_path):
    folder = tmp_path / "runs" / "roar" / "seed0" / "erasures" / "gradient" / "040"
    argv = ["--experiment", "roar/gradient/040", "--data.init_args.erasures", folder]
    message = refusal("fit", "--config", roar_config(tmp_path), "--runs_dir", tmp_path / "runs", *argv)
    assert "run the first stage of the chain that wrote this file" in message
