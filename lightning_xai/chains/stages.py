"""Chains of runs: which stage follows which, on which data each stage trains, and how much time remains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_xai.chains.erasure_pass import read_complete
from lightning_xai.chains.time_left import seconds_left, stage_time
from lightning_xai.data.module import TextDataModule
from lightning_xai.runs.evaluation_settings import changed_evaluation, changed_training
from lightning_xai.runs.experiment import name_of_experiment
from lightning_xai.runs.files.whole_files import read_json, write_json
from lightning_xai.runs.folder import OLD_RUN, RunFolder
from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.run_state import is_evaluated_with
from lightning_xai.runs.settings import ERASURE, ERASURES

ROOT = "root"  # name of the first stage in the option --stage
BY_STAGE = (ERASURES, ERASURE)  # settings that may differ between stages


@dataclass(frozen=True)
class Stage:
    """One run of a chain. If tokens of its data are erased, an earlier stage has chosen and stored which tokens.

    Attributes:
        name: folder of the stage below the root's experiment, such as "gradient/030"; "" for the root, the first stage.
        title: name of the stage in messages.
        group: name of a group of stages that take about the same time.
        erasures: name of the folder that stores which tokens are erased; "" if nothing is erased.
        removal: how the data module removes erased tokens: "mask", "delete" or "positions" (see `remove_tokens`).
        writer: name of the stage that chooses and stores the erased tokens; "" if the root does this.
        config: configuration file whose settings override those of the command; None if the stage has no such file.

    Example:
        >>> Stage("gradient/030", "gradient, 30 %", "gradient", erasures="gradient/030").removal
        'mask'
    """

    name: str
    title: str
    group: str
    erasures: str = ""
    removal: str = "mask"
    writer: str = ""
    config: str | None = None


ScoresWith = Callable[[Stage], Sequence[str]]  # stage -> methods whose scores decide what later stages erase


@dataclass(frozen=True)
class Chain:
    """The stages of a chain in order, and the folder of the root's run.

    If the root is runs/roar/seed0, the run of stage "gradient/030" is runs/roar/gradient/030/seed0. All stages store
    in the root's folder which tokens they have chosen to erase.

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
        """Returns the chain to which a run's folder belongs, and the run's stage in this chain."""
        for stage in stages[1:]:
            root = RunFolder(run).root_of_stage(stage.name)
            # if no root has begun there, `run` is a root itself, and its folder has a stage's name only by chance
            if root is not None and root.has_begun:
                return cls(root, stages), stage
        return cls(RunFolder(run), stages), stages[0]

    def run(self, stage: Stage) -> RunFolder:
        return self.root.stage(stage.name)

    def erasures(self, name: str) -> Path:
        return self.root.erasures_dir / name

    def stage(self, name: str) -> Stage:
        """Returns the stage with a given name; "root" is the first stage.

        Raises:
            ValueError: there is no such stage; the message lists the names of all stages.
        """
        by_name = {stage.name or ROOT: stage for stage in self.stages}
        if name not in by_name:
            raise ValueError(f"the chain has no stage {name!r}: choose one of {', '.join(by_name)}")
        return by_name[name]

    def unfinished(self, current: Stage | None = None) -> list[Stage]:
        """Returns the stages that are unfinished, or whose tests used other evaluation settings than required.

        Stages without a configuration file of their own (`config`) must use the evaluation settings of the root. Stages
        with the same `config` must use the same settings: those of `current` if it has this `config`, otherwise those
        of the first run with this `config`.

        Args:
            current: the stage that has just run, if any.
        """
        return [stage for stage in self.stages if not self._is_done(stage, current)]

    def _is_done(self, stage: Stage, current: Stage | None) -> bool:
        run = self.run(stage)
        if not run.is_finished or not stage.name:
            return run.is_finished
        alike_now = current if current is not None and stage.config == current.config else None
        alike = self._first_alike(stage) if alike_now is None else self.run(alike_now)
        settings = (self.root if stage.config is None else alike).settings
        return not settings or not run.settings or is_evaluated_with(run, settings)

    def _first_alike(self, stage: Stage) -> RunFolder:
        """Returns the first run that has begun and has the `config` of `stage`; if there is none, the root's run."""
        alike = (self.run(other) for other in self.stages if other.config == stage.config)
        return next((run for run in alike if run.has_begun), self.root)

    def awaits(self, current: Stage) -> bool:
        """Returns whether an unfinished stage needs erasures that `current` has not stored completely."""
        needed = [stage for stage in self.unfinished(current) if stage.erasures and stage.writer == current.name]
        return any(read_complete(self.erasures(stage.erasures)) is None for stage in needed)

    def to_compare(self, current: Stage) -> list[Stage]:
        """Returns a list with the first stage that has its own configuration file (`config`).

        The chain runs the command of this stage again, which checks whether the file has changed. The list is empty if
        no stage has a `config`, or if `current` has one, because its command has just made this check.
        """
        return [stage for stage in self.stages if stage.config is not None and current.config is None][:1]

    def begin(self, stage: Stage, data: TextDataModule, *, writes: bool = True) -> None:
        """Checks that the run of a stage may start, and records how the erased tokens of its data were chosen.

        Args:
            stage: the stage.
            data: data of the stage's run.
            writes: whether this process writes files.

        Raises:
            ValueError: the data are not the stage's data (the message gives the remedy), the settings differ from those
                of other stages, or the stored choice of erased tokens is missing or has changed since the run first
                started.
        """
        run = self.run(stage)
        if not stage.erasures:
            if data.erasures is not None:
                raise ValueError(
                    f"{run.path} begins a chain, so no tokens of its data may be erased, but `erasures` is "
                    f"{data.erasures}: set it to null, or run the first stage of the chain that wrote this file"
                )
            return
        folder, facts = self.erasures(stage.erasures), self._erasure_facts(stage)
        if data.erasures is None or Path(data.erasures).resolve() != folder.resolve() or data.erasure != stage.removal:
            raise ValueError(
                f"{run.path} needs erasures={folder} and erasure={stage.removal}, but has erasures={data.erasures} "
                f"and erasure={data.erasure}: add {' '.join(self._data_overrides(stage))}"
            )
        self._check_settings(stage)
        if writes:  # only the process that wrote the new settings is sure to read them; others may read old ones
            self._check_evaluation(stage)
        if run.holds_work:
            self._check_trained_on(stage)
        elif writes:
            write_json(run.trained_on_file, with_format(facts))

    def check_finished(self) -> None:
        """Raises ValueError if a finished run does not belong to the chain, or if the root's last evaluation failed.

        A run does not belong to the chain if the stored choice of erased tokens has changed since the run's training,
        or if its settings differ from those of the first run with the same configuration file. Such a run belongs to
        another root, which was removed or which another command trained. After a failed evaluation, the root has only
        the results of an earlier evaluation.
        """
        root = self.root
        if root.is_finished and root.is_tested and not is_evaluated_with(root, root.settings or {}):
            raise ValueError(f"{root.path} has no results of its last evaluation: run --stage {ROOT} first")
        for stage in self.stages[1:]:
            if self.run(stage).is_finished:
                self._check_settings(stage)
                if read_complete(self.erasures(stage.erasures)) is not None:  # None if a user removed the folder
                    self._check_trained_on(stage)

    def _erasure_facts(self, stage: Stage) -> dict[str, Any]:
        """Returns how the erased tokens of a stage's data were chosen (method, hash of the network's weights, ...).

        Raises:
            ValueError: the choice of tokens is missing or incomplete.
        """
        folder = self.erasures(stage.erasures)
        facts = read_complete(folder)
        if facts is None:
            name = stage.writer or ROOT
            writer = self.run(self.stage(name))
            if writer.missed_its_bounds:
                raise ValueError(
                    f"no epoch of {writer.path} met its bounds, so it has no checkpoint that could choose tokens: set "
                    "looser bounds, and choose another --experiment"
                )
            raise ValueError(
                f"{folder} is missing or unfinished: run {writer.path} first (--stage {name}). If "
                "that run is finished, it is tested again, but not trained again"
            )
        return facts

    def _check_trained_on(self, stage: Stage) -> None:
        run, facts = self.run(stage), self._erasure_facts(stage)
        file = run.trained_on_file
        trained_on = without_format(read_json(file), run.path, OLD_RUN) if file.exists() else None
        if trained_on != facts:
            raise ValueError(
                f"{run.path} trained on other erasures ({trained_on}) than {self.erasures(stage.erasures)} holds now "
                f"({facts}): remove that run and all other stages of the earlier chain of {self.root.path}, "
                "or choose another --experiment"
            )

    def _check_settings(self, stage: Stage) -> None:
        first, run = self._first_alike(stage), self.run(stage)
        if not first.settings or not run.settings:
            return
        changed = changed_training(first.settings, run.settings)
        if different := [name for name in changed if name not in BY_STAGE]:
            shown = "; ".join(f"{name} is {changed[name][0]!r} and {changed[name][1]!r}" for name in different[:3])
            raise ValueError(
                f"{first.path} and {run.path} have different settings ({shown}): remove the wrong run, or choose "
                "another --experiment"
            )

    def _check_evaluation(self, stage: Stage) -> None:
        root, now = self.root.settings, self.run(stage).settings
        if stage.config is None and root and now and (changed := changed_evaluation(root, now)):
            raise ValueError(
                f"{self.root.path} was evaluated with other settings ({', '.join(changed[:3])}) than this stage: first "
                f"run --stage {ROOT} with the settings of this stage"
            )

    def _data_overrides(self, stage: Stage) -> list[str]:
        return [f"--{ERASURES}={self.erasures(stage.erasures)}", f"--{ERASURE}={stage.removal}"]

    def overrides(self, stage: Stage) -> list[str]:
        """Returns the options with which the chain's command runs a stage other than the root.

        Raises:
            ValueError: the root has not started, or the stored choice of the stage's erased tokens is missing.
        """
        if not self.root.has_begun:
            raise ValueError(f"the chain has not begun: run --stage {ROOT} first, which trains {self.root.path}")
        data = []
        if stage.erasures:
            self._erasure_facts(stage)
            data = self._data_overrides(stage)
        experiment = name_of_experiment(self.root)
        # --config comes first, so that the arguments after it override its settings
        config = ["--config", stage.config] if stage.config is not None else []
        # --ckpt_path=null, because only the root may start from a given checkpoint
        named = [f"--experiment={experiment}/{stage.name}", f"--runs_dir={self.root.runs_dir}", "--ckpt_path=null"]
        return [*config, *named, *data]

    def minutes_left(self, current: Stage | None = None, scores_with: ScoresWith | None = None) -> float | None:
        """Returns the estimated minutes that the unfinished stages will take, or None if no stage is finished.

        Args:
            current: the stage that runs now.
            scores_with: function that returns the methods with which a stage scores tokens after its test, to choose
                the tokens to erase; None if no stage does so.
        """
        unfinished = self.unfinished(current)
        times = [
            stage_time(
                self.run(stage).manifest,
                stage.group,
                is_done=stage not in unfinished,
                scores_with=scores_with(stage) if scores_with is not None else [],
            )
            for stage in self.stages
        ]
        left = seconds_left(times)
        return None if left is None else left / 60

    def progress(self, stage: Stage, name: str, scores_with: ScoresWith | None = None) -> str:
        """Returns a line such as "ROAR stage 7 of 38: gradient, 30 %, about 12 min left", where `name` is "ROAR".

        For `scores_with`, see `minutes_left`.
        """
        left = self.minutes_left(stage, scores_with)
        known = "" if left is None else f", about {left:.0f} min left" if left >= 1 else ", under 1 min left"
        return f"{name} stage {self.stages.index(stage) + 1} of {len(self.stages)}: {stage.title}{known}"
