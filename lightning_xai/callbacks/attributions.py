"""The callback that explains every evaluated batch and passes the attributions to other callbacks."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from lightning import Callback, LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.at_layer import with_each_layer
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.given import give_data, give_scorer, give_texts
from lightning_xai.callbacks.base import (
    ExplainedBatch,
    ExplainedReceiver,
    are_first_examples,
    data_of,
    decision_threshold_of,
    network_of,
    only_tunes,
    receivers_after,
    split_of_loader,
    test_splits,
)
from lightning_xai.callbacks.changed_classes import ChangedClasses
from lightning_xai.callbacks.cost import Cost, start_peak_memory
from lightning_xai.callbacks.forecast.workload import EvaluationProgress, workload_of
from lightning_xai.callbacks.method_counts import clear_counts, counts_of_methods, lines_of_counts
from lightning_xai.functional.classes.targets import TargetPolicy, select_targets
from lightning_xai.functional.erasure.evaluate import predict_of
from lightning_xai.functional.erasure.segment_counts import segments_counted
from lightning_xai.functional.sizes import require_max_examples
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.models.base import Classifier
from lightning_xai.models.scorer.scorer_tokenizer import text_rows
from lightning_xai.runs.names import check_name
from lightning_xai.runs.ranks import gather
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.types import Attribution, Batch


class ComputeAttributions(Callback):
    """Explains every evaluated batch and passes the attributions to later callbacks, the receivers.

    A receiver is a callback that defines `on_explained(explained: ExplainedBatch)` and is listed between this callback
    and the next callback that computes attributions. Receivers may come from other packages, and are called in the
    order of `trainer.callbacks`. If `max_examples` excludes all examples of a batch, no receiver is called for this
    batch.

    The callback runs in `validate`, `test` and `predict`, with any Trainer. Attributions are computed in float32 and
    outside inference mode. Afterwards, the network's train or eval modes, and `requires_grad` of its parameters, are as
    before. If a method needs attention weights, the network uses eager attention from setup to teardown. A test
    explains the validation split only if a receiver's attribute `needs_validation_in_test` is true, or if the data's
    `extra_test_splits` names this split.

    The explained classes are chosen from float32 probabilities, which the metrics also use. If the run's precision is
    not float32, the predicted classes of some texts may differ between this precision and float32. A line at the end of
    the evaluation then gives the number of these texts.

    Args:
        methods: name in tables and plots -> attribution method.
        targets: which classes of each example to explain. A metric may use only some of them.
        num_top: number of explained classes per example if `targets` is "topk".
        max_examples: only the first `max_examples` examples of each split are explained, to limit the cost. If None,
            all examples are explained.
        during_fit: whether to also explain during the validations of a fit. False by default, because explaining may
            take longer than the training itself.

    Raises:
        ValueError: `methods` is empty.

    Example:
        >>> from lightning_xai.attributions.random import Random
        >>> callback = ComputeAttributions({"random": Random()}, targets="gold", max_examples=100)
        >>> list(callback.methods), callback.costs["random"].num_examples("test")
        (['random'], 0)
    """

    only_evaluates: ClassVar[bool] = True

    def __init__(
        self,
        methods: dict[str, AttributionMethod],
        targets: TargetPolicy = "gold_or_predicted",
        *,
        num_top: int = 1,
        max_examples: int | None = None,
        during_fit: bool = False,
    ) -> None:
        if not methods:
            raise ValueError("methods is empty: add at least one attribution method")
        for name in methods:
            check_name("a name in methods", name)
        self.methods = methods
        self.targets = targets
        self.num_top = num_top
        require_max_examples(max_examples)
        self.max_examples = max_examples
        self.during_fit = during_fit
        self.costs = {name: Cost() for name in methods}
        self._changed_classes = ChangedClasses()
        self.progress: EvaluationProgress | None = None  # measures how long methods, and the metrics of receivers, take
        self._receivers: list[ExplainedReceiver] = []
        self._attention_before: Any = None  # attention kernel that teardown restores; None if unchanged

    @property
    def state_key(self) -> str:
        return self._generate_state_key(methods=sorted(self.methods), targets=self.targets)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        network = network_of(pl_module)
        self.methods = with_each_layer(self.methods, network)
        self._forget()
        give_data(self.methods.values(), data_of(trainer))
        give_texts(self.methods.values(), text_rows(data_of(trainer)))
        give_scorer(self.methods.values(), getattr(pl_module, "trained_scorer", None))
        self._receivers = receivers_after(trainer, self)
        self._active = stage != "fit" or self.during_fit
        self._explains_validation_in_test = any(
            getattr(receiver, "needs_validation_in_test", False) for receiver in self._receivers
        )
        if self._active and any(method.needs_attentions for method in self.methods.values()):
            if network.attention_implementation != "eager":
                self._attention_before = network.attention_implementation
                network.set_attention("eager")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self._attention_before is not None:
            network_of(pl_module).set_attention(self._attention_before)
            self._attention_before = None

    def _forget(self) -> None:
        """Resets costs, progress and other counts, so that each validation of a fit starts from zero."""
        self.costs = {name: Cost() for name in self.methods}
        self._changed_classes = ChangedClasses()
        self.progress = None

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._forget()

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._active and not trainer.sanity_checking:
            self._finish(trainer)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish(trainer)

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish(trainer)

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        if self._active and not trainer.sanity_checking:
            self._explain(trainer, pl_module, outputs, batch, VALIDATION)

    def on_test_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        split = split_of_loader(trainer, dataloader_idx)
        if self._explains_validation_in_test or not only_tunes(trainer, split):
            self._explain(trainer, pl_module, outputs, batch, split)

    def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0) -> None:
        split = getattr(data_of(trainer), "predict_split", "predict")
        self._explain(trainer, pl_module, outputs, batch, split)

    def _explain(
        self, trainer: Trainer, module: LightningModule, outputs: dict[str, Any], batch: Batch, split: str
    ) -> None:
        rows = are_first_examples(trainer, batch, split, self.max_examples).nonzero().flatten()
        if not len(rows):
            return
        network, explained = network_of(module), batch[rows]
        decision_threshold = decision_threshold_of(module)
        predict = PredictOnce(
            predict_of(network), explained.inputs, decision_threshold=decision_threshold, pad_id=network.pad_id
        )
        progress = self._progress(trainer, split, network)
        progress.begin_batch(
            split, num_examples=len(explained), num_tokens=float(explained.inputs.attention_mask.sum())
        )
        probs = predict(explained.inputs)  # in float32, so that explanations and metrics use the same predicted classes
        self._changed_classes.add(
            split,
            explained.index,
            outputs["probs"][rows],
            probs,
            multilabel=network.multilabel,
            decision_threshold=decision_threshold,
        )
        targets, target_mask = select_targets(
            self.targets, probs, explained.labels, decision_threshold=decision_threshold, topk=self.num_top
        )
        attributions = {}
        for number, name in enumerate(self.methods, start=1):
            with progress.part(name, f"{name} (method {number} of {len(self.methods)}) explains"):
                attributions[name] = self._attribute(name, network, explained, split, targets, target_mask)
        magnitudes = frozenset(name for name, method in self.methods.items() if not method.has_sign)
        for receiver in self._receivers:
            receiver.on_explained(ExplainedBatch(explained, attributions, predict, split, magnitudes))
        progress.end_batch()

    def _progress(self, trainer: Trainer, split: str, network: Classifier) -> EvaluationProgress:
        """Returns the EvaluationProgress in `self.progress`. The call for the first batch creates it."""
        if self.progress is None:
            clear_counts(self.methods)  # discards earlier counts, for example from the trial on one batch before a run
            splits = [split]
            if trainer.testing:
                needed = self._explains_validation_in_test
                splits = [s for s in test_splits(trainer) if needed or not only_tunes(trainer, s)]
            self.progress = EvaluationProgress(trainer, workload_of(trainer, self, splits, network))
        return self.progress

    def _finish(self, trainer: Trainer) -> None:
        """Merges the costs of all processes, and prints lines that report what was counted during the evaluation.

        The lines give the number of texts whose predicted classes in the run's precision differ from those in float32,
        and the counts that methods keep. For example, fAML counts at which step each explanation had its best scores.
        """
        gathered = gather((self.costs, self._changed_classes, counts_of_methods(self.methods)))
        self.costs = {name: Cost.total(costs[name] for costs, _, _ in gathered) for name in self.methods}
        if trainer.is_global_zero:
            for line in ChangedClasses.total(changed for _, changed, _ in gathered).lines(str(trainer.precision)):
                print(line)
            for line in lines_of_counts([counts for _, _, counts in gathered]):
                print(line)

    def _attribute(
        self, name: str, network: Classifier, batch: Batch, split: str, targets: Tensor, target_mask: Tensor
    ) -> Attribution:
        """Explains a batch with one method, and adds the passes, seconds and memory to the method's cost."""
        method = self.methods[name].for_split(split)
        peak, start = start_peak_memory(batch.inputs.device), time.perf_counter()
        with segments_counted() as segments:
            attribution = method.attribute(network, batch.inputs, targets, target_mask)
        seconds, memory = time.perf_counter() - start, peak()
        num_tokens = batch.inputs.token_mask.sum(dim=1).tolist()
        num_targets = target_mask.sum(dim=1).tolist()
        passes = [method.passes(t, k) for t, k in zip(num_tokens, num_targets, strict=True)]
        self.costs[name].add(
            split, batch.index.tolist(), passes, seconds, memory,
            num_targets=num_targets, num_tokens=num_tokens, segments=segments,
        )  # fmt: skip
        return attribution
