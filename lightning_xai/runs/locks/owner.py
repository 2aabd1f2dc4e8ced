"""Identifies the process that owns a lock, and checks whether that process is still running."""

from __future__ import annotations

import functools
import json
import os
import platform
import secrets
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

PROC = Path("/proc")
BOOT_ID = PROC / "sys/kernel/random/boot_id"
# environment variables that are the same in all processes of a launch and differ between launches
LAUNCH = (
    "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
    "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip


@dataclass(frozen=True)
class Owner:
    """Facts that identify a process across machines and containers.

    Attributes:
        host: name of the machine or container.
        boot: id of the kernel's current boot; "" if the system hides the id.
        namespace: PID namespace of `pid`. Two containers on one machine have different namespaces.
        pid: id of the process.
        started: start time of the process, in clock ticks since boot. It distinguishes processes with the same pid.
        token: random characters, which differ for each owner.
        command: the command line of the process.
        since: local time at which the process became the owner.
        launch: id that all processes of one distributed launch share; "" if no variable in LAUNCH is set.
        job, task: SLURM job and array task; "" where there is none.
        restarts: number of times that SLURM has restarted the job.

    Example:
        >>> process = Owner.of_this_process()
        >>> process.is_running(process), process.is_requeued(process)
        (True, False)
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str
    token: str
    command: str
    since: str
    launch: str = ""
    job: str = ""
    task: str = ""
    restarts: int = 0

    @classmethod
    def of_this_process(cls) -> Owner:
        """Returns the facts that identify this process, with a new token."""
        has_proc = _link(PROC / "self") == str(os.getpid())  # False if /proc shows another container's processes
        return cls(
            host=platform.node(),
            boot=BOOT_ID.read_text().strip() if has_proc and BOOT_ID.is_file() else "",
            namespace=_link(PROC / "self/ns/pid"),
            pid=os.getpid(),
            started=(_state_and_start(os.getpid()) or ("", ""))[1] if has_proc else "",
            token=secrets.token_hex(8),
            command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            since=datetime.now().isoformat(sep=" ", timespec="seconds"),
            launch=launch_id(),
            job=os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID", ""),
            task=os.environ.get("SLURM_ARRAY_TASK_ID", ""),
            restarts=int(os.environ.get("SLURM_RESTART_COUNT") or 0),
        )

    @classmethod
    def from_json(cls, text: bytes | str) -> Owner | None:
        """Returns the owner that a lock file names, or None if the file is incomplete.

        Example:
            >>> print(Owner.from_json(""))
            None
        """
        try:
            facts = json.loads(text)
            return cls(**{field.name: facts[field.name] for field in fields(cls)})
        except (ValueError, KeyError, TypeError):
            return None

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since} ({self.command})"

    def shares_processes_with(self, this_process: Owner) -> bool:
        """Returns whether owner and `this_process` see the same pids: one machine and container, no reboot since."""
        place = (self.host, self.boot, self.namespace)
        return all(place) and place == (this_process.host, this_process.boot, this_process.namespace)

    def is_running(self, this_process: Owner) -> bool | None:
        """Returns whether the owner is running; None if `this_process` cannot know, for example on another machine."""
        return process_runs(self.pid, self.started) if self.shares_processes_with(this_process) else None

    def is_requeued(self, this_process: Owner) -> bool:
        """Returns whether SLURM has restarted the owner's job, and `this_process` runs the same task of this job."""
        return (
            bool(self.job)
            and (self.job, self.task) == (this_process.job, this_process.task)
            and self.restarts < this_process.restarts
        )

    def leads(self, this_process: Owner) -> bool:
        """Returns whether the owner is the first process of the distributed command to which `this_process` belongs."""
        # with Lightning, the first process is the parent of the others
        is_parent = self.shares_processes_with(this_process) and self.pid == os.getppid()
        return is_parent or bool(self.launch) and self.launch == this_process.launch


@functools.cache  # cached, because Lightning later sets such variables in some processes
def launch_id() -> str:
    """Returns an id that all processes of a distributed launch share; "" if no environment variable in LAUNCH is set.

    Example:
        >>> launch_id() == launch_id()
        True
    """
    return launch_of(os.environ)


def launch_of(environment: Mapping[str, str]) -> str:
    """Returns the names and values of the variables in `environment` that LAUNCH lists, as one text.

    Example:
        >>> launch_of({"MASTER_ADDR": "node1", "MASTER_PORT": "29500", "HOME": "/root"})
        'MASTER_ADDR=node1 MASTER_PORT=29500'
    """
    return " ".join(f"{name}={environment[name]}" for name in LAUNCH if environment.get(name))


def process_runs(pid: int, started: str | None = None) -> bool | None:
    """Returns whether the process with the id `pid` is running; None if the system does not tell.

    Args:
        pid: id of the process.
        started: start time of the process. A process with the same id but another start time does not count. If
            `started` is None, any start time counts.

    Example:
        >>> process_runs(os.getpid(), started="0")  # another process had this number
        False
    """
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except PermissionError:  # the process belongs to another user
        pass
    process = _state_and_start(pid)
    if process is None:
        return None
    state, start = process
    return started in (None, start) and state not in "ZX"  # a zombie ("Z") has ended


def _state_and_start(pid: int) -> tuple[str, str] | None:
    """Returns the letter of a process's state, and its start time; None if /proc does not show the process."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()  # the program's name, in parentheses, may contain " " and ")"
    return after_name[0], after_name[19]


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
