"""`run.py search`: tries values of settings in many short runs, and reports the best values for each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from omegaconf import OmegaConf

from lightning_xai.callbacks.validation_values import Pruned, ValidationValues, best_value, values_by_step
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.parser.config_files import find_config
from lightning_xai.commands.parser.config_syntax import describes_run
from lightning_xai.commands.parser.part_files import with_merged_files
from lightning_xai.commands.parser.parts import find_shipped_parts, with_part_paths
from lightning_xai.commands.searched_run import SearchedRun, with_value
from lightning_xai.commands.stage_runs import run_stages
from lightning_xai.report.search import best_so_far, best_trials_table, setting_text, short_names
from lightning_xai.report.tables import terminal_width
from lightning_xai.runs.files.whole_files import write_csv, write_whole
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.locks.lock import FOLDER_LOCK, take
from lightning_xai.runs.pace import Pace, time_left
from lightning_xai.runs.progress import quiet, say
from lightning_xai.runs.splits import VALIDATION, log_prefix
from lightning_xai.search.plan import SearchPlan
from lightning_xai.search.setting import Setting as Setting  # the doctests use this name
from lightning_xai.search.study import Study, Trial, require_optuna

USAGE = """usage: run.py search --config SEARCH.yaml [--num_trials N] [OPTIONS OF FIT]

--config gives the file of the search, such as search/aml.yaml. OPTIONS OF FIT are passed to the fit of every trial.
To continue a search that was killed, run the same command again. To extend it, also give a larger --num_trials."""
SHARED = "shared"
PRUNED = "pruned"  # status in the manifest of a trial that the pruner ended


def search_command(argv: Sequence[str]) -> None:
    """Parses the command line of `search` and runs it.

    Raises:
        ValueError: no file is given, or `SearchPlan`, `SearchedRun` or `Study` raises an error.

    Example:
        >>> search_command([])
        Traceback (most recent call last):
        ValueError: no search is given: give the file of a search, such as --config search/aml.yaml
    """
    if {"-h", "--help"}.intersection(argv):
        print(USAGE)
        return
    file, num_trials, others = _split(argv)
    content = OmegaConf.to_container(OmegaConf.load(find_config(file)))
    if describes_run(content):
        raise ValueError(
            f"{file} is the configuration of a run: give the file of a search, such as search/aml.yaml, which names "
            "the configuration of its runs under `fit`"
        )
    plan = SearchPlan.of(content)
    plan = plan if num_trials is None else replace(plan, num_trials=num_trials)
    require_optuna()
    search(plan, others, experiment=f"search/{Path(file).stem}")


def search(plan: SearchPlan, argv: Sequence[str], *, experiment: str) -> None:
    """Runs all remaining trials of a search, and prints and writes the settings of the best trial for each metric.

    Args:
        plan: the plan of the search.
        argv: additional options of fit for every trial.
        experiment: name of the experiment; an option --experiment in `argv` replaces it.
    """
    whole = _command_of_run(plan, [f"--experiment={experiment}", *argv])
    command = _with_options(whole, plan)
    with quiet("Running in `fast_dev_run` mode"):  # hides a message about the dry run: SearchedRun trains nothing
        run = SearchedRun(arguments_of_trials(plan, [f"--experiment={experiment}", *argv]), plan)
    take(run.run.path / FOLDER_LOCK)
    directions = run.directions
    command += run.prepare(whole)
    groups = {SHARED: directions} if plan.share_trials else {_study_name(t): {t: d} for t, d in directions.items()}
    studies = [
        Study(run.run.path / "study.log", name, plan, group, seed=run.seed, settings=run.other_settings)
        for name, group in groups.items()
    ]
    pace, total, done = Pace(), sum(study.num_left for study in studies), 0
    for study in studies:
        while (trial := study.next_trial()) is not None:
            take(run.run.path / FOLDER_LOCK)  # taken again for each trial, because a trial's run releases all locks
            _carry_out(study, trial, command, run.run)
            _write_table(studies, run.run)
            done += 1
            left = pace.seconds_left(done=done, total=total) if done < total else None
            say(f"{best_so_far(study.best, study.directions)}{time_left(left)}")
    _write_table(studies, run.run)
    best = {tag: study.best(tag) for study in studies for tag in study.directions}
    print(best_trials_table(best, list(plan.settings), terminal_width()))
    for tag, row in best.items():
        if row is not None:
            file = run.run.path / f"best_{_study_name(tag)}.yaml"
            _write_settings(file, {key: row[key] for key in plan.settings})
            print(f"written: {file}")
    print(f"written: {run.run.path / 'trials.csv'}")


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turns a dictionary with dotted keys into nested dictionaries, as in a configuration file.

    Example:
        >>> nested({"model.init_args.a": 1, "model.init_args.b": 2, "trainer.max_epochs": 3})
        {'model': {'init_args': {'a': 1, 'b': 2}}, 'trainer': {'max_epochs': 3}}
    """
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, last = key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[last] = value
    return tree


