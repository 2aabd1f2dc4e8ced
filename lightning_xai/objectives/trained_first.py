"""A network that an objective needs: loaded from a path, or trained first in a separate run."""

from __future__ import annotations

from pathlib import Path

from lightning import Trainer

from lightning_xai.runs.folder import RunFolder


class TrainedFirst:
    """A network that is loaded from a path, or that a separate run trains first.

    If the path is a YAML file (`.yaml`), a run with the settings of this file trains the network. If the objective's
    run is runs/NAME/seedN, the network is trained in runs/NAME_teacher/seedN.

    Args:
        path: a checkpoint, run folder, model folder or YAML file.
        option: name of the objective's argument that gives the path, for messages.

    Raises:
        ValueError: there is nothing at the path.

    Example:
        >>> TrainedFirst("nowhere.ckpt", "teacher")
        Traceback (most recent call last):
        ValueError: teacher nowhere.ckpt does not exist: give a checkpoint, a run folder, or a .yaml file
    """

    def __init__(self, path: str, option: str) -> None:
        if not path.endswith(".yaml") and not path.startswith("package:") and not Path(path).exists():
            raise ValueError(f"{option} {path} does not exist: give a checkpoint, a run folder, or a .yaml file")
        self.path = path
        self.option = option

    @property
    def is_trained_here(self) -> bool:
        """Whether a separate run trains the network first, which is the case if `path` is a YAML file."""
        return self.path.endswith(".yaml")

    def runs_before(self, trainer: Trainer) -> list[str]:
        """Returns command-line options for the run that trains the network, or [] if the network exists.

        Raises:
            ValueError: the folder of that run holds a run in a format that this version of the package does not read.
        """
        if not self.is_trained_here:
            return []
        place = self.location(trainer)
        if self._is_trained(place):
            return []
        experiment = RunFolder(place).experiment_dir
        return ["--config", self.path, f"--runs_dir={experiment.parent}", f"--experiment={experiment.name}"]

    def location(self, trainer: Trainer) -> Path:
        """Returns the checkpoint or folder from which the network is loaded."""
        return RunFolder(Path(trainer.default_root_dir)).teacher.path if self.is_trained_here else Path(self.path)

    def trained_path(self, trainer: Trainer | None) -> str:
        """Returns the path from which the network is loaded, and checks that the network is trained.

        Args:
            trainer: the trainer of the objective; may be None if the network is loaded from `path`.

        Raises:
            ValueError: the run that trains the network is not finished.
        """
        if not self.is_trained_here:
            return self.path
        assert trainer is not None
        path = self.location(trainer)
        if not self._is_trained(path):
            raise ValueError(
                f"`{self.option}` needs the run {path}, which is not finished: use run.py fit, which finishes it first"
            )
        return str(path)

    def _is_trained(self, folder: Path) -> bool:
        """Returns whether the run is finished and has a best checkpoint.

        Raises:
            ValueError: the run has a checkpoint, but another version of this package wrote it, in a format that this
                version does not read. The message says how to use the checkpoint.
        """
        run = RunFolder(folder)
        if run.best_checkpoint is not None:
            run.check_format(
                f"add --model.init_args.{self.option} {folder} to use its checkpoint, or choose another --experiment"
            )
        return run.is_finished and run.checkpoint("best") is not None
