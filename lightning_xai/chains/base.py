"""The base class of ROAR and FRESH: earlier runs store which tokens to erase; later runs train without these tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import pandas as pd
import torch
from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.cached import require_examples
from lightning_xai.attributions.given import give_data, give_texts
from lightning_xai.callbacks.base import data_of, is_dry_run, network_of
from lightning_xai.callbacks.preflight.preflight_run import PreflightRun
from lightning_xai.chains.erasure_pass import splits_of, text_data_of, write_erasures
from lightning_xai.chains.stages import Chain, Stage
from lightning_xai.chains.time_left import ScoringClock
from lightning_xai.data.module import TextDataModule
from lightning_xai.functional.network.modes import eager_attention
from lightning_xai.models.scorer.scorer_tokenizer import text_rows
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.types import Batch


@runtime_checkable
class AsksForRuns(Protocol):
    """An objective or callback that needs other runs, such as the training of a teacher before the fit.

    Both methods return the command-line options that turn the command of this run into the command of one other run, or
    [] if no other run is needed. After the other run has ended, the same method is called again, until it returns [].
    All processes call both methods, which must return the same options in every process.

    Example:
        >>> class NeedsTeacher:
        ...     def runs_before(self, trainer, data):
        ...         return ["--config", "teacher.yaml", "--experiment", "teacher"]
        ...     def runs_after(self, trainer, data):
        ...         return []
        >>> isinstance(NeedsTeacher(), AsksForRuns)
        True
    """

    def runs_before(self, trainer: Trainer, data: TextDataModule) -> list[str]:
        """Returns command-line options of a run that must finish before this fit starts or resumes, or [] for none."""
        ...

    def runs_after(self, trainer: Trainer, data: TextDataModule) -> list[str]:
        """Returns command-line options of a run that must follow this fit and its test, or [] for none."""
        ...


class ChainCallback(Callback, ABC):
    """Runs a chain of stages, each of which is a separate run. Finished stages are never repeated.

    The run that is started with this callback is the first stage, the root. A stage may train on texts without the
    tokens that an earlier stage chose to erase; such a choice for all examples is called an erasure.

    Args:
        methods: name of a method, used in folders and tables -> attribution method.
        stages: stages of the chain, in order.

    Example:
        >>> class FirstToken(ChainCallback):  # trains a second run on texts without their first token
        ...     explained = "gold"
        ...
        ...     def erasures_by(self, stage):
        ...         return {} if stage.name else {"first": {"method": "first"}}
        ...
        ...     def keep_masks(self, module, batch, split, keep, erasures):
        ...         return {"first": batch.inputs.token_mask.cumsum(dim=1) != 1}
        ...
        ...     def report(self, chain):
        ...         print(scores_of(chain, chain.stages[1]))
        >>> stages = [Stage("", "all tokens", "root"), Stage("first", "all but the first", "first", erasures="first")]
        >>> chain = FirstToken({}, stages)
        >>> [list(chain.erasures_by(stage)) for stage in stages]
        [['first'], []]
    """

    begins_chain: ClassVar[bool] = True  # so this callback may be added to a run whose training has ended
    explained: ClassVar[str]  # the class that is explained: "gold" or "predicted"; used in an error message

    def __init__(self, methods: Mapping[str, AttributionMethod], stages: Sequence[Stage]) -> None:
        self.methods = dict(methods)
        self.stages = list(stages)
        self._in_fit = False
        self.clock = ScoringClock()

    @abstractmethod
    def erasures_by(self, stage: Stage) -> dict[str, dict[str, Any]]:
        """Returns the erasures that a stage stores after its test: name of the erasure -> facts about it.

        An erasure says, for all examples, which tokens later stages erase. The stage decides this with its best
        checkpoint. The facts have JSON types and include "method", the name of the method that scores the tokens.
        """

    @abstractmethod
    def keep_masks(
        self, module: LightningModule, batch: Batch, split: str, keep: Tensor, erasures: dict[str, dict[str, Any]]
    ) -> dict[str, Tensor]:
        """Decides which tokens of a batch to erase. Returns name of the erasure -> keep mask [B, T].

        An erasure says which tokens later stages erase. A keep mask is a bool tensor, True at tokens that stay.

        Args:
            module: objective with the network of the best checkpoint.
            batch: examples of this run's data.
            split: name of the split that `batch` comes from.
            keep: [B, T] bool, False at tokens that are already erased in this run's data.
            erasures: the erasures to decide, as returned by `erasures_by`: name of the erasure -> facts about it.
        """

    @abstractmethod
    def report(self, chain: Chain) -> None:
        """Writes and prints the classification results of all stages of a finished chain. Only called by process 0."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if network_of(pl_module).multilabel:
            name = type(self).__name__
            raise ValueError(
                f"{name} explains one {self.explained} class per example, but the data are multi-label: use "
                "single-label data"
            )
        give_data(self.methods.values(), data_of(trainer))
        give_texts(self.methods.values(), text_rows(data_of(trainer)))

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._in_fit = True

    def on_preflight(self, preflight: PreflightRun) -> None:
        """Tries each method on short texts, and stores nothing. If a method fails, the run does not start."""
        _, stage = self.chain_of(preflight.trainer)
        if not ((preflight.fits or self._in_fit) and "test" in preflight.stages):
            return  # tokens to erase are chosen only after the test that follows a fit
        by_method: dict[str, dict[str, dict[str, Any]]] = {}
        for name, facts in self.erasures_by(stage).items():
            by_method.setdefault(facts["method"], {})[name] = facts
        tried: list[AttributionMethod | None] = []
        for name, erasures in by_method.items():
            method = self.methods.get(name)
            if method is not None and any(method is other for other in tried):
                continue  # names may share a method object, such as "gradient" and "gradient_once" of ROAR
            tried.append(method)
            subject = f"method {name} ({type(method).__name__})" if method else f"erasures {name}"
            preflight.attempt(
                f"{subject} of {type(self).__name__}", partial(self._try_erasures, preflight, method, erasures)
            )

    def preflight_record(self, trainer: Trainer) -> Path:
        """Returns the file, in the first stage's folder, that records successful preflights (trials before a run)."""
        return self.chain_of(trainer)[0].root.path / "preflights.json"

    def _try_erasures(
        self, preflight: PreflightRun, method: AttributionMethod | None, erasures: dict[str, dict[str, Any]]
    ) -> None:
        with eager_attention(preflight.network, enabled=method is not None and method.needs_attentions):
            for split, batch in preflight.batches(["train", VALIDATION, *preflight.stages["test"]], method):
                keep = torch.ones_like(batch.inputs.attention_mask)
                if method is not None:
                    index = text_data_of(preflight.trainer).unerased_split(split).index
                    require_examples(method.for_split(split), index)
                self.keep_masks(preflight.module, batch, split, keep, erasures)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After the test that follows a fit, stores which tokens later stages erase. Other tests store nothing."""
        chain, stage = self.chain_of(trainer)
        erasures = self.erasures_by(stage)
        if not erasures or not self._in_fit or is_dry_run(trainer):
            return
        network, self.clock = network_of(pl_module), ScoringClock()

        def decide(batch: Batch, split: str, keep: Tensor) -> dict[str, Tensor]:
            self.clock.num_examples += len(batch)
            return self.keep_masks(pl_module, batch, split, keep, erasures)

        weights = weights_hash(network)
        used = [self.methods[facts["method"]] for facts in erasures.values() if facts["method"] in self.methods]
        with eager_attention(network, enabled=any(method.needs_attentions for method in used)):
            write_erasures(
                trainer,
                {name: chain.erasures(name) for name in erasures},
                decide,
                {name: {**facts, "weights": weights} for name, facts in erasures.items()},
            )
        if trainer.is_global_zero:
            if self.clock.num_examples:
                seconds = self.clock.seconds_since_start
                print(f"{type(self).__name__}: {len(erasures)} erasures written, {seconds:.1f} s")
            num_examples = sum(len(text_data_of(trainer).unerased_split(split)) for split in splits_of(trainer))
            self.clock.record(chain.run(stage), num_examples=num_examples / trainer.world_size)

    def runs_before(self, trainer: Trainer, data: TextDataModule) -> list[str]:
        """Checks that this stage may start, or may be tested, and prints the chain's progress. Always returns [].

        Raises:
            ValueError: the stage may not start, for a reason that `Chain.begin` lists.
        """
        self._in_fit = True  # `on_fit_start` sets this too, but is not called if the training has already ended
        if not is_dry_run(trainer):
            chain, stage = self.chain_of(trainer)
            chain.begin(stage, data, writes=trainer.is_global_zero)
            if trainer.is_global_zero:
                print(chain.progress(stage, type(self).__name__, self._scores_with))
        return []

    def runs_after(self, trainer: Trainer, data: TextDataModule) -> list[str]:
        """Returns command-line options for the next stage's run. After the last run, writes the report and returns [].

        The next stage is the first unfinished stage. If all stages are finished, the first stage with a configuration
        file of its own (`Stage.config`) runs again and checks whether this file has changed. This check is left out if
        the present run's stage has such a file.

        Raises:
            ValueError: the chain cannot go on, for a reason that `Chain.check_finished` lists.
        """
        if is_dry_run(trainer):
            return []
        chain, own = self.chain_of(trainer)
        chain.check_finished()
        for stage in [*chain.unfinished(own), *chain.to_compare(own)]:
            return chain.overrides(stage)
        if trainer.is_global_zero:
            self.report(chain)
        return []

    def overrides(self, name: str, run: RunFolder) -> list[str]:
        """Returns options that, added to the command of `run`, make this command run only one stage of the chain.

        Args:
            name: name of the stage; "root" is the first stage.
            run: folder of any run of the chain.

        Raises:
            ValueError: there is no such stage (the message lists all stages), `name` is "root" but `run` is a later
                stage, the root has not started, or the stage needs a choice of erased tokens that is not stored.
        """
        chain, own = Chain.of_run(run.path, self.stages)
        stage = chain.stage(name)
        if own.name and not stage.name:
            raise ValueError(
                f"{run.path} is not the root, the first stage of its chain: to run the root, give --config "
                f"{chain.root.config_file}"
            )
        return [*(chain.overrides(stage) if stage.name else []), "--stage=null", "--follow_up=false"]

    def _scores_with(self, stage: Stage) -> list[str]:
        """Returns the names of the methods that score tokens after a stage's test, to decide which tokens to erase."""
        return list({str(facts["method"]): None for facts in self.erasures_by(stage).values()})

    def awaits_erasures(self, trainer: Trainer) -> bool:
        """Returns whether later stages need erasures that the trainer's run has not stored, or not completely.

        This is so if the chain was added to a finished run. The run is tested again, which stores the erasures.
        """
        chain, stage = self.chain_of(trainer)
        return chain.awaits(stage)

    def chain_of(self, trainer: Trainer) -> tuple[Chain, Stage]:
        """Returns the chain to which the trainer's run belongs, and the run's stage in this chain."""
        return Chain.of_run(Path(trainer.default_root_dir), self.stages)


def scores_of(chain: Chain, stage: Stage) -> pd.DataFrame:
    """Returns a stage's classification results on its test splits. The column "run" is the folder of the stage's run.

    Raises:
        ValueError: the stage has not been tested.

    Example:
        >>> import tempfile
        >>> chain = Chain(RunFolder(Path(tempfile.mkdtemp(), "roar", "seed0")), [Stage("", "full text", "root")])
        >>> chain.root.path.mkdir(parents=True)
        >>> results = pd.DataFrame({"split": ["validation", "test"], "preset": "", "value": [0.5, 0.75]})
        >>> results.to_parquet(chain.root.results_file)
        >>> scores_of(chain, chain.stages[0])[["split", "value", "run"]].values.tolist()
        [['test', 0.75, 'roar/seed0']]
    """
    run = chain.run(stage)
    table = run.results
    if table is None:
        raise ValueError(f"{run.path} has no results: test this run first")
    rows = table[(table["preset"] == "") & (table["split"] != VALIDATION)]
    return rows.assign(run=run.path.relative_to(chain.root.experiment_dir.parent).as_posix())
