"""Runs one Lightning subcommand, such as fit, and writes its files to the run's folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from lightning import Callback, LightningDataModule, Trainer
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import TensorBoardLogger

from lightning_xai.callbacks.base import callbacks_of
from lightning_xai.callbacks.best_checkpoint import BestCheckpoint
from lightning_xai.callbacks.heatmaps import drawn_pages
from lightning_xai.callbacks.predictions import PredictionsFile
from lightning_xai.callbacks.preflight.preflight_memory import PreflightMemory
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.chains.base import AsksForRuns, ChainCallback
from lightning_xai.commands.ahead import say_ahead
from lightning_xai.commands.bound_facts import bound_facts, seeds_that_met
from lightning_xai.commands.checkpoint_io import check_epochs_left, use_whole_checkpoints
from lightning_xai.commands.garbage import without_collections
from lightning_xai.commands.outputs import written_lines
from lightning_xai.commands.parser.config_files import check_formats, run_of_command, save_config
from lightning_xai.commands.parser.data_links import check_linked_arguments, give_config_path
from lightning_xai.commands.parser.encoder_path import check_network_tokenizer, fill_encoder_path, write_encoder
from lightning_xai.commands.parser.parts import PARSER_MODE
from lightning_xai.commands.parser.preflight_options import preflight_of
from lightning_xai.commands.parser.run_arguments import TRAINER_DEFAULTS, add_run_arguments
from lightning_xai.commands.parser.run_parser import RunParser, as_data
from lightning_xai.commands.parser.subcommand_checks import check_subcommand
from lightning_xai.commands.parser.trainer_settings import (
    check_global_seed,
    check_optimizers,
    check_own_steps,
    check_training_settings,
    trainer_settings,
)
from lightning_xai.commands.run_callbacks import run_callbacks
from lightning_xai.commands.setting_checks import (
    chain_in,
    check_chains,
    check_checkpoint_settings,
    check_monitors,
    check_tuning,
    resolve_checkpoint,
)
from lightning_xai.commands.slurm import plugins_of_job
from lightning_xai.commands.tested import facts_of_test, has_ended, recall_results
from lightning_xai.objectives.base import Objective
from lightning_xai.report.results import results_tables
from lightning_xai.runs.facts import RunFacts
from lightning_xai.runs.format import FORMAT, is_current
from lightning_xai.runs.locks.ownership import own_run
from lightning_xai.runs.progress import say
from lightning_xai.runs.ranks import is_first, rank
from lightning_xai.runs.run_state import begin_run, finish_run
from lightning_xai.runs.settings import run_settings


class XAICLI(LightningCLI):
    """LightningCLI in subclass mode, with a run folder for every run.

    Attributes:
        next_run: options that turn this command line into that of another run, which must precede or follow this run;
            [] if there is no such run. The subcommand, which the constructor runs, sets this attribute.
        is_done: whether the subcommand has ended; False if the run of `next_run` must come first.
        is_dry: whether this is a fast_dev_run, which writes no files.

    Args:
        args: the command line.
        preflights: outcomes of the earlier preflights (trials on short texts, see Preflight) in the same command.
        callbacks: additional callbacks, which are not saved as settings of the run.
    """

    def __init__(
        self, args: list[str], preflights: PreflightMemory | None = None, callbacks: Sequence[Callback] = ()
    ) -> None:
        self.preflights, self._callbacks = preflights, callbacks
        self.next_run: list[str] = []
        self.is_done = False
        self._began = time.monotonic()
        self._args = args
        self._config_files = [args[i + 1] for i, arg in enumerate(args[:-1]) if arg in ("-c", "--config")]
        check_formats(self._config_files)
        super().__init__(
            model_class=Objective,
            subclass_mode_model=True,
            datamodule_class=LightningDataModule,
            subclass_mode_data=True,
            save_config_callback=None,
            seed_everything_default=0,
            load_from_checkpoint_support=False,
            auto_configure_optimizers=False,
            trainer_defaults=dict(TRAINER_DEFAULTS),
            parser_class=RunParser,
            parser_kwargs={"parser_mode": PARSER_MODE, "exit_on_error": False, "allow_abbrev": False},
            args=args,
        )

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]  # static in the parent class
        """Returns only the called subcommand, because building all parsers takes a second; all if none is called."""
        known = LightningCLI.subcommands()
        return {name: known[name] for name in self._args[:1] if name in known} or known

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        add_run_arguments(parser)

    def _set_seed(self) -> None:
        check_global_seed(self.config[self.subcommand].seed_everything)
        super()._set_seed()

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        assert isinstance(args, list)
        with without_collections():
            self.config = parser.parse_args(args)  # the parent's method would warn that `args` is not sys.argv

    def _parse_ckpt_path(self) -> None:
        """Does nothing. The parent's method would replace settings by hyperparameters that a checkpoint contains."""

    def _dump_config(self) -> None:
        self.config_dump = as_data(self.parser, self.config)[str(self.subcommand)]

    def before_instantiate_classes(self) -> None:
        config = self.config[self.subcommand]
        check_checkpoint_settings(config.checkpoint, weights_only=config.weights_only)
        if not is_current(config):
            raise ValueError(f"format is {config.format}, but this version reads configurations of format {FORMAT}")
        self.is_dry = bool(config.trainer.fast_dev_run)
        check_subcommand(config, str(self.subcommand), is_dry=self.is_dry)
        fill_encoder_path(config)
        self.seed = int(config.seed_everything)
        self.run = run_of_command(config, self._config_files, self._args)
        config.trainer.default_root_dir = str(self.run.path)
        self._dump_config()
        self.settings = run_settings(self.config_dump)
        self.run.check_format()
        if self.subcommand != "fit":  # silences the warning that the best score is lost: only a fit uses this score
            warnings.filterwarnings("ignore", message="The dirpath has changed from")
        if self.subcommand == "fit" and not self.is_dry and config.stage is None:
            own_run(self.run, is_first=is_first())
            if rank() == 0:
                begin_run(self.run, self.settings)
        self._portable_config = config.clone()
        for key in ("checkpoint.dirpath", "trainer.default_root_dir", "ckpt_path"):
            self._portable_config[key] = None  # another run that reads the saved file must not use this run's folder
        # a chain starts its stages with --follow_up=false (start no other runs), which must not be saved as a setting
        self._portable_config.follow_up |= "--follow_up=false" in self._args
        config.checkpoint.dirpath = str(self.run.checkpoints_dir)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        config = self.config[self.subcommand]
        give_config_path(self.datamodule, config.data, self._config_files)
        check_linked_arguments(self._portable_config, self.model.network, trains=self.subcommand == "fit")
        tests = self.subcommand == "fit" and config.test_after_fit
        self.facts = RunFacts(config.experiment, self.seed, tests, self.settings)
        self.results = ResultsFile(self.facts)
        check_network_tokenizer(config, self.model, self.datamodule)
        if self.subcommand == "fit":
            check_optimizers(self.model)
            check_training_settings(config.trainer)
            check_own_steps(self.model, config.trainer)
        if config.trainer.logger is None and not self.is_dry:
            kwargs["logger"] = TensorBoardLogger(
                self.run.experiment_dir.parent,
                *self.run.name,
                default_hp_metric=False,
                # a test writes its logs to a subfolder, so that they stay apart from the logs of the training
                sub_dir=("test" if self.run.is_trained else None) if self.subcommand == "fit" else self.subcommand,
            )
        given = self.config_init[self.subcommand].trainer
        kwargs["plugins"] = plugins_of_job(given.plugins)
        preflight = preflight_of(config, self.settings, self.preflights, tests_after_fit=tests)
        own = run_callbacks(given, began=self._began, seed=self.seed, preflight=preflight, tests_after_fit=tests)
        self.trainer_defaults["callbacks"] = [self.results, *own, *self._callbacks]
        with trainer_settings(config.trainer):
            trainer = super().instantiate_trainer(**kwargs)
        use_whole_checkpoints(trainer)
        # This callback writes last.ckpt after every epoch, so that a resumed fit loses no epoch. (`save_last` writes it
        # only with best.ckpt.) It follows the callback of best.ckpt, so that last.ckpt contains the path of best.ckpt
        callbacks_of(trainer).append(
            BestCheckpoint(config.checkpoint.dirpath, filename="last", enable_version_counter=False)
        )
        return trainer

    def fit(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Unless another run must come first, fits or resumes, and tests the best checkpoint if `test_after_fit`."""
        config = self.config.fit
        if config.stage is not None:
            self.next_run = chain_in(callbacks_of(self.trainer)).overrides(config.stage, self.run)
            self.is_done = True  # instead of this run, the command runs `next_run`, the stage that --stage names
            return
        recall_results(self.run, self.settings, self.trainer)
        run = self.run
        if not self.is_dry and has_ended(run, self.settings, self.trainer, tests_after_fit=config.test_after_fit):
            say(f"{run.path} is finished already; remove this folder to start the run again")
            self._save_config()
            return self._end(run.results, sorted(run.results_table.heatmaps_dir.glob("*.html")))
        callbacks = callbacks_of(self.trainer)
        check_chains(callbacks, tests_after_fit=config.test_after_fit)
        is_trained, asking = run.is_trained and not self.is_dry, self._asking()
        if not is_trained:  # checked before other runs, which may take long
            check_monitors(self.model, callbacks)
            check_tuning(callbacks, self.datamodule, tests_after_fit=config.test_after_fit)
        if is_trained:
            # the test needs the other runs of a chain, but no run that only the training needs, such as a teacher's
            asking = [part for part in asking if isinstance(part, ChainCallback)]
        self.next_run = self._first_run(part.runs_before(self.trainer, self.datamodule) for part in asking)
        if self.next_run:
            return say_ahead(self.trainer, self.model, self.datamodule)
        if is_trained:
            say(f"{run.path} is trained already, so it is only tested")
            self._save_config()
        else:
            self._fit(ckpt_path, **kwargs)
        test_began = self._began if is_trained else time.monotonic()
        bounds = {} if self.is_dry else bound_facts(run, self.model)
        if config.test_after_fit and not self.is_dry and bounds.get("bound_met", True):
            best = run.best_checkpoint
            self._test(str(best) if best else None)
        if not self.is_dry:
            if self.trainer.is_global_zero:
                finish_run(run, seconds=time.monotonic() - test_began, **bounds)
            self.trainer.strategy.barrier()  # other processes would repeat a run whose end is not yet recorded
        self._end(self.results.table, drawn_pages(self.trainer))

    def test(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Tests a checkpoint (see `resolve_checkpoint`) or, without one, the network as the configuration builds it."""
        self._test(self._resolve(ckpt_path))
        self._end(self.results.table, drawn_pages(self.trainer))

    def validate(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Prints the results on the validation split, with thresholds tuned on the same split. Writes no results."""
        self.trainer.validate(**(kwargs | {"verbose": False}), ckpt_path=self._begin(self._resolve(ckpt_path)))
        self._end(self.results.table, drawn_pages(self.trainer))

    def predict(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        """Predicts the classes of the examples in `predict_split`, and writes them to a file in the run's folder."""
        path = self._begin(self._resolve(ckpt_path))
        file = self.run.predictions_file(self.datamodule.predict_split, self.results.file_suffix)
        callbacks_of(self.trainer).append(PredictionsFile(file))
        self.trainer.predict(ckpt_path=path, **(kwargs | {"return_predictions": False}))
        self.is_done = True
        if not self.is_dry:
            say("\n".join(written_lines(file, drawn_pages(self.trainer))))

    def _fit(self, ckpt_path: str | None, **kwargs: Any) -> None:
        if ckpt_path is not None and (ckpt_path := self._resolve(ckpt_path)) is not None:
            check_epochs_left(ckpt_path, self.trainer.max_epochs)
        last = self.run.checkpoint("last")
        if last is not None and not self.is_dry:
            say(f"{self.run.path}: resuming from {last.name}")
            ckpt_path = str(last)
        self._save_config()
        self.trainer.fit(**kwargs, ckpt_path=ckpt_path)
        if self.trainer.interrupted:
            raise KeyboardInterrupt

    def _save_config(self) -> None:
        if not self.is_dry and rank() == 0:
            save_config(self._parser("fit"), self._portable_config, self.run.config_file)
            write_encoder(self.run, self.datamodule)

    def _resolve(self, ckpt_path: str | None) -> str | None:
        return resolve_checkpoint(self.run, ckpt_path, self.model, self.datamodule.class_names, self.datamodule)

    def _begin(self, path: str | None) -> str | None:
        """Tells the callbacks which weights are used and which files are written, and returns the checkpoint file."""
        self.results.begin(facts_of_test(self.run, self.model, path, self.settings, command=str(self.subcommand)))
        return path

    def _test(self, path: str | None) -> None:
        self.trainer.test(self.model, datamodule=self.datamodule, ckpt_path=self._begin(path), verbose=False)

    def _end(self, table: pd.DataFrame | None, pages: list[Path]) -> None:
        """Prints `table`, if any, and the paths of files and `pages`. After a fit, sets `next_run` to the next run."""
        self.is_done = True
        if self.trainer.is_global_zero and table is not None:
            written = self.results.test.table if self.results.test is not None else self.run.results_table
            csv = None if self.subcommand == "validate" else written.csv
            print("\n".join([results_tables(table), *written_lines(csv, pages)]))
        if self.trainer.is_global_zero and (met := seeds_that_met(self.run)):
            print(met)
        if self.subcommand == "fit":
            self.next_run = self._first_run(part.runs_after(self.trainer, self.datamodule) for part in self._asking())

    def _first_run(self, asked_for: Iterator[list[str]]) -> list[str]:
        """Returns the options of the first requested run; [] if no run is requested, or if --follow_up is false."""
        overrides: list[str] = next(filter(None, asked_for), [])
        return overrides if self.config[self.subcommand].follow_up else []

    def _asking(self) -> list[AsksForRuns]:
        return [part for part in [self.model, *callbacks_of(self.trainer)] if isinstance(part, AsksForRuns)]
