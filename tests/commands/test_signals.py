"""SIGTERM, SIGINT and a closed pipe end a command without a traceback; after the signals, the run can go on."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lightning_xai.commands.main import main
from lightning_xai.commands.signals import ending_in_one_line
from lightning_xai.runs.folder import RunFolder
from tests.commands.conftest import PRELOADED, save, tiny_config
from tests.runs.processes import WAIT_SECONDS


def run_logged(argv: list[str], log: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout = sys.stderr = log.open("w", buffering=1)
    main(argv)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.slow
def test_fit_ends_in_one_line_with_a_checkpoint_to_go_on_from(tmp_path, number, code):
    config = save(tiny_config(max_epochs=4000, callbacks=[]), tmp_path / "tiny.yaml")
    run, log = tmp_path / "runs" / "tiny" / "seed0", tmp_path / "log"
    argv = ["fit", "--config", config, "--runs_dir", str(tmp_path / "runs")]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=run_logged, args=(argv, log))
    process.start()
    deadline = time.monotonic() + WAIT_SECONDS
    while not (run / "checkpoints" / "last.ckpt").exists():
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join(timeout=WAIT_SECONDS)
    assert process.exitcode == code
    printed = log.read_text()
    assert f"ended by {number.name}: the same command continues" in printed and "Traceback" not in printed
    assert not list(run.glob("*.lock")) and not list(run.rglob("*.partial"))
    assert RunFolder(run).checkpoint("last") is not None and not RunFolder(run).is_finished


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_outside_the_trainer_is_one_line_and_handlers_are_restored(capsys, number, code):
    # a shell starts background jobs with SIGINT ignored
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as caught, ending_in_one_line():
            signal.raise_signal(number)
        assert caught.value.code == code
        assert capsys.readouterr().err.splitlines() == [
            f"ended by {number.name}: the same command continues a fit after its last finished epoch, if there is one"
        ]
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    finally:
        signal.signal(signal.SIGINT, inherited)


def test_other_exits_keep_their_code():
    with pytest.raises(SystemExit) as caught, ending_in_one_line():
        raise SystemExit("error: lr is -1")
    assert caught.value.code == "error: lr is -1"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("explain", "starts again from the beginning"),
        ("search", "continues the search with its unfinished trial"),
    ],
)
def test_what_the_same_command_does_next_is_said(capsys, command, what):
    with pytest.raises(SystemExit), ending_in_one_line(command):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == f"ended by SIGINT: the same command {what}\n"


@pytest.mark.slow
def test_an_output_that_nobody_reads_any_more_ends_the_command_without_a_traceback():
    code = (
        "import lightning_xai.commands.execution as execution; from lightning_xai.commands.main import main; "
        "execution.carry_out = lambda argv: [print('x' * 10_000) for _ in range(100)]; main(['explain', '--ckpt', 'x'])"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 1
