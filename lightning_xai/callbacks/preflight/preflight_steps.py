"""The steps of a `Preflight`: they try the network, the methods, the objective and the longest text."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod, explaining
from lightning_xai.attributions.cached import require_examples
from lightning_xai.attributions.given import with_parts
from lightning_xai.callbacks.base import (
    AttributionSource,
    callbacks_of,
    data_of,
    decision_threshold_of,
    only_tunes,
    receivers_after,
)
from lightning_xai.callbacks.monitors import check_train_monitors
from lightning_xai.callbacks.preflight.preflight_run import (
    PreflightRun,
    ResultKey,
    Scored,
    WeightsChanged,
    check_passes,
)
from lightning_xai.callbacks.preflight.short_texts import confident_probs
from lightning_xai.functional.classes.targets import select_targets
from lightning_xai.functional.network.untouched import attributes_kept, weight_checksums
from lightning_xai.functional.scores.completeness import CompletenessCheck
from lightning_xai.models.output_check import check_output
from lightning_xai.types import Batch


def sources_of(preflight: PreflightRun) -> list[Any]:
    """Returns the callbacks that compute attributions in a stage of the run, such as "fit" or "test"."""
    return [
        callback
        for callback in callbacks_of(preflight.trainer)
        if isinstance(callback, AttributionSource) and explained_splits(preflight, callback)
    ]


def explained_splits(preflight: PreflightRun, source: Any) -> list[str]:
    """Returns the splits that `source`, a callback that computes attributions, explains in the stages of the run.

    The stages are, for example, "fit" and "test". In the stage "test", the validation split is explained only if a
    callback that receives the attributions needs it.
    """
    receivers = receivers_after(preflight.trainer, source)
    needs_validation = any(getattr(receiver, "needs_validation_in_test", False) for receiver in receivers)
    explained = [
        split
        for stage in preflight.stages_of(source)
        for split in preflight.stages[stage]
        if stage != "test" or needs_validation or not only_tunes(preflight.trainer, split)
    ]
    return list(dict.fromkeys(explained))


def smallest_max_examples(preflight: PreflightRun, source: Any) -> int | None:
    """Returns the smallest `max_examples` of `source`, which computes attributions, and of the callbacks that use them.

    Returns None if all examples are used.
    """
    users = [source, *receivers_after(preflight.trainer, source)]
    limits = [limit for user in users if (limit := getattr(user, "max_examples", None)) is not None]
    return min(limits, default=None)


def explained_examples(preflight: PreflightRun, source: Any, split: str) -> np.ndarray:
    """Returns the indices of a split's examples that `source`, a callback that computes attributions, will explain.

    The indices depend on the `max_examples` of `source`, and on the trainer's `limit_test_batches` and the like.
    """
    trainer, data = preflight.trainer, data_of(preflight.trainer)
    index, most = data.split(split).index, getattr(source, "max_examples", None)
    # without a sampler, a user's data module may load examples in any order, so the trainer's limits are ignored
    if not hasattr(data, "sampler"):
        return index[:most]
    limits = {
        "fit": trainer.limit_val_batches, "validate": trainer.limit_val_batches, "test": trainer.limit_test_batches,
        "predict": trainer.limit_predict_batches,
    }  # fmt: skip
    sampler = data.sampler(split, shuffle=False)
    batches, last = sampler.batches(), 0
    for stage in preflight.stages_of(source):
        if split in preflight.stages[stage]:
            limit = limits[stage]
            of_process = limit if isinstance(limit, int) else int(len(sampler) * limit)
            last = max(last, min(of_process * trainer.world_size, len(batches)))
    positions = batches.rows[: batches.bounds[last]]
    return index[positions if most is None else positions[positions < most]]


def examples_with_targets(preflight: PreflightRun, source: Any, split: str) -> np.ndarray:
    """Returns the indices of the explained examples that certainly have a target (an explained class).

    On multi-label data, an example may have no gold class, and the network may predict no class for it. The preflight
    does not know the predictions of the run, so only gold classes are certain targets. If `source` explains only
    predicted classes of multi-label data, the result is therefore empty.
    """
    examples, policy = explained_examples(preflight, source, split), getattr(source, "targets", "gold_or_predicted")
    if not preflight.network.multilabel or policy in ("all", "topk"):
        return examples
    rows = data_of(preflight.trainer).split(split)
    labels = rows.labels([rows.position(int(example)) for example in examples])
    has_gold = np.array([policy != "predicted" and bool(gold) for gold in labels], dtype=bool)
    return examples[has_gold]


def try_network(preflight: PreflightRun) -> bool:
    """Tries a forward pass over a few short texts of each split, in the run's precision. Returns whether it works."""
    network = preflight.network

    def forward() -> None:
        for split in all_splits(preflight):
            inputs = preflight.rows(split).short.inputs
            with torch.no_grad(), preflight.trainer.precision_plugin.forward_context():
                check_output(network, network(inputs), len(inputs))

    return preflight.attempt(f"network {type(network).__name__}", forward)


