"""The ROAR chain by one command: its runs, its table, kills, single stages and two processes."""

import shutil

import pandas as pd
import pytest
import torch
import yaml

from lightning_xai.callbacks.preflight.preflight import Preflight
from tests.commands.conftest import command, numbers, refusal, weights
from tests.commands.roar_runs import NAMES, erased, roar_config
from tests.commands.test_chain import kill_when, status
from tests.commands.test_processes import TWO, kill_ranks_when, run_ranks
from tests.runs.processes import owner_of

pytestmark = pytest.mark.slow


def test_each_stage_is_a_finished_run_of_its_own(whole_roar):
    runs, _ = whole_roar
    assert status(runs / "seed0") == "finished"
    assert {name: status(runs / name / "seed0") for name in NAMES} == dict.fromkeys(NAMES, "finished")
    assert (runs / "gradient" / "080" / "seed0" / "results.csv").is_file()


def test_files_of_a_stage_lie_in_its_folder(whole_roar):
    runs, _ = whole_roar
    found = {path.parent.relative_to(runs).as_posix() for path in runs.rglob("events.out.tfevents*")}
    assert found == {"seed0", *(f"{name}/seed0" for name in NAMES)}


def test_stage_is_announced_with_its_number_and_the_time_left(whole_roar):
    _, printed = whole_roar
    announced = [line for line in printed.splitlines() if line.startswith("ROAR stage")]
    assert announced[0] == "ROAR stage 1 of 6: all methods, 0 %"
    assert announced[4].startswith("ROAR stage 5 of 6: gradient, 40 %, ") and announced[4].endswith(" min left")
    assert len(announced) == 6


def test_chain_ends_with_racu_and_curves(whole_roar):
    runs, printed = whole_roar
    assert "RACU in percent" in printed and "runs/roar/report/roar.png" in printed
    table = pd.read_csv(runs / "report" / "racu.csv")
    assert table[["experiment", "method", "quantity"]].values.tolist() == [["roar", "gradient", "racu"]]


def test_the_next_step_is_named_once_and_explains_the_root(whole_roar):
    runs, printed = whole_roar
    assert printed.count("next: ") == 1
    assert printed.splitlines()[-1] == f'next: python run.py explain --ckpt {runs}/seed0 --text "A TEXT OF YOURS"'


def test_results_share_the_ends_between_the_methods(whole_roar):
    runs, printed = whole_roar
    table = pd.read_csv(runs / "seed0" / "roar.csv").query("split == 'test' and metric == 'log_loss'")
    places = table[["method", "amount", "run"]].itertuples(index=False, name=None)
    assert list(places) == [
        ("random", 0, "roar/seed0"),
        ("random", 40, "roar/random/040/seed0"),
        ("random", 80, "roar/random/080/seed0"),
        ("random", 100, "roar/all/100/seed0"),
        ("gradient", 0, "roar/seed0"),
        ("gradient", 40, "roar/gradient/040/seed0"),
        ("gradient", 80, "roar/gradient/080/seed0"),
        ("gradient", 100, "roar/all/100/seed0"),
    ]
    for value, run in table[["value", "run"]].itertuples(index=False, name=None):
        results = pd.read_parquet(runs.parent / run / "results.parquet")
        assert value == results.query("split == 'test' and metric == 'log_loss'")["value"].item()
    assert "ROAR, macro_f1 on test in percent, by % erased" in printed


def test_recursive_erasures_contain_those_before_them(whole_roar):
    runs, _ = whole_roar
    small, large = (erased(runs / "seed0", f"gradient/0{amount}")["train"] for amount in (40, 80))
    for a, b in zip(small, large, strict=True):
        assert all(y >= x for x, y in zip(a, b, strict=True)) and sum(b) > sum(a)


def test_finished_chain_prints_its_table_and_trains_nothing(whole_roar, tmp_path):
    runs, _ = whole_roar
    (runs / "seed0" / "roar.csv").unlink()
    printed = command("fit", "--config", roar_config(tmp_path), "--runs_dir", runs.parent)
    assert "ROAR stage" not in printed and "by % erased" in printed
    assert (runs / "seed0" / "roar.csv").is_file()


