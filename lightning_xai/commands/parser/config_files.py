"""Finds the configuration files that a command line names, and the experiment and the run to which they belong."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from omegaconf import DictConfig, OmegaConf

from lightning_xai.commands.parser.choices import listed_choices
from lightning_xai.commands.parser.parts import SHIPPED, right_option
from lightning_xai.runs.experiment import name_of_experiment
from lightning_xai.runs.files.whole_files import write_whole
from lightning_xai.runs.folder import OLD_RUN, RunFolder
from lightning_xai.runs.format import without_format


def find_config(name: str, folders: Sequence[Path] = ()) -> str:
    """Returns the path of a configuration file.

    Searches the working directory, `folders`, ./configs and the shipped configurations, in this order.

    Raises:
        ValueError: there is no such file. If it is a shipped file for another option, such as --data, the message
            names this option.

    Example:
        >>> Path(find_config("roar.yaml")).name
        'roar.yaml'
    """
    for candidate in [Path(name), *(folder / name for folder in folders), Path("configs") / name, SHIPPED / name]:
        if candidate.is_file():
            return str(candidate)
    if (right := right_option(name)) is not None:
        raise ValueError(f"there is no configuration {name!r}, here or in configs/: did you mean {right}?")
    near = [str(path) for path in Path(name).parent.glob("*.y*ml")]
    known = sorted([*near, *(path.name for path in SHIPPED.glob("*.yaml"))])
    raise ValueError(
        f"there is no configuration {name!r}, here or in configs/: choose one of {listed_choices(known, name)}"
    )


def with_config_paths(argv: Sequence[str]) -> list[str]:
    """Returns a command line in which the names of --config files are replaced by their paths.

    A file is also searched in the folders of the --config files before it.

    Example:
        >>> [Path(argument).name for argument in with_config_paths(["fit", "--config=roar.yaml"])]
        ['fit', '--config', 'roar.yaml']
    """
    arguments: list[str] = []
    folders: list[Path] = []
    for argument in argv:
        joined = argument.startswith("--config=")
        arguments += ["--config", argument.removeprefix("--config=")] if joined else [argument]
        if len(arguments) > 1 and arguments[-2] in ("-c", "--config"):
            arguments[-1] = find_config(arguments[-1], folders)
            folders.append(Path(arguments[-1]).parent)
    return arguments


def with_overrides(argv: list[str], overrides: list[str]) -> list[str]:
    """Appends options to a command line, and drops earlier arguments "--name=value" that these options override.

    If these arguments were kept, a chain's command line would grow with every stage.

    Example:
        >>> with_overrides(["fit", "--experiment=roar", "--runs_dir=runs"], ["--experiment=roar/gradient/010"])
        ['fit', '--runs_dir=runs', '--experiment=roar/gradient/010']
    """
    replaced = tuple(f"{argument.split('=')[0]}=" for argument in overrides if "=" in argument)
    return [*(argument for argument in argv if not argument.startswith(replaced)), *overrides]


def experiment_name(config_files: Sequence[str]) -> str:
    """Returns the setting `experiment` of the last file that has it or, if no file has it, the name of the first file.

    Example:
        >>> experiment_name([find_config("roar.yaml")]), experiment_name([])
        ('roar', 'default')
    """
    for file in reversed(config_files):
        experiment = _setting(file, "experiment")
        if experiment:
            return str(experiment)
    return Path(config_files[0]).stem if config_files else "default"


def run_of_command(config: Namespace, config_files: Sequence[str], args: Sequence[str]) -> RunFolder:
    """Returns the folder of a command's run, and sets `experiment` if it is missing or its folder was renamed.

    Args:
        config: settings of the command.
        config_files: its configuration files.
        args: its command line, which tells whether a user names an experiment or a folder of runs.

    Raises:
        ValueError: as in `RunFolder.of`.

    Example:
        >>> config = Namespace(experiment=None, runs_dir="runs", seed_everything=0)
        >>> run_of_command(config, [find_config("roar.yaml")], []).path.as_posix(), config.experiment
        ('runs/roar/seed0', 'roar')
    """
    config.experiment = config.experiment or experiment_name(config_files)
    seed = int(config.seed_everything)
    run = RunFolder.of(config.runs_dir, config.experiment, seed)
    if any(argument.startswith("--runs_dir") for argument in args):
        return run
    is_named = any(argument.startswith("--experiment") for argument in args)
    place = folder_of_config(config_files, run, config.experiment, seed)
    if is_named and place.name != run.name:
        return run
    if not is_named and place != run:
        config.experiment = name_of_experiment(place)
    return place


def folder_of_config(config_files: Sequence[str], run: RunFolder, experiment: str, seed: int) -> RunFolder:
    """Returns the folder in which a run really is, even if it was moved, renamed or copied.

    If a run has saved one of the files, and the file sets this `experiment` and `seed`, the result is the folder of the
    file, otherwise `run`.

    Args:
        config_files: the configuration files of the command.
        run: the run's folder, according to the settings.
        experiment: name of the run's experiment, according to the settings.
        seed: the run's seed.

    Example:
        >>> run = RunFolder(Path("runs/roar/seed0"))
        >>> folder_of_config([find_config("roar.yaml")], run, "roar", seed=0).path.as_posix()
        'runs/roar/seed0'
    """
    for file in config_files:
        saver = _saver(file)
        if saver is None or saver.settings is None:
            continue
        place = saver.path.resolve()
        if (_setting(file, "experiment"), _setting(file, "seed_everything")) == (experiment, seed):
            return run if place == run.path.resolve() else RunFolder(place)
    return run


def save_config(parser: ArgumentParser, config: Namespace, file: Path) -> None:
    """Writes all settings of a parsed configuration to a file, atomically.

    Example:
        >>> import tempfile
        >>> parser = ArgumentParser()
        >>> _ = parser.add_argument("--seed", type=int, default=0)
        >>> file = Path(tempfile.mkdtemp(), "config.yaml")
        >>> save_config(parser, parser.parse_args(["--seed", "3"]), file)
        >>> file.read_text().strip()
        'seed: 3'
    """
    save = partial(parser.save, config, skip_unset=False, overwrite=True, multifile=False)
    write_whole(file, lambda target: save(str(target), skip_validation=True))  # parsing has already validated `config`


def check_formats(config_files: Sequence[str]) -> None:
    """Raises ValueError if a run saved one of `config_files` in a format that this version of the package cannot read.

    In another format, settings may have other names. Files that a person wrote have no format and are not checked.

    Example:
        >>> check_formats([find_config("roar.yaml")])  # written by a person, so it is not checked
    """
    for file in config_files:
        saver = _saver(file)
        if saver is not None:
            without_format({"format": _setting(file, "format") or 1}, saver.path, OLD_RUN)


def _setting(file: str, name: str) -> Any:
    """Returns a top-level setting of a configuration file, or None if the file does not set it."""
    settings = OmegaConf.load(file)
    return settings.get(name) if isinstance(settings, DictConfig) else None


def _saver(file: str) -> RunFolder | None:
    """Returns the run that saved a configuration, or None if a person wrote the configuration."""
    run = RunFolder(Path(file).parent)
    return run if Path(file).name == run.config_file.name and run.manifest_file.exists() else None
