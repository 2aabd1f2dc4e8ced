"""Checks, before anything is built, that a configuration suits the subcommand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from jsonargparse._util import import_object

from lightning_xai.commands.parser.parts import PARSER_MODE
from lightning_xai.commands.parser.run_parser import RunParser
from lightning_xai.data.corpora.privacy import require_cache_apart
from lightning_xai.data.sources.base import TextSource
from lightning_xai.functional.model_files.cache_folder import cache_folder
from lightning_xai.objectives.evaluation import Evaluation, check_given, trains_nothing


def check_subcommand(config: Namespace, subcommand: str, *, is_dry: bool) -> None:
    """Raises ValueError for --stage or an Evaluation that a subcommand does not allow, or for an ambiguous Evaluation.

    Also refuses a cache of private texts inside `runs_dir`.

    An Evaluation is an objective that trains nothing, so "fit" does not allow it. An Evaluation is ambiguous if it has
    both or neither of the arguments `path` and `network`.

    Args:
        config: parsed configuration of the subcommand.
        subcommand: the subcommand, such as "fit".
        is_dry: whether this is a fast_dev_run. "fit" then allows an Evaluation, because the commands `data` and
            `search` run "fit" with fast_dev_run.

    Example:
        >>> model = Namespace(class_path="lightning_xai.objectives.evaluation.Evaluation", init_args=Namespace())
        >>> check_subcommand(Namespace(model=model), "fit", is_dry=False)
        Traceback (most recent call last):
        ValueError: Evaluation trains nothing: use run.py test to evaluate a network (--model.init_args.path ...
    """
    if config.get("stage") is not None and subcommand != "fit":
        raise ValueError("--stage works only with fit: leave it out, and give --config the stage's own config.yaml")
    _check_cache(config)
    model: Any = config.get("model")
    if model is None or not issubclass(import_object(model.class_path), Evaluation):
        return
    arguments = model.get("init_args") or {}
    if subcommand == "fit" and not is_dry:
        untold = "its network" if arguments.get("network") is not None else "a network (--model.init_args.path MODEL)"
        raise trains_nothing(str(arguments.get("path") or untold))
    if "path" in arguments and "network" in arguments:  # a derived class may have other arguments
        check_given(arguments["path"], arguments["network"])


def _check_cache(config: Namespace) -> None:
    source = config.get("data.init_args.source")
    cache = cache_folder(config.get("data.init_args.cache_dir"))
    if source is not None and cache.resolve().is_relative_to(Path(config.runs_dir).resolve()):
        # only a built source says whether its text is private. Building a source reads no texts
        parser = RunParser(parser_mode=PARSER_MODE, exit_on_error=False, allow_abbrev=False)
        parser.add_subclass_arguments(TextSource, "source")
        built = parser.instantiate(Namespace(source=source.clone())).source
        require_cache_apart(built, cache, Path(config.runs_dir))