def try_methods(preflight: PreflightRun, source: Any) -> None:
    """Tries every method of the callback `source`. If several callbacks have methods, a failure names its callback."""
    sources = sources_of(preflight)
    suffix = f" of {type(source).__name__} {sources.index(source) + 1}" if len(sources) > 1 else ""
    presets = [r for r in receivers_after(preflight.trainer, source) if hasattr(r, "preset") and hasattr(r, "metrics")]
    checksums = {} if preflight.replays else weight_checksums(preflight.network)
    for name, method in list(source.methods.items()):
        preflight.attempt(
            f"method {name} ({type(method).__name__}){suffix}",
            partial(_explain, preflight, source, name, method, checksums),
            results=[ResultKey(user.preset, name, metric.name) for user in presets for metric in user.metrics],
            leave_out=partial(source.methods.pop, name, None),
        )


def _explain(
    preflight: PreflightRun, source: Any, name: str, method: AttributionMethod, checksums: dict[str, int]
) -> None:
    for split, batch in preflight.batches(
        explained_splits(preflight, source), method, smallest_max_examples(preflight, source)
    ):
        may_be_stored = not any(check_passes(method))
        examples = examples_with_targets(preflight, source, split) if may_be_stored else np.zeros(0, dtype=np.int64)
        if len(examples) and not np.isin(batch.index.tolist(), examples).all():
            # the method may read stored scores, which need not cover examples without an explained class
            batch = preflight.examples(split, examples[:2])
        probs = _probabilities(preflight, batch)
        targets, target_mask = targets_of(preflight, source, probs, batch.labels)
        tried = method.for_split(split).for_preflight()
        require_examples(tried, examples)
        rows = data_of(preflight.trainer).split(split)
        positions = np.searchsorted(rows.index, explained_examples(preflight, source, split))
        longest = int(np.max(rows.lengths[positions], initial=0))
        for part in with_parts([tried]):
            part.check_use(getattr(source, "targets", "gold_or_predicted"), longest)
        try:
            with attributes_kept(*parts_of(tried)):
                attribution = tried.attribute(preflight.network, batch.inputs, targets, target_mask)
        finally:
            _refuse_changes(preflight.network, checksums)
        preflight.scores.setdefault(id(source), {}).setdefault(name, Scored(batch, attribution, probs))


def _probabilities(preflight: PreflightRun, batch: Batch) -> Tensor:
    """Returns the probabilities [B, C] from which the explained classes of the trial are chosen.

    Before a fit, the untrained network would predict random classes, for which the method `Cached` may find no stored
    scores. So made-up probabilities are used, unless the fit does not train the network, as in AML.
    """
    trains_network = preflight.fits and any(weight.requires_grad for weight in preflight.network.parameters())
    if trains_network:
        return confident_probs(batch, preflight.network.num_classes)
    return preflight.network.predict(batch.inputs)


