"""The command line: Lightning's subcommands over run folders, repeated while a stage asks for another."""

from __future__ import annotations

import os
import sys
import time
import warnings
from argparse import ArgumentError
from importlib import import_module
from pathlib import Path
from typing import Any

from lightning import LightningDataModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.trainer.states import TrainerFn

from lightning_xai.callbacks.base import FollowUp
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.callbacks.run_summary import RunSummary
from lightning_xai.commands.config_files import (
    experiment_name,
    folder_of_config,
    with_config_paths,
    with_overrides,
)
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.preflight import check_checkpoint_settings, check_monitor, resolve_checkpoint
from lightning_xai.commands.slurm import slurm_environment
from lightning_xai.commands.terminal import message_for_user, one_line
from lightning_xai.data.module import TextDataModule
from lightning_xai.models.checkpoint import checkpoint_hash
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.report.results import results_tables
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.runs.folder import RunFolder, comparable, data_settings
from lightning_xai.runs.progress import quiet, say
from lightning_xai.runs.ranks import rank

READERS = ("explain", "racu", "stability")  # of finished runs, each a module of its own
COMMANDS = ("fit", "validate", "test", "predict", *READERS)


class XAICLI(LightningCLI):
    """LightningCLI in subclass mode, with a run folder for every run.

    After construction `requested` holds the overrides of a fit that a stage asks for, `done` tells whether the
    subcommand itself ran to its end, and `dry` whether it leaves nothing behind (fast_dev_run).
    """

    def __init__(self, args: list[str], loaded: tuple[TextDataModule, dict[str, Any]] | None = None) -> None:
        self.requested: list[str] = []
        self.done = False
        self._began = time.monotonic()
        self._args = args
        self.loaded = loaded  # data of the stage before, and their settings
        self._config_files = [args[i + 1] for i, arg in enumerate(args[:-1]) if arg in ("-c", "--config")]
        super().__init__(
            model_class=Objective,
            subclass_mode_model=True,
            datamodule_class=LightningDataModule,
            subclass_mode_data=True,
            save_config_callback=None,
            seed_everything_default=0,
            load_from_checkpoint_support=False,
            auto_configure_optimizers=False,
            trainer_defaults={
                "num_sanity_val_steps": 0,
                "inference_mode": False,
                "log_every_n_steps": 10,
                "enable_model_summary": False,  # RunSummary says what matters
            },
            # relative interpolation that sees command-line overrides
            parser_kwargs={"parser_mode": "omegaconf+", "exit_on_error": False, "allow_abbrev": False},
            args=args,
        )

    def subcommands(self) -> dict[str, set[str]]:
        """Returns the given subcommand alone where there is one: the parsers of the others take a second of a stage."""
        known = LightningCLI.subcommands()
        return {name: known[name] for name in self._args[:1] if name in known} or known

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--experiment", type=str | None, default=None, help="name of the experiment")
        parser.add_argument("--runs_dir", type=str, default="runs", help="folder of all runs")
        parser.add_argument("--test_after_fit", type=bool, default=True, help="end fit by testing the best checkpoint")
        parser.add_argument("--follow_up", type=bool, default=True, help="run what a run asks for before and after it")
        parser.add_lightning_class_args(ModelCheckpoint, "checkpoint")
        parser.set_defaults(
            {
                "checkpoint.filename": "best",
                "checkpoint.monitor": "val/log_loss",
                "checkpoint.enable_version_counter": False,
                "checkpoint.auto_insert_metric_name": False,
            }
        )
        parser.link_arguments("seed_everything", "data.init_args.seed")
        # a link to an argument that the network does not have is left out
        for name in ("num_classes", "multilabel", "vocab_size", "word_vectors"):
            target = f"model.init_args.network.init_args.{name}"
            parser.link_arguments(f"data.{name}", target, apply_on="instantiate")

    def _data(self, class_type: type[TextDataModule], *args: Any, **kwargs: Any) -> TextDataModule:
        data, settings = class_type(*args, **kwargs), data_settings(self.settings)
        if self.loaded is not None and self.loaded[1] == settings:
            data.reuse_loaded(self.loaded[0])
        self.loaded = data, settings
        return data

    def parse_arguments(self, parser: LightningArgumentParser, args: list[str]) -> None:
        self.config = parser.parse_args(args)  # the parent warns of arguments that do not come from sys.argv

    def _parse_ckpt_path(self) -> None:
        """Keeps the parent from overriding the configuration with hyperparameters found in a checkpoint."""

    def before_instantiate_classes(self) -> None:
        config = self.config[self.subcommand]
        check_checkpoint_settings(config.checkpoint)
        if not config.experiment:
            config.experiment = experiment_name(self._config_files)
        self.seed = int(config.seed_everything)
        self.dry = bool(config.trainer.fast_dev_run)
        if self.subcommand != "fit":  # where it matters: a fit resumed in another folder forgets its best score
            warnings.filterwarnings("ignore", message="The dirpath has changed from")
        self.run = RunFolder(Path(config.runs_dir) / config.experiment / f"seed{self.seed}")
        if not any(argument.startswith("--runs_dir") for argument in self._args):
            self.run = folder_of_config(self._config_files, self.run)
        config.trainer.default_root_dir = str(self.run.path)
        self._dump_config()
        self.settings = comparable(self.config_dump)
        if self.subcommand == "fit" and not self.dry and rank() == 0:
            self.run.claim(self.settings)
        self._portable_config = config.clone()
        for key in ("checkpoint.dirpath", "trainer.default_root_dir", "ckpt_path"):
            self._portable_config[key] = None  # the saved file must not lead another experiment into this folder
        config.checkpoint.dirpath = str(self.run.path / "checkpoints")
        self.parser.add_instantiator(self._data, TextDataModule)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        config = self.config[self.subcommand]
        tests = self.subcommand == "fit" and config.test_after_fit
        self.results = ResultsFile(config.experiment, self.seed, tests_after_fit=tests, settings=self.settings)
        if config.trainer.logger is None and not self.dry:
            # the configured root is not used, so that every file of a run lies in its folder
            kwargs["logger"] = TensorBoardLogger(
                self.run.path.parents[1],
                name=self.run.path.parent.name,  # of an experiment "roar/gradient/030" only the last part
                version=self.run.path.name,
                default_hp_metric=False,
            )
        if config.trainer.plugins is None and (environment := slurm_environment()):
            kwargs["plugins"] = [environment]
        self.trainer_defaults["callbacks"] = [self.results, RunSummary()]
        trainer = super().instantiate_trainer(**kwargs)
        trainer.datamodule = self.datamodule  # for those who are asked what has to come before the fit
        # save_last writes only when the best checkpoint does, so a resume would lose the epochs after it; at the end of
        # the list this one's file knows which checkpoint is the best
        trainer.callbacks.append(
            ModelCheckpoint(config.checkpoint.dirpath, filename="last", enable_version_counter=False)
        )
        return trainer

    def fit(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Runs or resumes the fit and tests its best checkpoint, unless another stage has to come first."""
        if self.dry or not self.run.finished:
            self.requested = self._ask_for_follow_up()
            if self.requested:
                return
            self._fit(ckpt_path, **kwargs)
        elif self.run.results is not None or not self.config.fit.test_after_fit:
            say(f"{self.run.path} is finished already; remove it to run it again")
            self.results.table = self.run.results
            self.trainer.state.fn = TrainerFn.TESTING  # the follow-ups asked for now are those after the test
            self._finish_stage()
            return
        if self.config.fit.test_after_fit and not self.dry:
            best = self.run.checkpoint("best") or self.run.checkpoint("last")
            self._test(str(best) if best else None)
        if not self.dry:
            if self.trainer.is_global_zero:
                self.run.write_manifest(status="finished", seconds=round(time.monotonic() - self._began, 3))
            self.trainer.strategy.barrier()  # a rank that looked earlier would run the stage again
        self._finish_stage()

    def test(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Tests "best", "last" or a file; by default the run's best checkpoint, or the network as it was loaded."""
        self.results.keep_others, self.results.other_data = True, self.run.other_data(self.settings)
        self._test(self._resolve(ckpt_path))
        self._finish_stage()

    def validate(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Prints the tables of the validation split, whose thresholds are tuned on itself, and writes none."""
        self.trainer.validate(**(kwargs | {"verbose": False}), ckpt_path=self._resolve(ckpt_path))
        self._finish_stage()

    def predict(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Runs the callbacks over the predict split; predictions are not collected in memory."""
        kwargs["return_predictions"] = False
        self.trainer.predict(ckpt_path=self._resolve(ckpt_path), **kwargs)
        self.done = True

    def _fit(self, ckpt_path: str | None, **kwargs: Any) -> None:
        checkpoint = self.config.fit.checkpoint
        check_monitor(checkpoint.monitor, checkpoint.mode, self.model, self.trainer.callbacks)
        if ckpt_path is not None:
            ckpt_path = self._resolve(ckpt_path)
        last = self.run.checkpoint("last")
        if last is not None and not self.dry:
            say(f"{self.run.path}: resuming from {last.name}")
            ckpt_path = str(last)
        if not self.dry and rank() == 0:
            self.run.path.mkdir(parents=True, exist_ok=True)
            self._parser("fit").save(
                self._portable_config, str(self.run.path / "config.yaml"),
                skip_none=False, overwrite=True, multifile=False, skip_validation=True,  # parsing has checked it
            )  # fmt: skip
        self.trainer.fit(**kwargs, ckpt_path=ckpt_path)
        if self.trainer.interrupted:
            raise KeyboardInterrupt

    def _resolve(self, ckpt_path: str | None) -> str | None:
        return resolve_checkpoint(self.run, ckpt_path, self.model, self.datamodule.class_names)

    def _test(self, path: str | None) -> None:
        if path:
            self.results.checkpoint = checkpoint_hash(path)
        elif isinstance(self.model, Evaluation):
            self.results.checkpoint = checkpoint_hash(self.model.path)
        else:
            self.results.checkpoint = weights_hash(self.model.network)
            say(f"{self.run.path} has no checkpoint: testing the network as the configuration builds it")
        self.trainer.test(self.model, datamodule=self.datamodule, ckpt_path=path, verbose=False)

    def _finish_stage(self) -> None:
        self.done = True
        if self.trainer.is_global_zero and self.results.table is not None:
            print(results_tables(self.results.table))
            for path in [self.run.path / f"{self.results.stem}.csv", self.run.path / "heatmaps" / "test.html"]:
                if path.exists() and self.subcommand != "validate":
                    print(f"written: {path}")
        if self.subcommand == "fit":
            self.requested = self._ask_for_follow_up()

    def _ask_for_follow_up(self) -> list[str]:
        for part in [self.model, *self.trainer.callbacks]:
            if isinstance(part, FollowUp) and (overrides := part.follow_up(self.trainer)):
                return overrides if self.config[self.subcommand].follow_up else []
        return []


def main(argv: list[str] | None = None) -> None:
    """Runs one command; for `fit`, also every stage that it asks for, and prints user errors in one line."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or not argv[0].startswith("-") and argv[0] not in COMMANDS:
        raise SystemExit(f"error: {' '.join(argv[:1]) or 'nothing'} is no command: choose one of {', '.join(COMMANDS)}")
    try:
        with quiet():
            if argv[0] in READERS:
                module = import_module(f"lightning_xai.commands.{argv[0]}")  # not before it is asked for
                getattr(module, f"{argv[0]}_command")(argv[1:])
            else:
                run_stages(argv)
    except ArgumentError as error:
        hint = f"run.py {' '.join(argv[:1])} --help lists what is accepted"
        raise SystemExit(f"error: {one_line(str(error))}; {hint}") from None
    except ValueError as error:
        message = message_for_user(error)
        if os.environ.get("LIGHTNING_XAI_TRACEBACK") or message is None:
            raise
        raise SystemExit(f"error: {message}") from None


def run_stages(argv: list[str]) -> XAICLI:
    """Runs `argv`, before it the stages that it lacks and after it those that it asks for; returns the last one."""
    import_all()
    stack, seen, loaded = [argv], [], None
    while True:
        current = stack[-1]
        cli = XAICLI(with_config_paths(current), loaded)
        loaded = cli.loaded
        if cli.requested:
            following = with_overrides(current, cli.requested)
            if following in seen and cli.dry:
                say(f"{cli.run.path} needs what a dry run does not write, so fast_dev_run ends before it")
                return cli
            assert following not in seen, f"a stage asks for itself: {cli.requested}"
            seen.append(following)
            if cli.done:
                stack.pop()
            stack.append(following)
        else:
            stack.pop()
        if not stack:
            return cli