@pytest.mark.slow
def test_lost_stage_is_run_again_to_the_same_numbers(whole_roar, tmp_path):
    runs, _ = whole_roar
    copy = shutil.copytree(runs, tmp_path / "runs" / "roar")
    wanted = (copy / "seed0" / "roar.csv").read_text()
    shutil.rmtree(copy / "random" / "080")
    one = ["--experiment", "roar/random/080", "--follow_up", "false"]
    one += ["--data.init_args.erasures", copy / "seed0" / "erasures" / "random" / "080"]
    (copy / "seed0" / "roar.csv").unlink()
    config = roar_config(tmp_path)
    printed = command("fit", "--config", config, "--runs_dir", copy.parent, *one)
    assert printed.count("ROAR stage") == 1
    assert (copy / "seed0" / "roar.csv").read_text() == wanted


@pytest.mark.slow
def test_stage_takes_the_evaluation_of_its_root_only(whole_roar, tmp_path):
    copy = shutil.copytree(whole_roar[0], tmp_path / "runs" / "roar")
    argv = ["fit", "--config", roar_config(tmp_path), "--runs_dir", copy.parent, "--trainer.limit_test_batches", "1"]
    message = refusal(*argv, "--stage", "random/040")
    assert f"{copy / 'seed0'} was evaluated with other settings (trainer.limit_test_batches)" in message
    assert "run --stage root with the settings of this stage" in message
    for stage in ("root", "random/040"):
        printed = command(*argv, "--stage", stage)
        assert printed.count("so it is only tested") == 1 and "by % erased" not in printed
    assert "min left" in printed


@pytest.mark.slow
def test_stage_by_name_runs_alone_to_the_same_numbers(whole_roar, tmp_path, monkeypatch):
    monkeypatch.setattr(Preflight, "_new_failures", None)  # what the chain has tried is not tried again
    copy = shutil.copytree(whole_roar[0], tmp_path / "runs" / "roar")
    wanted = (copy / "seed0" / "roar.csv").read_text()
    for lost in ("gradient/080", "random/080"):
        shutil.rmtree(copy / lost)
    (copy / "seed0" / "roar.csv").unlink()
    argv = ["fit", "--config", roar_config(tmp_path), "--runs_dir", copy.parent, "--stage"]
    with owner_of(copy / "seed0" / "owner.lock"), owner_of(copy / "gradient" / "040" / "seed0" / "owner.lock"):
        assert command(*argv, "gradient/080").count("ROAR stage") == 1  # each stage has its own lock
    assert not (copy / "random" / "080").exists() and not (copy / "seed0" / "roar.csv").exists()
    assert command(*argv, "random/080").count("ROAR stage") == 1
    assert (copy / "seed0" / "roar.csv").read_text() == wanted


@pytest.mark.slow
def test_root_by_name_runs_alone(tmp_path):
    argv = ["fit", "--config", roar_config(tmp_path), "--runs_dir", tmp_path / "runs"]
    assert command(*argv, "--stage", "root").count("ROAR stage") == 1
    assert [path.name for path in (tmp_path / "runs" / "roar").iterdir()] == ["seed0"]
    config = yaml.safe_load((tmp_path / "runs" / "roar" / "seed0" / "config.yaml").read_text())
    assert config["follow_up"] and config["stage"] is None  # --stage is about one command


def test_single_stage_asks_for_no_other(tmp_path):
    command("fit", "--config", roar_config(tmp_path), "--runs_dir", tmp_path / "runs", "--follow_up", "false")
    assert [path.name for path in (tmp_path / "runs" / "roar").iterdir()] == ["seed0"]
    assert (tmp_path / "runs" / "roar" / "seed0" / "erasures" / "gradient" / "040" / "complete.json").is_file()


def test_chain_under_fast_dev_run_leaves_nothing_behind(tmp_path):
    argv = ["--runs_dir", tmp_path / "runs", "--trainer.fast_dev_run", "true"]
    command("fit", "--config", roar_config(tmp_path), *argv)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_control_trains_beside_the_chain(tmp_path):
    config = roar_config(tmp_path, percentages=[50], control=True)
    printed = command("fit", "--config", config, "--runs_dir", tmp_path / "runs")
    table = pd.read_csv(tmp_path / "runs" / "roar" / "seed0" / "roar.csv").query("control and metric == 'accuracy'")
    runs = table.query("split == 'test'")["run"].tolist()
    assert runs == ["roar/all/100/seed0", "roar/gradient_positions/050/seed0", "roar/all/100/seed0"]
    assert "gradient positions" in printed


