"""Chains of runs: which stage comes next, what it rests on, and how long the rest takes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lightning import Trainer

from lightning_xai.callbacks.base import FollowUp, NamesExperiment
from lightning_xai.runs.store import write_json

ERASED = ("experiment", "data.init_args.erasures", "data.init_args.erasure")  # settings in which stages differ


@dataclass(frozen=True)
class Stage:
    """One run of a chain.

    Attributes:
        name: its folder under the chain's, "gradient/030"; "" for the root, the first run.
        title: what a person reads.
        group: stages that take about as long as one another.
        erasures: name of the erasures that it trains on; "" for none.
        erasure: what is done with them, see the data module.
        writer: name of the stage that writes them, "" for the root.
        config: configuration that is read over the command's own; None for none.
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

    The run of stage "gradient/030" of the root runs/roar/seed0 is runs/roar/gradient/030/seed0. Erasures lie in the
    root's folder, so that a stage finds them without knowing which one wrote them.
    """

    root: Path
    stages: Sequence[Stage]

    @classmethod
    def of_run(cls, run: Path, stages: Sequence[Stage]) -> tuple[Chain, Stage]:
        """Returns the chain to which a run's folder belongs, and the stage that it is."""
        for stage in stages[1:]:
            parts = Path(stage.name).parts
            if run.parts[-len(parts) - 1 : -1] == parts:
                root = run.parents[len(parts)] / run.name
                if manifest(root):  # else the root's own experiment has the name of a stage
                    return cls(root, stages), stage
        return cls(run, stages), stages[0]

    def run(self, stage: Stage) -> Path:
        return self.root.parent / stage.name / self.root.name

    def erasures(self, name: str) -> Path:
        return self.root / "erasures" / name

    def unfinished(self) -> list[Stage]:
        return [stage for stage in self.stages if manifest(self.run(stage)).get("status") != "finished"]

    def begin(self, stage: Stage, trainer: Trainer) -> None:
        """Writes down which erasures the run of a stage trains on, before it does.

        Raises:
            ValueError: the run is not as the chain needs it; says how it can be.
        """
        chains = [type(callback).__name__ for callback in trainer.callbacks if isinstance(callback, FollowUp)]
        if len(chains) > 1:
            raise ValueError(f"{' and '.join(chains)} are chains of runs: give each a command of its own")
        if not all(c.tests_after_fit for c in trainer.callbacks if isinstance(c, NamesExperiment)):
            raise ValueError("test_after_fit is false, but a chain rests on its tests: set it to true")
        data, run = trainer.datamodule, self.run(stage)
        if not stage.erasures:
            if data.erasures is not None:
                raise ValueError(
                    f"{run} begins a chain, in which nothing is erased, but erasures is {data.erasures}: run the first "
                    "stage of that chain first, or set erasures to null"
                )
            return
        folder, facts = self.erasures(stage.erasures), self._facts(stage)
        if data.erasures is None or Path(data.erasures).resolve() != folder.resolve() or data.erasure != stage.erasure:
            raise ValueError(
                f"{run} trains on {folder} by {stage.erasure}, but erasures is {data.erasures} by {data.erasure}: add "
                f"{' '.join(self._data(stage))}"
            )
        self._check_settings(stage)
        begun = (run / "checkpoints" / "last.ckpt").exists()
        if begun or manifest(run).get("status") == "finished":
            self._check_erasures(stage)
        elif trainer.is_global_zero:
            write_json(run / "erasures.json", facts)

    def check_finished(self) -> None:
        """Raises ValueError if a finished run has other settings than the root, or trained on erasures not there now.

        Such a run is of another root, one that was removed or that another command has trained.
        """
        for stage in self.stages[1:]:
            if manifest(self.run(stage)).get("status") == "finished":
                self._check_settings(stage)
                if (self.erasures(stage.erasures) / "complete.json").exists():  # else removed, as they take room
                    self._check_erasures(stage)

    def _facts(self, stage: Stage) -> dict[str, Any]:
        file = self.erasures(stage.erasures) / "complete.json"
        if not file.exists():
            writer = next(other for other in self.stages if other.name == stage.writer)
            raise ValueError(
                f"{file.parent} is missing or unfinished: run {self.run(writer)} first, and if it is finished already, "
                "remove it and run it again"
            )
        return json.loads(file.read_text())

    def _check_erasures(self, stage: Stage) -> None:
        run, facts = self.run(stage), self._facts(stage)
        file = run / "erasures.json"
        found = json.loads(file.read_text()) if file.exists() else None
        if found != facts:
            raise ValueError(
                f"{run} trained on other erasures ({found}) than those that {self.erasures(stage.erasures)} has now "
                f"({facts}): remove that run, and all others of an earlier {self.root}, or name another --experiment"
            )

    def _check_settings(self, stage: Stage) -> None:
        # a configuration of its own may change everything that the root has, so its runs are compared with one another
        like = (self.run(other) for other in self.stages if other.config == stage.config)
        first = next(filter(manifest, like), self.root)
        other, own = (manifest(run).get("settings", {}) for run in (first, self.run(stage)))
        if not other or not own:
            return
        changed = [key for key in sorted({*other, *own}) if key not in ERASED and other.get(key) != own.get(key)]
        if changed:
            shown = "; ".join(f"{key} is {other.get(key)!r} and {own.get(key)!r}" for key in changed[:3])
            raise ValueError(
                f"{first} and {self.run(stage)} have other settings ({shown}): remove the wrong run, or name another "
                "--experiment"
            )

    def _data(self, stage: Stage) -> list[str]:
        folder = self.erasures(stage.erasures)
        return [f"--data.init_args.erasures={folder}", f"--data.init_args.erasure={stage.erasure}"]

    def overrides(self, stage: Stage, trainer: Trainer) -> list[str]:
        """Returns the command-line arguments that make the command of any other stage that of this one.

        Raises:
            ValueError: the stage's erasures are missing, though all stages before it are finished.
        """
        experiment = self._experiment(trainer)
        runs_dir = self.root.parents[len(Path(experiment).parts)]
        # a checkpoint from which the root was to start is none for the others
        found = ["--config", stage.config] if stage.config is not None else []  # first, for what it sets is replaced
        found += [f"--experiment={experiment}/{stage.name}", f"--runs_dir={runs_dir}", "--ckpt_path=null"]
        if stage.erasures:
            self._facts(stage)
            found += self._data(stage)
        return found

    def _experiment(self, trainer: Trainer) -> str:
        """Returns the root's experiment."""
        named = next(callback.experiment for callback in trainer.callbacks if isinstance(callback, NamesExperiment))
        _, current = self.of_run(Path(trainer.default_root_dir), self.stages)
        return named.removesuffix(f"/{current.name}") if current.name else named

    def minutes_left(self) -> float | None:
        """Returns an estimate from the finished stages, those of a group for their like; None before the first."""
        seconds: dict[str, list[float]] = {}
        for stage in self.stages:
            facts = manifest(self.run(stage))
            if facts.get("status") == "finished" and "seconds" in facts:
                seconds.setdefault(stage.group, []).append(facts["seconds"])
        known = [value for values in seconds.values() for value in values]
        if not known:
            return None
        return sum(median(seconds.get(stage.group, known)) for stage in self.unfinished()) / 60

    def progress(self, stage: Stage, name: str) -> str:
        """Returns "ROAR stage 7 of 38: gradient, 30 %, about 12 min left"."""
        left = self.minutes_left()
        known = "" if left is None else f", about {left:.0f} min left" if left >= 1 else ", under 1 min left"
        return f"{name} stage {self.stages.index(stage) + 1} of {len(self.stages)}: {stage.title}{known}"


def manifest(run: Path) -> dict[str, Any]:
    """Returns what a run's folder says of it, {} before it began."""
    file = run / "manifest.json"
    return json.loads(file.read_text()) if file.exists() else {}


def check_names(kind: str, names: Sequence[str], *, taken: Sequence[str]) -> None:
    """Raises ValueError unless there are names, each of which can be that of a folder beside the root's runs."""
    wrong = [n for n in names if n in taken or not re.fullmatch(r"\w[\w .+-]*", n) or re.fullmatch(r"seed\d+", n)]
    if wrong or not names:
        raise ValueError(
            f"{kind} are {list(names)}: give one or more, named in letters, digits, spaces and _ . + - without a "
            f"slash, and not seed... or {', '.join(taken)}"
        )
