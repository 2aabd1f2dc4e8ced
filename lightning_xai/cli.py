"""The command line: Lightning's subcommands over run folders, repeated while a stage asks for another."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from argparse import ArgumentError
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger

import lightning_xai
from lightning_xai.callbacks.base import FollowUp
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.models.checkpoint import checkpoint_hash
from lightning_xai.objectives.base import Objective
from lightning_xai.runs import RunFolder, experiment_name, find_config
from lightning_xai.tables import results_tables


class XAICLI(LightningCLI):
    """LightningCLI in subclass mode, with a run folder for every run.

    After construction `requested` holds the overrides of a fit that a stage asks for, and `done` tells whether the
    subcommand itself ran to its end.
    """

    def __init__(self, args: list[str]) -> None:
        self.requested: list[str] = []
        self.done = False
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
            trainer_defaults={"num_sanity_val_steps": 0, "inference_mode": False, "log_every_n_steps": 10},
            # relative interpolation that sees command-line overrides
            parser_kwargs={"parser_mode": "omegaconf+", "exit_on_error": False, "allow_abbrev": False},
            args=args,
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--experiment", type=str | None, default=None, help="name of the experiment")
        parser.add_argument("--runs_dir", type=str, default="runs", help="folder of all runs")
        parser.add_argument("--test_after_fit", type=bool, default=True, help="end fit by testing the best checkpoint")
        parser.add_lightning_class_args(ModelCheckpoint, "checkpoint")
        parser.set_defaults(
            {
                "checkpoint.filename": "best",
                "checkpoint.monitor": "val/log_loss",
                "checkpoint.save_last": True,
                "checkpoint.enable_version_counter": False,
                "checkpoint.auto_insert_metric_name": False,
            }
        )
        parser.link_arguments("seed_everything", "data.init_args.seed")
        for name in ("num_classes", "multilabel"):
            target = f"model.init_args.network.init_args.{name}"
            parser.link_arguments(f"data.{name}", target, apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: list[str]) -> None:
        self.config = parser.parse_args(args)  # the parent warns of arguments that do not come from sys.argv

    def before_instantiate_classes(self) -> None:
        config = self.config[self.subcommand]
        if not config.experiment:
            config.experiment = experiment_name(self._config_files)
        self.seed = int(config.seed_everything)
        self.run = RunFolder(Path(config.runs_dir) / config.experiment / f"seed{self.seed}")
        config.trainer.default_root_dir = str(self.run.path)
        if config.checkpoint.dirpath is None:
            config.checkpoint.dirpath = str(self.run.path / "checkpoints")
        self._dump_config()
        if self.subcommand == "fit" and not config.trainer.fast_dev_run and _rank() == 0:
            self.run.claim(self.config_dump)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        config = self.config[self.subcommand]
        self.results = ResultsFile(config.experiment, self.seed)
        if config.trainer.logger is None and not config.trainer.fast_dev_run:
            # the configured root is not used, so that every file of a run lies in its folder
            kwargs["logger"] = TensorBoardLogger(config.runs_dir, name=config.experiment, version=f"seed{self.seed}")
        self.trainer_defaults["callbacks"] = [self.results]
        return super().instantiate_trainer(**kwargs)

    def fit(self, model: Objective, datamodule: LightningDataModule, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Runs or resumes the fit and tests its best checkpoint, unless another stage has to come first."""
        if self.run.finished:
            _say(f"{self.run.path} is finished already; remove it to run it again")
            self.results.table = _read_results(self.run)
            self._finish_stage()
            return
        self.requested = self._ask_for_follow_up()
        if self.requested:
            return
        self._check_monitor()
        dry = bool(self.trainer.fast_dev_run)
        if not dry:
            self._save_config()
        last = self.run.checkpoint("last")
        if ckpt_path is None and last is not None:
            _say(f"{self.run.path}: resuming from {last.name}")
            ckpt_path = str(last)
        self.trainer.fit(model, datamodule=datamodule, ckpt_path=ckpt_path, **kwargs)
        if self.trainer.interrupted:
            raise KeyboardInterrupt
        if self.config.fit.test_after_fit and not dry:
            best = self.run.checkpoint("best")
            self._test(str(best) if best else None)
        if not dry:
            if self.trainer.is_global_zero:
                self.run.write_manifest(status="finished")
            self.trainer.strategy.barrier()  # a rank that looked earlier would run the stage again
        self._finish_stage()

    def test(self, model: Objective, datamodule: LightningDataModule, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Tests "best", "last" or a file; by default the run's best checkpoint, or the network as it was loaded."""
        self._test(self._resolve_checkpoint(ckpt_path), **kwargs)
        self._finish_stage()

    def validate(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        self.trainer.validate(ckpt_path=self._resolve_checkpoint(ckpt_path), **kwargs)
        self.done = True

    def predict(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Runs the callbacks over the predict split; predictions are not collected in memory."""
        kwargs["return_predictions"] = False
        self.trainer.predict(ckpt_path=self._resolve_checkpoint(ckpt_path), **kwargs)
        self.done = True

    def _test(self, path: str | None, **kwargs: Any) -> None:
        self.results.checkpoint = checkpoint_hash(path) if path else ""
        kwargs["verbose"] = False  # our tables take the place of Lightning's
        self.trainer.test(self.model, datamodule=self.datamodule, ckpt_path=path, **kwargs)

    def _finish_stage(self) -> None:
        self.done = True
        if self.trainer.is_global_zero and self.results.table is not None:
            print(results_tables(self.results.table))
            page = self.run.path / "heatmaps" / "test.html"
            shown = [self.run.path / "results.csv", *([page] if page.exists() else [])]
            print("\n".join(f"written: {path}" for path in shown))
        self.requested = self._ask_for_follow_up()

    def _ask_for_follow_up(self) -> list[str]:
        for part in [self.model, *self.trainer.callbacks]:
            if isinstance(part, FollowUp):
                overrides = part.follow_up(self.trainer)
                if overrides:
                    return overrides
        return []

    def _check_monitor(self) -> None:
        monitor = self.config.fit.checkpoint.monitor
        known = [f"val/{name}" for name in self.model.val_metrics.compute() if name != "num_examples"]
        if monitor is not None and monitor.count("/") == 1 and monitor not in known:
            raise ValueError(f"checkpoint.monitor is {monitor!r}, which is never logged: choose one of {', '.join(known)}")

    def _resolve_checkpoint(self, ckpt_path: str | None) -> str | None:
        if ckpt_path not in (None, "best", "last"):
            if not Path(ckpt_path).is_file():
                raise ValueError(f"there is no checkpoint {ckpt_path}: give a file, or best or last of the run's own")
            return ckpt_path
        found = self.run.checkpoint(ckpt_path or "best")
        if ckpt_path is not None and found is None:
            raise ValueError(f"{self.run.path} has no {ckpt_path} checkpoint: fit it first, or give a file")
        return str(found) if found else None

    def _save_config(self) -> None:
        if _rank() == 0:
            self.run.path.mkdir(parents=True, exist_ok=True)
            self._parser(self.subcommand).save(
                self.config[self.subcommand], str(self.run.path / "config.yaml"),
                skip_none=False, overwrite=True, multifile=False,
            )  # fmt: skip


def main(argv: list[str] | None = None) -> None:
    """Runs one command; for `fit`, also every stage that it asks for, and prints user errors in one line."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv[:1] == ["explain"]:
            from lightning_xai.explain import explain_command

            explain_command(argv[1:])
        else:
            run_stages(argv)
    except ArgumentError as error:
        raise SystemExit(f"error: {one_line(str(error))}; run.py {' '.join(argv[:1])} --help lists what is accepted") from None
    except ValueError as error:
        if os.environ.get("LIGHTNING_XAI_TRACEBACK") or not _raised_by_us(error):
            raise
        raise SystemExit(f"error: {error}") from None


def run_stages(argv: list[str]) -> XAICLI:
    """Runs `argv`, before it the stages that it lacks and after it those that it asks for; returns the last one."""
    import_all()
    stack, seen = [argv], []
    while True:
        current = stack[-1]
        cli = XAICLI(_with_config_paths(current))
        if cli.requested:
            following = [*current, *cli.requested]
            assert following not in seen, f"a stage asks for itself: {cli.requested}"
            seen.append(following)
            if cli.done:
                stack.pop()
            stack.append(following)
        else:
            stack.pop()
        if not stack:
            return cli


def import_all() -> None:
    """Imports every module of the package, so that its classes are known by their short names."""
    for package in ("data", "data.sources", "models", "attributions", "metrics", "objectives", "callbacks"):
        parent = importlib.import_module(f"{lightning_xai.__name__}.{package}")
        for module in pkgutil.iter_modules(parent.__path__, f"{parent.__name__}."):
            importlib.import_module(module.name)


def one_line(message: str) -> str:
    """Returns the parser's message without its list of types tried and without the value's whole contents."""
    noise = ("Does not validate", "Subtypes:", "Errors:", "Given value type:", "- Expected a <class 'NoneType'>")
    lines = [line.strip().removeprefix("- ") for line in message.splitlines() if not line.strip().startswith(noise)]
    shown = [line if len(line) < 120 else f"{line[:117]}..." for line in lines if line]
    return " ".join(shown)


def _with_config_paths(argv: list[str]) -> list[str]:
    found = list(argv)
    for i, argument in enumerate(argv):
        if argument in ("-c", "--config") and i + 1 < len(argv):
            found[i + 1] = find_config(argv[i + 1])
        elif argument.startswith("--config="):
            found[i : i + 1] = [f"--config={find_config(argument.removeprefix('--config='))}"]
    return found


def _raised_by_us(error: BaseException) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(Path(__file__).parent)


def _rank() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", os.environ.get("SLURM_PROCID", 0))))


def _read_results(run: RunFolder):
    import pandas as pd

    file = run.path / "results.parquet"
    return pd.read_parquet(file) if file.exists() else None


def _say(message: str) -> None:
    if _rank() == 0:
        print(message)
