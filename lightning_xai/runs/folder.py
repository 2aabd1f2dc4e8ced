"""A run's folder, `<runs_dir>/<experiment>/seed<N>/`: where its files lie, its manifest, and which runs it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.settings import changed_settings, hash_of_test_data
from lightning_xai.runs.store import read_json, write_json

OLD_RUN = (
    "name another --experiment, or use the version that wrote it; explain, evaluate.yaml and teachers still read its "
    "checkpoint"
)


@dataclass(frozen=True)
class RunFacts:
    """What a command knows about the run that it starts.

    Attributes:
        experiment: its name.
        seed: of all random draws.
        tests_after_fit: whether the command is a fit that ends with a test.
        settings: see `run_settings`.

    Example:
        >>> RunFacts("tm", seed=0).tests_after_fit
        False
    """

    experiment: str
    seed: int
    tests_after_fit: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run and the places of its files.

    Example:
        >>> run = RunFolder(Path("runs/tm/seed0"))
        >>> run.config_file.as_posix(), run.checkpoint("best"), run.is_finished
        ('runs/tm/seed0/config.yaml', None, False)
    """

    path: Path

    @property
    def manifest_file(self) -> Path:
        return self.path / "manifest.json"

    @property
    def config_file(self) -> Path:
        """The configuration that repeats the run."""
        return self.path / "config.yaml"

    @property
    def results_file(self) -> Path:
        """The table of the run's test."""
        return self.path / "results.parquet"

    @property
    def is_tested(self) -> bool:
        return self.results_file.exists()

    @property
    def checkpoints_dir(self) -> Path:
        return self.path / "checkpoints"

    @property
    def heatmaps_dir(self) -> Path:
        """A page of heatmaps for each split."""
        return self.path / "heatmaps"

    @property
    def attributions_dir(self) -> Path:
        """Stored scores, `<split>/<method>`."""
        return self.path / "attributions"

    @property
    def stability_dir(self) -> Path:
        """Comparisons with the attributions of other runs."""
        return self.path / "stability"

    @property
    def erasures_dir(self) -> Path:
        """Erasures that later runs of a chain train on, `<name>/<split>`."""
        return self.path / "erasures"

    @property
    def trained_on_file(self) -> Path:
        """Facts about the erasures that the run itself trains on."""
        return self.path / "erasures.json"

    @property
    def roar_file(self) -> Path:
        """Scores of all runs of a ROAR chain, in the folder of its first run."""
        return self.path / "roar.csv"

    @property
    def fresh_file(self) -> Path:
        """Scores of all runs of a FRESH chain, in the folder of its first run."""
        return self.path / "fresh.csv"

    @property
    def explain_page(self) -> Path:
        return self.path / "explain.html"

    def checkpoint(self, name: Literal["best", "last"]) -> Path | None:
        """Returns the checkpoint of that name, or None if there is none."""
        file = self.checkpoints_dir / f"{name}.ckpt"
        return file if file.is_file() else None

    @property
    def best_checkpoint(self) -> Path | None:
        """The best checkpoint, else the last one, else None."""
        return self.checkpoint("best") or self.checkpoint("last")

    @property
    def results(self) -> pd.DataFrame | None:
        """The table of the run's test, or None before it."""
        return pd.read_parquet(self.results_file) if self.results_file.exists() else None

    @property
    def manifest(self) -> dict[str, Any]:
        """Facts about the run, such as its settings; {"status": "new"} before it began.

        Raises:
            ValueError: the run is of another format.
        """
        return without_format(self._written_manifest, self.path, OLD_RUN)

    @property
    def _written_manifest(self) -> dict[str, Any]:
        file = self.manifest_file
        return read_json(file) if file.exists() else with_format({"status": "new"})

    @property
    def has_begun(self) -> bool:
        return self.manifest["status"] != "new"

    @property
    def is_finished(self) -> bool:
        return self.manifest["status"] == "finished"

    @property
    def settings(self) -> dict[str, Any] | None:
        """The settings that the run began with, or None before it began."""
        return self.manifest.get("settings")

    def write_manifest(self, **facts: Any) -> None:
        """Adds facts to the manifest, in one step, so that a kill leaves the old one or the new one."""
        write_json(self.manifest_file, with_format({**self.manifest, **facts}))

    @property
    def holds_work(self) -> bool:
        """Whether the run is finished or has a checkpoint to go on from, in this format or another."""
        return self.checkpoint("last") is not None or self._written_manifest["status"] == "finished"

    def check_format(self) -> None:
        """Raises ValueError if the folder holds the work of another format."""
        if self.holds_work:
            without_format(self._written_manifest, self.path, OLD_RUN)

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Writes into the manifest that a run with these settings begins, or goes on where it stopped.

        Raises:
            ValueError: the folder holds work of another format, or of other settings (the first three are named).
        """
        if not self.holds_work:  # a run that ended before its first checkpoint has nothing to lose
            write_json(self.manifest_file, with_format({"status": "running", "settings": dict(settings)}))
            return
        before = self.settings
        if before is None:
            self.write_manifest(status="running", settings=dict(settings))
        elif changed := changed_settings(before, settings):
            shown = "; ".join(f"{key} was {before.get(key)!r}, now {settings.get(key)!r}" for key in changed[:3])
            raise ValueError(
                f"{self.path} holds a run with other settings ({shown}): name another --experiment, or remove it"
            )

    def hash_of_other_test_data(self, settings: Mapping[str, Any]) -> str:
        """Returns a short hash of the examples that these settings test, or "" if they are the run's own."""
        tested = hash_of_test_data(settings)
        return "" if self.settings is None or tested == hash_of_test_data(self.settings) else tested

    @property
    def runs_dir(self) -> Path:
        """The folder of all runs, found by the experiment's name in the manifest; else the working directory.

        Without a manifest, "seed0" lies in the folder of an experiment whose name has no slash.
        """
        experiment = (self.settings or {}).get("experiment") or ("?" if self.path.name.startswith("seed") else "")
        parents, depth = self.path.parents, len(Path(experiment).parts)
        return parents[depth] if 0 < depth < len(parents) else Path()  # a moved run can lie less deep


def runs_of(experiment_dir: Path) -> list[RunFolder]:
    """Returns the runs of all seeds in an experiment's folder, in alphabetical order.

    Example:
        >>> runs_of(Path("no/such/experiment"))
        []
    """
    return [RunFolder(path) for path in sorted(experiment_dir.glob("seed*")) if path.is_dir()]


def report_dir(experiment_dir: Path) -> Path:
    """Returns the folder of the pictures and tables over all seeds of an experiment.

    Example:
        >>> report_dir(Path("runs/roar")).as_posix()
        'runs/roar/report'
    """
    return experiment_dir / "report"