@pytest.mark.slow
def test_chain_killed_in_and_between_its_stages_ends_with_the_same_numbers(whole_roar, tmp_path):
    runs = tmp_path / "runs" / "roar"
    argv = ["fit", "--config", roar_config(tmp_path), "--runs_dir", str(tmp_path / "runs")]
    erasures = runs / "seed0" / "erasures" / "gradient"

    kill_when((erasures / "040" / "train" / "0.rows").exists, argv)  # while the root writes its erasures
    kill_when(lambda: status(runs / "random" / "040" / "seed0") == "finished", argv)  # between stages
    kill_when((runs / "gradient" / "040" / "seed0" / "checkpoints" / "last.ckpt").exists, argv)  # inside training
    command(*argv)

    assert (runs / "seed0" / "roar.csv").read_text() == (whole_roar[0] / "seed0" / "roar.csv").read_text()
    for name in NAMES:
        assert erased(runs / "seed0", name) == erased(whole_roar[0] / "seed0", name)


@pytest.mark.slow
def test_two_processes_write_the_results_of_one(tmp_path):
    found = []
    for name, devices in (("one", []), ("two", TWO)):
        folder = tmp_path / name
        folder.mkdir()
        # nothing is learned, since two processes see other batches at each step
        config = roar_config(folder, lr=0.0, percentages=[50])
        argv = ["fit", "--config", config, "--runs_dir", folder / "runs", *devices]
        codes, outputs = run_ranks(*argv, folder=folder) if devices else ([0, 0], [command(*argv), ""])
        assert codes == [0, 0], outputs
        assert [output.count("ROAR stage") for output in outputs] == [4, 0]
        root = folder / "runs" / "roar" / "seed0"
        found.append(((root / "roar.csv").read_text(), erased(root, "gradient/050"), erased(root, "random/050")))
    assert found[0] == found[1]


@pytest.mark.slow
def test_chain_of_two_processes_killed_in_and_between_its_stages_ends_with_the_same_numbers(tmp_path):
    folders = [tmp_path / "whole", tmp_path / "killed"]
    commands = []
    for folder in folders:
        folder.mkdir()
        config = roar_config(folder, percentages=[50])
        commands.append(["fit", "--config", config, "--runs_dir", str(folder / "runs"), *TWO])
    whole, killed = (folder / "runs" / "roar" for folder in folders)
    rows = killed / "seed0" / "erasures" / "gradient" / "050" / "train" / "1.rows"  # of the second process
    last = killed / "random" / "050" / "seed0" / "checkpoints" / "last.ckpt"

    kill_ranks_when(rows.exists, commands[1], folders[1])  # while the root writes its erasures
    assert status(killed / "seed0") == "running"
    kill_ranks_when(lambda: status(killed / "seed0") == "finished", commands[1], folders[1])  # between stages
    kill_ranks_when(last.exists, commands[1], folders[1])  # inside training
    assert status(killed / "random" / "050" / "seed0") == "running"
    for argv, folder in zip(commands, folders, strict=True):
        codes, outputs = run_ranks(*argv, folder=folder)
        assert codes == [0, 0], outputs

    assert f"{last.parents[1]}: resuming from last.ckpt" in (folders[1] / "rank0.log").read_text()
    assert (killed / "seed0" / "roar.csv").read_text() == (whole / "seed0" / "roar.csv").read_text()
    for name in ("", "all/100", "random/050", "gradient/050"):
        found, wanted = (runs / name / "seed0" for runs in (killed, whole))
        torch.testing.assert_close(weights(found), weights(wanted), rtol=0, atol=0)
        left, right = (
            numbers(run / "results.csv").drop(columns="checkpoint") for run in (found, wanted)
        )  # its file holds times
        pd.testing.assert_frame_equal(left, right, check_exact=True)
    for name in ("random/050", "gradient/050"):
        assert erased(killed / "seed0", name) == erased(whole / "seed0", name)
