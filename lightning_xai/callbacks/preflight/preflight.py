"""The preflight before a run: tries every method and metric on two short texts, and lists all failures."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.strategies import FSDPStrategy
from lightning.pytorch.trainer.states import TrainerFn

from lightning_xai.callbacks.base import callbacks_of, data_of, only_tunes, test_splits
from lightning_xai.callbacks.order import check_order
from lightning_xai.callbacks.preflight.preflight_memory import PreflightMemory
from lightning_xai.callbacks.preflight.preflight_run import Failure, HasPreflight, PreflightRun
from lightning_xai.callbacks.preflight.preflight_steps import (
    sources_of,
    try_longest_text,
    try_methods,
    try_network,
    try_objective,
)
from lightning_xai.callbacks.result_rows import ResultRow, left_out_row
from lightning_xai.functional.network.modes import eager_attention, evaluation_mode
from lightning_xai.functional.network.untouched import memory_returned, network_kept, random_states_kept
from lightning_xai.runs.progress import say
from lightning_xai.runs.ranks import gather
from lightning_xai.runs.splits import VALIDATION

SKIP_UNFIT = "--skip_unfit true"


class Preflight(Callback):
    """Tries the objective, network, methods, metrics and erasures on short texts, before the run starts.

    Two texts of every split are cut to eight explainable tokens; one has evidence and one has none, if the split has
    both. Methods take only a few steps or samples. A method that needs passes through the network is tried on the first
    split, and on a further split only if texts there have another form, such as pairs. Metrics are tried on made-up
    scores of both texts, and then on the scores of each method for one text. Before a fit, probabilities are made up
    (see `confident_probs`), because an untrained network predicts at random. Finally, the network makes a forward pass
    over the longest text, and a backward pass if a method needs backward passes.

    All processes try the same texts. The preflight logs nothing and writes no results. Afterwards, random generators,
    gradients, modes, hooks, the attention kernel and the measured costs of methods are as before. Under FSDP, there is
    no preflight.

    Args:
        tests_after_fit: whether a test follows the fit; if so, the preflight covers both.
        enabled: whether to do the preflight. The order of the callbacks is checked even if this is False.
        skip_unfit: whether to leave out methods and metrics that fail. If False, a failure ends the run.
        key: text that identifies the methods, network and data. Runs with equal keys share the outcomes of preflights.
        memory: outcomes of earlier preflights in this command. The fits of a chain also share outcomes through a file.
        remedy: the option that leaves out failing parts. Error messages mention it.

    Raises:
        ValueError: at the start of the fit, test, validation or prediction, if a method, metric or other part fails
            and is not left out; the message lists all failures. At setup: a callback with `on_explained` has no
            ComputeAttributions before it, or there are several ComputeAttributions and no callback uses the
            attributions of one of them.

    Example:
        >>> Preflight(skip_unfit=True).left_out
        {}
    """

    def __init__(
        self,
        *,
        tests_after_fit: bool = False,
        enabled: bool = True,
        skip_unfit: bool = False,
        key: str = "",
        memory: PreflightMemory | None = None,
        remedy: str = SKIP_UNFIT,
    ) -> None:
        self.tests_after_fit = tests_after_fit
        self.enabled = enabled
        self.skip_unfit = skip_unfit
        self.key = key
        self.memory = memory or PreflightMemory()
        self.remedy = remedy
        self.left_out: dict[str, Failure] = {}  # description of a method or metric that is left out -> its failure
        self._evaluated: list[str] = []  # splits for which the running evaluation writes results

    @property
    def leaves_out(self) -> bool:
        """Whether the run continues without the methods and metrics that fail in the preflight."""
        return self.enabled and self.skip_unfit

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        check_order(callbacks_of(trainer))

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        stages = {"fit": [VALIDATION]}
        if self.tests_after_fit:
            stages["test"] = test_splits(trainer)
        self._begin(trainer, pl_module, stages)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # the objective is tried here, because some objectives finish their setup only after on_fit_start
        self._begin(trainer, pl_module, {"train": ["train"]})

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._evaluated = [VALIDATION]
            self._begin(trainer, pl_module, {"validate": [VALIDATION]})

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._evaluated = [split for split in test_splits(trainer) if not only_tunes(trainer, split)]
        self._begin(trainer, pl_module, {"test": test_splits(trainer)})

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin(trainer, pl_module, {"predict": [getattr(data_of(trainer), "predict_split", "predict")]})

    def result_rows(self) -> list[ResultRow]:
        """Returns a row for each result that is left out, with the reason instead of a value."""
        missing = {key: failure.reason for failure in self.left_out.values() for key in failure.results}
        return [
            left_out_row(split, key.preset, key.method, key.metric, reason)
            for split in self._evaluated
            for key, reason in missing.items()
        ]

    def _begin(self, trainer: Trainer, module: LightningModule, stages: dict[str, list[str]]) -> None:
        if not self.enabled:
            return
        if isinstance(trainer.strategy, FSDPStrategy):
            say("preflight: skipped, because FSDP splits the network's weights among processes")
            return
        data = data_of(trainer)
        if not (hasattr(data, "split") and hasattr(data, "collate")):
            say(f"preflight: skipped, because {type(data).__name__} is not a TextDataModule")
            return
        wanted = {(stage, split) for stage, splits in stages.items() for split in splits}
        tried = self.memory.tried.setdefault(self.key, set())
        known = self.memory.failures.setdefault(self.key, {})
        if not wanted <= tried and trainer.state.fn == TrainerFn.FITTING:
            self.memory.recall(self.key, trainer)
        if not wanted <= tried:
            known |= self._new_failures(PreflightRun(trainer, module, stages))
            tried |= wanted
            if trainer.state.fn == TrainerFn.FITTING:
                self.memory.record(self.key, trainer)
        if known:
            self._leave_out(PreflightRun(trainer, module, stages, failures=dict(known), replays=True))

    def _new_failures(self, preflight: PreflightRun) -> dict[str, Failure]:
        """Tries the run on short texts. Returns a dict: description of what fails -> its failure.

        Raises:
            ValueError: there are failures, and `skip_unfit` is False or a failing part cannot be left out.
        """
        self._try(preflight)
        # failures are gathered from all processes, so that all processes leave out the same methods and metrics
        failures = {subject: failure for part in gather(preflight.failures) for subject, failure in part.items()}
        if failures and not (self.skip_unfit and all(failure.can_be_left_out for failure in failures.values())):
            name = type(preflight.network).__name__
            message = failures_message(list(failures.values()), name, skip_unfit=self.skip_unfit, remedy=self.remedy)
            raise ValueError(message) from (preflight.errors[0] if preflight.errors else None)
        for failure in failures.values():
            say(f"left out: {failure}")
        return failures

    def _try(self, preflight: PreflightRun) -> None:
        contexts = (
            warnings.catch_warnings(),
            memory_returned(preflight.module.device),
            random_states_kept(),
            network_kept(preflight.module),
            evaluation_mode(preflight.module),
            torch.set_grad_enabled(True),
        )
        with ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            warnings.simplefilter("ignore")  # the run itself will show the same warnings
            if "train" in preflight.stages:
                try_objective(preflight)
            else:
                self._try_evaluation(preflight)

    def _try_evaluation(self, preflight: PreflightRun) -> None:
        if not preflight.replays and not try_network(preflight):
            return  # if the network fails, all methods and metrics fail, too
        sources = sources_of(preflight)
        methods = [method for source in sources for method in source.methods.values()]
        with eager_attention(preflight.network, enabled=any(method.needs_attentions for method in methods)):
            for source in sources:
                try_methods(preflight, source)
            for callback in callbacks_of(preflight.trainer):
                if isinstance(callback, HasPreflight):
                    callback.on_preflight(preflight)
            if sources and not preflight.replays:
                try_longest_text(preflight)

    def _leave_out(self, preflight: PreflightRun) -> None:
        self._try_evaluation(preflight)
        for subject, failure in preflight.failures.items():
            self.left_out[subject] = failure
            for remove in preflight.leave_out.get(subject, []):
                remove()
        for source in sources_of(preflight):
            if not source.methods:
                raise ValueError(
                    f"no method of {type(source).__name__} works, so there are no explanations: choose other methods"
                )


def failures_message(failures: Sequence[Failure], network: str, *, skip_unfit: bool, remedy: str = SKIP_UNFIT) -> str:
    """Returns a one-line message that lists all failures.

    If `skip_unfit` is False and all failures can be left out, the message also names the option that does so, `remedy`.

    Example:
        >>> failures_message([Failure("method alti (ALTI)", "it has no layers")], "BiLSTM", skip_unfit=True)
        '1 part does not work with BiLSTM: (1) method alti (ALTI): it has no layers'
    """
    count = "1 part does" if len(failures) == 1 else f"{len(failures)} parts do"
    listed = "; ".join(f"({number}) {failure}" for number, failure in enumerate(failures, 1))
    message = f"{count} not work with {network}: {listed}"
    if not skip_unfit and all(failure.can_be_left_out for failure in failures):
        message += f"; {remedy} leaves them out"
    return message
