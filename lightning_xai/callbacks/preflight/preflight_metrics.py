"""Tries metrics before a run (in a preflight): first on made-up scores, then on the scores of the methods."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lightning_xai.attributions.random import random_scores
from lightning_xai.callbacks.base import ExplainedBatch, decision_threshold_of, only_tunes
from lightning_xai.callbacks.preflight.preflight_run import PreflightRun, ResultKey, Scored
from lightning_xai.callbacks.preflight.preflight_steps import smallest_max_examples, targets_of
from lightning_xai.callbacks.preflight.short_texts import confident_probs
from lightning_xai.functional.erasure.evaluate import predict_of
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.runs.splits import VALIDATION
from lightning_xai.types import Attribution, Batch


def made_up_batch(preflight: PreflightRun, source: Any, split: str, *, whole: bool = False) -> ExplainedBatch:
    """Returns one or two examples of a split with made-up scores, for trying callbacks that use attributions.

    The texts are short, unless `whole` is True. Gold classes and classes with evidence have high probabilities (see
    `confident_probs`), so that metrics of predicted classes have something to measure.
    """
    rows = preflight.rows(split, smallest_max_examples(preflight, source))
    batch = rows.whole if whole else rows.short
    probs = confident_probs(batch, preflight.network.num_classes)
    targets, target_mask = targets_of(preflight, source, probs, batch.labels)
    scores = random_scores(batch.inputs, targets, seed=0) * target_mask.unsqueeze(-1)
    attribution = Attribution(scores, targets, target_mask, batch.inputs.token_mask)
    return ExplainedBatch(batch, {"made-up scores": attribution}, _predict(preflight, batch, probs), split)


def _predict(preflight: PreflightRun, batch: Batch, probs: Tensor) -> PredictOnce:
    """Returns a function that returns `probs` [B, C] for `batch`, and predicts with the network for other inputs."""
    network, threshold = preflight.network, decision_threshold_of(preflight.module)
    predict = PredictOnce(predict_of(network), batch.inputs, decision_threshold=threshold, pad_id=network.pad_id)
    predict.probs = probs
    return predict


def try_metrics(preflight: PreflightRun, evaluation: Any) -> None:
    """Tries copies of an evaluation's metrics, first on made-up scores.

    A metric that passes is then tried on the scores of all methods together. If this fails, it is tried on each
    method's scores separately, so that the error names the method. The copies never gather records from other
    processes.

    Args:
        preflight: the preflight.
        evaluation: a callback with a `preset`, a list of `metrics`, the `source` of the attributions, and a set
            `left_out`. If a metric fails on a method's scores and is left out for this method, the pair (method,
            metric) is added to this set.
    """
    made: dict[str, ExplainedBatch] = {}

    def batch(split: str) -> ExplainedBatch:
        if split not in made:
            made[split] = made_up_batch(preflight, evaluation.source, split)
        return made[split]

    for metric in list(evaluation.metrics):
        stages = [stage for stage in preflight.stages_of(evaluation) if stage != "predict"]
        works = [
            preflight.attempt(
                f"metric {evaluation.preset}/{metric.name} ({type(metric).__name__})",
                partial(
                    _measure,
                    metric,
                    evaluation.preset,
                    batch,
                    preflight.stages[stage],
                    tests=stage == "test",
                    tuned_on=VALIDATION if stage == "test" and only_tunes(preflight.trainer, VALIDATION) else None,
                ),
                results=[ResultKey(evaluation.preset, name, metric.name) for name in evaluation.source.methods],
                leave_out=partial(_remove, evaluation.metrics, metric),
            )
            for stage in stages
        ]
        if works and all(works):
            _try_scores(preflight, evaluation, metric)


def _try_scores(preflight: PreflightRun, evaluation: Any, metric: AttributionMetric) -> None:
    """Tries a metric on the scores of all methods together. If this fails, tries it on each method's scores alone.

    If `preflight` replays an earlier preflight, the metric is not tried again. Its failures are looked up by method.
    """
    scores = preflight.scores.get(id(evaluation.source), {})
    together = replace(preflight, failures={}, errors=[], leave_out={})
    if not preflight.replays and together.attempt("all methods", partial(_measure_scores, preflight, metric, scores)):
        return
    for name in evaluation.source.methods:
        preflight.attempt(
            f"metric {evaluation.preset}/{metric.name} ({type(metric).__name__}) of {name}",
            partial(_measure_scores, preflight, metric, {name: scores[name]} if name in scores else {}),
            results=[ResultKey(evaluation.preset, name, metric.name)],
            leave_out=partial(evaluation.left_out.add, (name, metric.name)),
        )


def _measure_scores(preflight: PreflightRun, metric: AttributionMetric, scores: Mapping[str, Scored]) -> None:
    """Tries a copy of a metric on the scores of several methods, with one text for each method.

    The text of a method is the first text that the method explained in the preflight; if possible, this text has
    evidence. If several methods explained the same batch, they have the same text, and the copy gets a batch that
    repeats this text with the scores of each method.
    """
    if not scores:
        return
    measured = _copy_of(metric, preflight.module.device)
    groups: dict[int, list[Scored]] = {}  # Python id of a batch -> scores of the methods that explained it
    for scored in scores.values():
        groups.setdefault(id(scored.batch), []).append(scored)
    start = 0
    for group in groups.values():
        batch, probs = group[0].batch, group[0].probs
        rows = torch.zeros(len(group), dtype=torch.long)
        index = start + torch.arange(len(rows), device=batch.index.device)
        repeated = replace(batch[rows], inputs=replace(batch.inputs[rows], index=index))
        start += len(rows)
        attributions = [scored.attribution for scored in group]
        attribution = attributions[0][rows]
        attribution = replace(attribution, scores=torch.cat([part.scores[:1] for part in attributions]))
        measured.update(attribution, repeated, _predict(preflight, repeated, probs[rows]))
    if not metric.needs_tuning:
        measured.compute()
    elif preflight.fits:
        # tuning needs a predicted class with evidence. Before a fit, the predictions are made up to include such a
        # class. A trained network may not predict such a class, so tuning is not tried with it
        measured.tune_from(measured)
        measured.compute()


def _copy_of(metric: AttributionMetric, device: torch.device) -> AttributionMetric:
    """Returns a copy of a metric. The copy never gathers records from other processes."""
    copied = copy.deepcopy(metric).to(device)
    copied.distributed_available_fn = lambda: False
    return copied


def _remove(metrics: list[Any], metric: Any) -> None:
    # metrics are compared with `is not`, because == between two metrics returns a metric
    metrics[:] = [other for other in metrics if other is not metric]


def refuse_tuning(preset: str, metric: AttributionMetric) -> None:
    """Raises ValueError if a metric needs tuning. Call this if the validation split, which tunes it, is not evaluated.

    Args:
        preset: name of the metric's evaluation, for the message.
        metric: the metric. It may tune a threshold or the size of a rationale.

    Example:
        >>> from lightning_xai.metrics.complexity import Entropy
        >>> refuse_tuning("edin", Entropy())
    """
    if metric.needs_tuning:
        raise ValueError(
            f"{preset}/{metric.name} must be tuned on the validation split, which this run does not evaluate: "
            "set data.init_args.tune_on_validation to true, or choose a preset that tunes nothing"
        )


def _measure(
    metric: AttributionMetric,
    preset: str,
    batch: Callable[[str], ExplainedBatch],
    splits: Sequence[str],
    *,
    tests: bool,
    tuned_on: str | None,
) -> None:
    """Computes a metric from the made-up scores of each split, with a separate copy of the metric for each split.

    Args:
        metric: the metric.
        preset: name of the metric's preset, for messages.
        batch: function that returns the made-up scores of a split.
        splits: the splits.
        tests: whether a test measures the metric, which then needs the validation split if it is tuned.
        tuned_on: split that only serves to tune the metric; None if there is no such split.
    """
    if tests and VALIDATION not in splits:
        refuse_tuning(preset, metric)
    copies = {}
    for split in splits:
        if split == tuned_on and not metric.needs_tuning:
            continue
        explained = batch(split)
        (attribution,) = explained.attributions.values()
        copies[split] = _copy_of(metric, explained.batch.inputs.device)
        copies[split].update(attribution, explained.batch, explained.predict)
    for split, measured in copies.items():
        if split == tuned_on:
            continue
        if metric.needs_tuning and VALIDATION in copies:
            measured.tune_from(copies[VALIDATION])
        if not metric.needs_tuning or VALIDATION in copies:
            measured.compute()