def parts_of(method: AttributionMethod) -> list[Any]:
    """Returns a method, the methods that it contains, and the CompletenessChecks of all these methods.

    Example:
        >>> from lightning_xai.attributions.integrated_gradients import IntegratedGradients
        >>> from lightning_xai.attributions.transformed import Transformed
        >>> [type(part).__name__ for part in parts_of(Transformed(IntegratedGradients(), ["absolute"]))]
        ['Transformed', 'IntegratedGradients', 'CompletenessCheck']
    """
    methods = list(with_parts([method]))
    values = [value for part in methods for value in vars(part).values()]
    return [*methods, *(value for value in values if isinstance(value, CompletenessCheck))]


def _refuse_changes(network: torch.nn.Module, checksums: dict[str, int]) -> None:
    """Updates the network's `checksums`, and raises an error if they have changed.

    If parameters have changed, the error is WeightsChanged, because the preflight cannot restore them. If only buffers
    have changed, the error is ValueError.
    """
    before = dict(checksums)
    checksums.update(weight_checksums(network))
    changed = [name for name, checksum in checksums.items() if checksum != before.get(name)]
    weights = [name for name in changed if name in dict(network.named_parameters())]
    if changed:
        error = WeightsChanged if weights else ValueError
        raise error(f"the method changed the network's {(weights or changed)[0]}: let it work on a copy of the network")


def targets_of(preflight: PreflightRun, source: Any, probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the classes [B, K] that the callback `source` explains, and a mask [B, K], False at padding."""
    return select_targets(
        getattr(source, "targets", "gold_or_predicted"),
        probs,
        labels,
        decision_threshold=decision_threshold_of(preflight.module),
        topk=getattr(source, "num_top", 1),
    )


def all_splits(preflight: PreflightRun) -> list[str]:
    """Returns the splits that the stages of the run, such as "fit" and "test", use."""
    return list(dict.fromkeys(split for splits in preflight.stages.values() for split in splits))


def try_objective(preflight: PreflightRun) -> None:
    """Tries to compute the loss of a training example, and the gradient of this loss."""
    module: Any = preflight.module
    name = type(module).__name__

    def nothing(*_: object, **__: object) -> None:
        """Replaces `log` and `log_dict`, because a preflight logs nothing."""

    def run() -> None:
        batch = preflight.rows("train").short[:1]  # one example, because some objectives need many passes
        # cuDNN is off, because its recurrent layers have no backward pass in eval mode
        with attributes_kept(module), torch.backends.cudnn.flags(enabled=False):
            module.log = module.log_dict = nothing
            with preflight.trainer.precision_plugin.forward_context():
                losses: object = module.losses(batch)
            if not isinstance(losses, dict) or "loss" not in losses:
                shown = ", ".join(losses) or "nothing" if isinstance(losses, dict) else type(losses).__name__
                raise ValueError(f"{name}.losses returned {shown}: return a dict with the scalar 'loss'")
            # an objective with its own training_step may log more than these losses
            if type(module).training_step.__qualname__ == "Objective.training_step":
                check_train_monitors(callbacks_of(preflight.trainer), losses)
            loss = losses["loss"]
            if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
                raise ValueError(
                    f"the 'loss' of {name}.losses is not a scalar with a gradient: return a mean over examples"
                )
            trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
            torch.autograd.grad(loss, trained, allow_unused=True)
            if hasattr(module, "try_terms"):
                with preflight.trainer.precision_plugin.forward_context():
                    module.try_terms(preflight.rows("train").short)

    preflight.attempt(f"objective {name}", run)


def try_longest_text(preflight: PreflightRun) -> None:
    """Tries a forward pass over the longest explained text, and a backward pass if a method needs backward passes."""
    network = preflight.network

    def run() -> None:
        batch = preflight.longest(
            list(dict.fromkeys(s for source in sources_of(preflight) for s in explained_splits(preflight, source)))
        )
        if not preflight.needs_backward:
            with torch.no_grad(), preflight.trainer.precision_plugin.forward_context():
                network(batch.inputs)
            return
        with explaining(network, batch.inputs.device.type):
            inputs = batch.inputs.map(torch.clone)
            embeds = network.embed(inputs).detach().requires_grad_()
            torch.autograd.grad(network(inputs, embeds).logits.sum(), embeds)

    preflight.attempt("the longest text", run)
