"""Chains of runs: the order of their stages, the data of each stage, and the time that the rest takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lightning_xai.chains.erasure_pass import read_complete
from lightning_xai.data.module import TextDataModule
from lightning_xai.runs.folder import OLD_RUN, RunFolder
from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.settings import ERASURE, ERASURES, changed_settings
from lightning_xai.runs.store import read_json, write_json

ROOT = "root"  # what --stage calls the first run
BY_STAGE = ("experiment", ERASURES, ERASURE)  # settings in which stages differ


@dataclass(frozen=True)
class Stage:
    """One run of a chain.

    Attributes:
        name: its folder under the chain's, "gradient/030"; "" for the root, the first run.
        title: its name for a person.
        group: stages that take about as long as one another.
        erasures: name of the erasures that it trains on; "" for none.
        erasure: what the data module does to erased tokens.
        writer: name of the stage that writes these erasures, "" for the root.
        config: configuration that is read over the command's own; None for none.

    Example:
        >>> Stage("gradient/030", "gradient, 30 %", "gradient", erasures="gradient/030").erasure
        'mask'
    """

    name: str
    title: str
    group: str
    erasures: str = ""
    erasure: str = "mask"
    writer: str = ""
    config: str | None = None


@dataclass(frozen=True)
class Chain:
    """Stages in their order and the folder of the first one's run.

    The run of stage "gradient/030" of the root runs/roar/seed0 is runs/roar/gradient/030/seed0. All erasures lie in the
    root's folder, whichever stage wrote them.

    Example:
        >>> stages = [Stage("", "full text", "root"), Stage("gradient/030", "gradient, 30 %", "gradient")]
        >>> chain = Chain(RunFolder(Path("runs/roar/seed0")), stages)
        >>> chain.run(stages[1]).path.as_posix(), chain.erasures("gradient/030").as_posix()
        ('runs/roar/gradient/030/seed0', 'runs/roar/seed0/erasures/gradient/030')
    """

    root: RunFolder
    stages: Sequence[Stage]

    @classmethod
    def of_run(cls, run: Path, stages: Sequence[Stage]) -> tuple[Chain, Stage]:
        """Returns the chain that a run's folder belongs to, and the run's stage."""
        for stage in stages[1:]:
            parts = Path(stage.name).parts
            if run.parts[-len(parts) - 1 : -1] == parts:
                root = RunFolder(run.parents[len(parts)] / run.name)
                if root.has_begun:  # else the experiment of a root ends like the name of a stage
                    return cls(root, stages), stage
        return cls(RunFolder(run), stages), stages[0]

    def run(self, stage: Stage) -> RunFolder:
        return RunFolder(self.root.path.parent / stage.name / self.root.path.name)

    def erasures(self, name: str) -> Path:
        return self.root.erasures_dir / name

    def stage(self, name: str) -> Stage:
        """Returns the stage of that name, "root" for the first one.

        Raises:
            ValueError: there is none; the names of all stages are listed.
        """
        by_name = {stage.name or ROOT: stage for stage in self.stages}
        if name not in by_name:
            raise ValueError(f"the chain has no stage {name!r}: choose one of {', '.join(by_name)}")
        return by_name[name]

    def unfinished(self) -> list[Stage]:
        return [stage for stage in self.stages if not self.run(stage).is_finished]

    def begin(self, stage: Stage, data: TextDataModule, *, writes: bool = True) -> None:
        """Writes down which erasures the run of a stage trains on, before it does.

        Args:
            data: the run's data.
            writes: whether this process is the one that writes files.

        Raises:
            ValueError: the run's data are not the stage's (the remedy is named), its erasures are missing, or they
                have changed since a run that is to be resumed began.
        """
        run = self.run(stage)
        if not stage.erasures:
            if data.erasures is not None:
                raise ValueError(
                    f"{run.path} begins a chain, in which nothing is erased, but erasures is {data.erasures}: run the "
                    "first stage of that chain first, or set erasures to null"
                )
            return
        folder, facts = self.erasures(stage.erasures), self._erasure_facts(stage)
        if data.erasures is None or Path(data.erasures).resolve() != folder.resolve() or data.erasure != stage.erasure:
            raise ValueError(
                f"{run.path} trains on {folder} by {stage.erasure}, but erasures is {data.erasures} by {data.erasure}: "
                f"add {' '.join(self._data_overrides(stage))}"
            )
        self._check_settings(stage)
        if run.holds_work:
            self._check_trained_on(stage)
        elif writes:
            write_json(run.trained_on_file, with_format(facts))

    def check_finished(self) -> None:
        """Raises ValueError if a finished run has other settings than the root, or trained on other erasures.

        Such a run is of another root, one that was removed or that another command has trained.
        """
        for stage in self.stages[1:]:
            if self.run(stage).is_finished:
                self._check_settings(stage)
                if read_complete(self.erasures(stage.erasures)) is not None:  # else removed, as they take room
                    self._check_trained_on(stage)

    def _erasure_facts(self, stage: Stage) -> dict[str, Any]:
        """Returns facts about the erasures of a stage, all of which are there."""
        folder = self.erasures(stage.erasures)
        facts = read_complete(folder)
        if facts is None:
            writer = self.run(self.stage(stage.writer or ROOT)).path
            raise ValueError(
                f"{folder} is missing or unfinished: run {writer} first, and if it is finished already, remove it and "
                "run it again"
            )
        return facts

    def _check_trained_on(self, stage: Stage) -> None:
        run, facts = self.run(stage), self._erasure_facts(stage)
        file = run.trained_on_file
        trained_on = without_format(read_json(file), run.path, OLD_RUN) if file.exists() else None
        if trained_on != facts:
            raise ValueError(
                f"{run.path} trained on other erasures ({trained_on}) than those that {self.erasures(stage.erasures)} "
                f"has now ({facts}): remove that run, and all others of an earlier {self.root.path}, or name another "
                "--experiment"
            )

    def _check_settings(self, stage: Stage) -> None:
        # a stage with a configuration may change all settings of the root, so it is compared with others that have it
        alike = (self.run(other) for other in self.stages if other.config == stage.config)
        first, run = next((run for run in alike if run.has_begun), self.root), self.run(stage)
        before, now = first.settings, run.settings
        if not before or not now:
            return
        changed = [name for name in changed_settings(before, now) if name not in BY_STAGE]
        if changed:
            shown = "; ".join(f"{name} is {before.get(name)!r} and {now.get(name)!r}" for name in changed[:3])
            raise ValueError(
                f"{first.path} and {run.path} have other settings ({shown}): remove the wrong run, or name another "
                "--experiment"
            )

    def _data_overrides(self, stage: Stage) -> list[str]:
        return [f"--{ERASURES}={self.erasures(stage.erasures)}", f"--{ERASURE}={stage.erasure}"]

    def overrides(self, stage: Stage) -> list[str]:
        """Returns the command-line arguments that turn the command of any stage after the root into that of this one.

        Raises:
            ValueError: the stage's erasures are missing.
        """
        data = []
        if stage.erasures:
            self._erasure_facts(stage)
            data = self._data_overrides(stage)
        experiment = (self.root.settings or {})["experiment"]
        # first, since the arguments after it replace what it sets
        config = ["--config", stage.config] if stage.config is not None else []
        # a checkpoint that the root was to start from is none for the others
        named = [f"--experiment={experiment}/{stage.name}", f"--runs_dir={self.root.runs_dir}", "--ckpt_path=null"]
        return [*config, *named, *data]

    def minutes_left(self) -> float | None:
        """Returns an estimate of the minutes that unfinished stages take, or None before any stage is finished.

        A stage is expected to take the median of the finished stages of its group, or else of all finished stages.
        """
        seconds: dict[str, list[float]] = {}
        for stage in self.stages:
            facts = self.run(stage).manifest
            if facts["status"] == "finished" and "seconds" in facts:
                seconds.setdefault(stage.group, []).append(facts["seconds"])
        known = [value for values in seconds.values() for value in values]
        if not known:
            return None
        return sum(median(seconds.get(stage.group, known)) for stage in self.unfinished()) / 60

    def progress(self, stage: Stage, name: str) -> str:
        """Returns a line such as "ROAR stage 7 of 38: gradient, 30 %, about 12 min left"."""
        left = self.minutes_left()
        known = "" if left is None else f", about {left:.0f} min left" if left >= 1 else ", under 1 min left"
        return f"{name} stage {self.stages.index(stage) + 1} of {len(self.stages)}: {stage.title}{known}"


def check_names(kind: str, names: Sequence[str], *, taken: Sequence[str]) -> None:
    """Raises ValueError unless there are names, each of which can be a folder beside the root's runs.

    Example:
        >>> check_names("methods", ["gradient"], taken=["random"])
    """
    wrong = [n for n in names if n in taken or not re.fullmatch(r"\w[\w .+-]*", n) or re.fullmatch(r"seed\d+", n)]
    if wrong or not names:
        raise ValueError(
            f"{kind} are {list(names)}: give one or more, named in letters, digits, spaces and _ . + - without a "
            f"slash, and not seed... or {', '.join(taken)}"
        )
