"""Two processes give the numbers of one, end a chain, and do not hang after an error; they can be killed together."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from lightning_xai.commands.main import main
from lightning_xai.runs.folder import RunFolder
from tests.commands.conftest import (
    ERASER,
    HEATMAPS,
    METHODS,
    PRELOADED,
    ROOT,
    changed,
    command,
    numbers,
    save,
    tiny_config,
    weights,
)
from tests.commands.test_chain import chain_config, status
from tests.runs.processes import WAIT_SECONDS, owner_of

TWO = ["--trainer.devices", "2", "--trainer.strategy", "ddp"]


def run_script(*argv, cwd: Path) -> subprocess.CompletedProcess:
    """Runs run.py, which starts the second process itself, without the rank of this process in the environment."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LOCAL_RANK", "NODE_RANK")}
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *map(str, argv)],
        cwd=cwd, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=WAIT_SECONDS,
    )  # fmt: skip


def one_rank(rank: int, port: int, argv: list[str], log: Path) -> None:
    """Runs one of two processes as torchrun or SLURM would start it, and writes its output to a file."""
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test",
    }  # fmt: skip
    sys.stdout = sys.stderr = log.open("w", buffering=1)
    main(argv)


def passes(file: Path) -> pd.DataFrame:
    return pd.read_csv(file)[["forward_passes", "backward_passes"]]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def preloaded() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def log_files(folder: Path) -> list[Path]:
    return [folder / f"rank{rank}.log" for rank in range(2)]


def run_ranks(*argv, folder: Path) -> tuple[list[int | None], list[str]]:
    """Returns exit codes and outputs of a command on two processes that are started from outside."""
    port, context, logs, arguments = free_port(), preloaded(), log_files(folder), list(map(str, argv))
    processes = [context.Process(target=one_rank, args=(rank, port, arguments, logs[rank])) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=WAIT_SECONDS)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes, [log.read_text() for log in logs]


def group_of_ranks(port: int, argv: list[str], logs: list[Path]) -> None:
    """Runs both processes in a process group of their own, so that one signal reaches both."""
    os.setsid()
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=one_rank, args=(rank, port, argv, logs[rank])) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def kill_ranks_when(happened: Callable[[], bool], argv: list[str], folder: Path) -> None:
    """Starts a command on two processes and kills both at once as soon as something has happened."""
    logs = log_files(folder)
    group = preloaded().Process(target=group_of_ranks, args=(free_port(), argv, logs))
    group.start()
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while not happened():
            assert group.is_alive() and time.monotonic() < deadline, [log.read_text() for log in logs if log.exists()]
            time.sleep(0.002)
    finally:
        if group.is_alive():
            assert group.pid is not None
            try:
                os.killpg(group.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has not made its process group yet
                group.kill()
        group.join()
    assert group.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_two_processes_on_seven_examples_write_the_numbers_of_one(run_copy, tmp_path):
    single = ["--data.init_args.eval_batch_size", "1"]  # seven batches on two processes: one is repeated
    command("test", "--config", run_copy / "config.yaml", *single)
    (results,) = run_copy.glob("results_*.csv")  # another eval_batch_size is another evaluation
    one, passes_of_one = numbers(results), passes(results)
    page = (run_copy / "heatmaps" / "test.html").read_text()
    results.unlink()
    finished = run_script("test", "--config", run_copy / "config.yaml", *single, *TWO, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr[-2000:]
    pd.testing.assert_frame_equal(numbers(results), one, check_exact=True)
    pd.testing.assert_frame_equal(passes(results), passes_of_one, check_exact=True)
    assert (run_copy / "heatmaps" / "test.html").read_text() == page
    assert finished.stdout.count("classification") == 1


@pytest.mark.slow
def test_chain_on_two_processes_ends_with_its_results(tmp_path):
    config = chain_config(tmp_path)
    short = ["--trainer.max_epochs", "2", *TWO]
    codes, outputs = run_ranks("fit", "--config", config, "--runs_dir", tmp_path / "runs", *short, folder=tmp_path)
    assert codes == [0, 0], outputs
    for name in ("student", "student_teacher"):
        run = tmp_path / "runs" / name / "seed0"
        assert status(run) == "finished"
        rows = numbers(run / "results.csv").query("split == 'test' and preset == ''")
        assert set(rows["num_examples"]) == {7}
    assert [output.count("written: ") for output in outputs] == [2, 0]


@pytest.mark.slow
def test_two_processes_end_when_another_command_owns_the_folder(tmp_path):
    config = save(tiny_config(callbacks=[]), tmp_path / "tiny.yaml")
    run = RunFolder(tmp_path / "runs" / "tiny" / "seed0")
    with owner_of(run.lock_file) as (process, _):
        argv = ["fit", "--config", config, "--runs_dir", tmp_path / "runs", *TWO]
        codes, outputs = run_ranks(*argv, folder=tmp_path)
        assert codes == [1, 1]
        assert all(f"{run.path} belongs to process {process.pid}" in output for output in outputs)
        assert [path.name for path in run.path.iterdir()] == ["owner.lock"]


@pytest.mark.slow
def test_error_on_two_processes_ends_both_with_its_line(tmp_path):
    config = tiny_config(callbacks=[METHODS, ERASER, HEATMAPS])
    changed("data.init_args.extra_test_splits", ["tset"])(config)
    argv = ["fit", "--config", save(config, tmp_path / "tiny.yaml"), "--runs_dir", tmp_path / "runs", *TWO]
    codes, outputs = run_ranks(*argv, folder=tmp_path)
    assert codes == [1, 1]
    assert "there is no split 'tset'" in outputs[0]
    assert not any("Traceback" in output for output in outputs)


@pytest.mark.slow
def test_preflight_changes_no_number_on_two_processes_or_after_a_kill(tmp_path):
    config = save(tiny_config(callbacks=[METHODS, ERASER], max_epochs=4), tmp_path / "tiny.yaml")
    measured, trained = {}, {}
    for name, preflight, is_killed in (("with", True, False), ("without", False, False), ("killed", True, True)):
        run = tmp_path / name / "tiny" / "seed0"
        argv = ["fit", "--config", config, "--runs_dir", str(tmp_path / name), *TWO, "--preflight", str(preflight)]
        if is_killed:
            kill_ranks_when((run / "checkpoints" / "last.ckpt").exists, argv, tmp_path)
        codes, outputs = run_ranks(*argv, folder=tmp_path)
        assert codes == [0, 0], outputs
        measured[name] = numbers(run / "results.csv").drop(columns="checkpoint")  # its hash covers the path of the run
        trained[name] = weights(run)["last"]
    for name in ("with", "killed"):
        pd.testing.assert_frame_equal(measured[name], measured["without"], check_exact=True)
        assert all(torch.equal(value, trained["without"][key]) for key, value in trained[name].items())