def _carry_out(study: Study, trial: Trial, command: list[str], root: RunFolder) -> None:
    """Runs or resumes a trial in its own folder, and stores its validation metrics in the Optuna study."""
    run = root.stage(f"{study.name}/{trial.number:03d}")
    was_pruned = run.manifest["status"] == PRUNED and study.plan.pruner != "none"
    if was_pruned and _has_values(run, trial.values):  # the search was killed before the study recorded this trial
        for step, number in values_by_step(run.validations_file, next(iter(study.directions))).items():
            trial.is_worse(number, step)  # reports the value to Optuna, which needs it for later trials
        study.prune(trial)
        return
    names = short_names(list(trial.values))
    settings = ", ".join(f"{names[key]} {setting_text(value)}" for key, value in trial.values.items())
    say(f"{study.name}, trial {trial.number} (the last is {study.plan.num_trials - 1}): {settings}")
    experiment = f"{_experiment(command)}/{study.name}/{trial.number:03d}"
    argv = [*command, f"--experiment={experiment}", "--test_after_fit=false", "--follow_up=true"]
    argv += [] if trial.number == 0 else ["--preflight=false"]  # only trial 0 first tries all parts of the run
    for key, value in trial.values.items():
        argv = with_value(argv, key, value)
    judge = trial.is_worse if study.plan.pruner != "none" else None
    watch = ValidationValues(run.validations_file, list(study.directions), judge)
    try:
        run_stages(argv, [watch])
    except Pruned:
        run.write_manifest(status=PRUNED)
        study.prune(trial)
        say(
            f"{run.path} is pruned: its best validation value so far is worse than the median value of earlier trials "
            "at the same step"
        )
    else:
        values = {tag: best_value(run.validations_file, tag, mode) for tag, mode in study.directions.items()}
        study.finish(trial, values)
        _show_in_tensorboard(run, trial, values)


def _has_values(run: RunFolder, values: Mapping[str, Any]) -> bool:
    """Returns whether a run was trained with these values. Searched settings that the run lacks are ignored."""
    settings = run.settings or {}
    return all(settings.get(key, value) == value for key, value in values.items())


def _show_in_tensorboard(run: RunFolder, trial: Trial, values: Mapping[str, float]) -> None:
    """Adds the searched settings and the metrics of a trial to TensorBoard's page of hyperparameters."""
    from torch.utils.tensorboard import SummaryWriter  # imports tensorboard, which takes a second

    with SummaryWriter(str(run.path)) as writer:
        shown = {key: "null" if value is None else value for key, value in trial.values.items()}
        writer.add_hparams(shown, {f"best/{tag}": value for tag, value in values.items()}, run_name=".")


def _write_settings(file: Path, values: Mapping[str, Any]) -> None:
    write_whole(file, lambda target: target.write_text(yaml.safe_dump(nested(values))))


def _write_table(studies: Sequence[Study], run: RunFolder) -> None:
    rows = pd.DataFrame([row for study in studies for row in study.table()])
    write_csv(rows, run.path / "trials.csv")


def _split(argv: Sequence[str]) -> tuple[str, int | None, list[str]]:
    """Splits a command line into the file of the search, the number of trials (None if not given) and other options."""
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith(_OWN_JOINED) else [word])]
    options: dict[str, str] = {}
    others: list[str] = []
    while words:
        word = words.pop(0)
        if word in ("-c", "--config", "--num_trials"):
            if not words:
                raise ValueError(f"{word} has no value: add the value after it")
            name = "--config" if word == "-c" else word
            if name in options:
                raise ValueError(
                    f"{name} is given twice: give it once (a configuration of fit belongs under `fit` in the file of "
                    "the search)"
                )
            options[name] = words.pop(0)
        else:
            others.append(word)
    if "--config" not in options:
        raise ValueError("no search is given: give the file of a search, such as --config search/aml.yaml")
    number = options.get("--num_trials")
    if number is not None and not number.isdigit():
        raise ValueError(f"num_trials is {number!r}: give an integer of at least 1")
    return options["--config"], None if number is None else int(number), others


_OWN_JOINED = ("--config=", "--num_trials=")


def arguments_of_trials(plan: SearchPlan, argv: Sequence[str]) -> list[str]:
    """Returns the command line of a dry run in which each searched setting has the middle one of its possible values.

    Args:
        plan: the plan of the search.
        argv: additional options of fit.

    Example:
        >>> plan = SearchPlan(["roar.yaml"], {"trainer.max_epochs": Setting(choices=(1, 2))}, {"val/log_loss": None})
        >>> arguments_of_trials(plan, [])[-2:]
        ['--trainer.max_epochs=2', '--trainer.fast_dev_run=true']
    """
    command = _with_options(_command_of_run(plan, argv), plan)
    for key, setting in plan.settings.items():
        command = with_value(command, key, setting.at(0.5))
    return with_merged_files([*command, "--trainer.fast_dev_run=true"])


def _command_of_run(plan: SearchPlan, argv: Sequence[str]) -> list[str]:
    import_all()
    find_shipped_parts()
    configs = [word for file in plan.fit for word in ("--config", file)]
    return with_part_paths(["fit", *configs, *argv])


def _with_options(command: list[str], plan: SearchPlan) -> list[str]:
    for key, value in plan.options.items():
        command = with_value(command, key, value)
    return command


def _experiment(command: Sequence[str]) -> str:
    given = [
        word.partition("=")[2] if "=" in word else command[place + 1]
        for place, word in enumerate(command)
        if word.partition("=")[0] == "--experiment"
    ]
    return given[-1]


def _study_name(tag: str) -> str:
    return tag.removeprefix(f"{log_prefix(VALIDATION)}/").replace("/", "_")
