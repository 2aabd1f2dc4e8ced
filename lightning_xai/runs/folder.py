"""The folder of a run, `<runs_dir>/<experiment>/seed<number>`: the paths of its files, and its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from lightning_xai.runs.files.whole_files import damaged, read_json, write_json
from lightning_xai.runs.format import with_format, without_format
from lightning_xai.runs.locks.lock import FOLDER_LOCK
from lightning_xai.runs.names import check_name
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.results_table import RESULTS, ResultsTable, read_table
from lightning_xai.runs.settings import hash_of_test_data

OLD_RUN = (
    "choose another --experiment, or use the version that wrote this run; this version can still use the run's "
    "checkpoint in the command explain, in evaluate.yaml, and as a teacher"
)
RUN_AGAIN = "repeat the run with this version"  # remedy in the messages of commands that only read runs


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run and the paths of its files.

    Example:
        >>> run = RunFolder(Path("no/such/run"))
        >>> run.config_file.as_posix(), run.checkpoint("best"), run.is_finished
        ('no/such/run/config.yaml', None, False)
    """

    path: Path

    @classmethod
    def of(cls, runs_dir: str | Path, experiment: str, seed: int) -> RunFolder:
        """Returns the folder of an experiment's run with a given seed.

        Raises:
            ValueError: the name of the experiment cannot be a path below `runs_dir`, or `runs_dir` begins with "-".

        Example:
            >>> RunFolder.of("runs", "roar/gradient/030", seed=0).path.as_posix()
            'runs/roar/gradient/030/seed0'
        """
        check_name("experiment", experiment, nested=True)
        if str(runs_dir).startswith("-"):
            check_name("runs_dir", str(runs_dir), nested=True)
        return cls(Path(runs_dir) / experiment / f"seed{seed}")

    @classmethod
    def of_checkpoint(cls, file: Path) -> RunFolder:
        """Returns the run to which a checkpoint file belongs. The run's folder is two levels above the file.

        Example:
            >>> RunFolder.of_checkpoint(Path("runs/tm/seed0/checkpoints/best.ckpt")).path.as_posix()
            'runs/tm/seed0'
        """
        return cls(file.parents[1] if len(file.parents) > 1 else file.absolute().parent.parent)

    @property
    def experiment_dir(self) -> Path:
        """The folder of the experiment, which holds the runs of all seeds."""
        return self.path.parent

    @property
    def name(self) -> tuple[str, str]:
        """The last part of the experiment's name, and the name of the seed's folder. Moving `runs_dir` changes neither.

        Example:
            >>> RunFolder(Path("runs/roar/gradient/seed0")).name
            ('gradient', 'seed0')
        """
        return self.experiment_dir.name, self.path.name

    def sibling(self, experiment: str) -> RunFolder:
        """Returns the run with the same seed in another experiment, whose folder is next to this experiment's folder.

        Example:
            >>> RunFolder(Path("runs/uniwise/seed0")).sibling("uniwise_teacher").path.as_posix()
            'runs/uniwise_teacher/seed0'
        """
        return RunFolder(self.experiment_dir.parent / experiment / self.path.name)

    @property
    def teacher(self) -> RunFolder:
        """The run that trains this run's teacher."""
        return self.sibling(f"{self.experiment_dir.name}_teacher")

    def stage(self, name: str) -> RunFolder:
        """Returns the run of the stage `name` in the chain whose first run is this run. The stage "" is this run.

        Example:
            >>> RunFolder(Path("runs/roar/seed0")).stage("gradient/030").path.as_posix()
            'runs/roar/gradient/030/seed0'
        """
        return RunFolder(self.experiment_dir / name / self.path.name)

    def root_of_stage(self, name: str) -> RunFolder | None:
        """Returns the first run of the chain in which this run is the stage `name`.

        Returns None if `experiment_dir` does not end with `name`.

        Example:
            >>> RunFolder(Path("runs/roar/gradient/030/seed0")).root_of_stage("gradient/030").path.as_posix()
            'runs/roar/seed0'
        """
        depth = len(Path(name).parts)
        if depth >= len(self.path.parents):
            return None
        root = RunFolder(self.path.parents[depth] / self.path.name)
        return root if root.stage(name) == self else None

    @property
    def manifest_file(self) -> Path:
        return self.path / "manifest.json"

    @property
    def lock_file(self) -> Path:
        """The lock file, which names the fit command that owns this folder."""
        return self.path / FOLDER_LOCK

    @property
    def config_file(self) -> Path:
        """The file with the run's configuration. The run can be repeated with this file."""
        return self.path / "config.yaml"

    @property
    def results_table(self) -> ResultsTable:
        """The files with the results of the run's test."""
        return ResultsTable(self.path)

    @property
    def results_file(self) -> Path:
        return self.results_table.parquet

    @property
    def is_tested(self) -> bool:
        return self.results_table.exists

    @property
    def checkpoints_dir(self) -> Path:
        return self.path / "checkpoints"

    def heatmap_page(self, name: str, suffix: str = "") -> Path:
        """HTML page with heatmaps, such as "test". All files of a command have the same `suffix` (see NamesFiles)."""
        return ResultsTable(self.path, f"{RESULTS}{suffix}").heatmaps_dir / f"{name}.html"

    @property
    def attributions_dir(self) -> Path:
        """Folder of the stored attribution scores, in subfolders `<split>/<method>`."""
        return self.path / "attributions"

    def predictions_file(self, split: str, suffix: str = "") -> Path:
        """File with the predictions on a split. All files of a command have the same `suffix` (see NamesFiles).

        Example:
            >>> RunFolder(Path("runs/tm/seed0")).predictions_file("test").name
            'predictions_test.csv'
        """
        return self.path / f"predictions_{split}{suffix}.csv"

    @property
    def stability_dir(self) -> Path:
        """Folder of reports that compare this run's attributions with those of other runs."""
        return self.path / "stability"

    @property
    def erasures_dir(self) -> Path:
        """Folder that records which tokens to erase in later stages, in subfolders `<Stage.erasures>/<split>`."""
        return self.path / "erasures"

    @property
    def trained_on_file(self) -> Path:
        """File that describes how tokens were erased in the texts on which this run trains."""
        return self.path / "erasures.json"

    @property
    def validations_file(self) -> Path:
        """File with the metrics of every validation and its step, if this run is a trial of a search."""
        return self.path / "validations.json"

    @property
    def roar_file(self) -> Path:
        """File with the results of a whole ROAR chain, in the folder of the chain's first run."""
        return self.path / "roar.csv"

    @property
    def fresh_file(self) -> Path:
        """File with the results of a whole FRESH chain, in the folder of the chain's first run."""
        return self.path / "fresh.csv"

    @property
    def explain_page(self) -> Path:
        return self.path / "explain.html"

    def checkpoint(self, name: Literal["best", "last"]) -> Path | None:
        """Returns the file of the best or last checkpoint, or None if the file does not exist."""
        file = self.checkpoints_dir / f"{name}.ckpt"
        return file if file.is_file() else None

    @property
    def best_checkpoint(self) -> Path | None:
        """The best checkpoint or, if there is none, the last checkpoint; None if there is neither."""
        return self.checkpoint("best") or self.checkpoint("last")

    @property
    def results(self) -> pd.DataFrame | None:
        """The table of the run's test results, or None if the run has not been tested."""
        return read_table(self.results_file) if self.results_file.exists() else None

    @property
    def manifest(self) -> dict[str, Any]:
        """Facts about the run, such as its settings; {"status": "new"} before the run has started.

        Raises:
            ValueError: the run was stored in another format than this version's.
        """
        return without_format(self._written_manifest, self.path, OLD_RUN)

    @property
    def _written_manifest(self) -> dict[str, Any]:
        file = self.manifest_file
        if not file.exists():
            return with_format({"status": "new"})
        facts = read_json(file)
        if not isinstance(facts.get("format", 1), int) or not isinstance(facts.get("status"), str):
            raise damaged(file, "its status is missing, or its format or status is not valid")
        if not isinstance(facts.get("settings", {}), dict):
            raise damaged(file, "its settings are not a JSON object")
        return facts

    @property
    def has_begun(self) -> bool:
        return self.manifest["status"] != "new"

    @property
    def is_finished(self) -> bool:
        return self.manifest["status"] == "finished"

    @property
    def missed_its_bounds(self) -> bool:
        """Whether the run is finished without a best checkpoint, because no epoch met the bounds of its constraints."""
        return self.manifest.get("bound_met") is False

    @property
    def is_trained(self) -> bool:
        """Whether the training has ended. The test that follows it may not have ended yet."""
        return self.is_finished or (self.manifest.get("trained", False) and self.checkpoint("last") is not None)

    @property
    def settings(self) -> dict[str, Any] | None:
        """The settings of the last fit; None if no fit has started."""
        return self.manifest.get("settings")

    def write_manifest(self, **facts: Any) -> None:
        """Adds facts to the manifest atomically: after a kill, the file has either the old or the new facts."""
        write_json(self.manifest_file, with_format({**self.manifest, **facts}))

    @property
    def holds_work(self) -> bool:
        """Whether the run is finished or has a checkpoint to resume from, in any format."""
        return self.checkpoint("last") is not None or self._written_manifest["status"] == "finished"

    def check_format(self, remedy: str = OLD_RUN) -> None:
        """Raises ValueError, ending with `remedy`, if a finished or resumable run is not in this version's format."""
        if self.holds_work:
            without_format(self._written_manifest, self.path, remedy)

    def other_data(self, settings: Mapping[str, Any]) -> str:
        """Returns a short hash of the test examples of `settings` if they differ from this run's test examples.

        The run's test examples are those of its fit or, without a fit, of its current results table. Returns "" if the
        test examples do not differ, or if the run has neither a fit nor a table.
        """
        own = self.settings or self.results_table.settings
        if own is None:
            return ""
        tested = hash_of_test_data(without_new_options(settings, own))
        return "" if tested == hash_of_test_data(own) else tested

    @property
    def runs_dir(self) -> Path:
        """The folder of all runs: the part of `path` before the names of the experiment and the seed.

        The name of the experiment is read from the manifest. Without a manifest, a folder whose name starts with "seed"
        counts as a run of an experiment whose name has no slash. If no folder is found in this way, the working
        directory is returned.
        """
        experiment = (self.settings or {}).get("experiment") or ("?" if self.path.name.startswith("seed") else "")
        parents, depth = self.path.parents, len(Path(experiment).parts)
        return parents[depth] if 0 < depth < len(parents) else Path()  # a moved run may have too few parent folders
