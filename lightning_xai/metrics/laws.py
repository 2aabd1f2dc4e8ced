"""Properties that every attribution metric must have. `check_metric` checks whether a given metric has them."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from lightning_xai.functional.laws import VOCAB_SIZE, changed_parts, process_state, random_texts, require
from lightning_xai.functional.own_parts import require_object
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.types import Attribution, Batch, TextInputs

NUM_CLASSES = 4
LENGTHS = [9, 14, 6, 11, 3, 8, 17]

MakeMetric = Callable[[], AttributionMetric]
ExplainedTexts = tuple[Attribution, Batch]


def bag_of_words(inputs: TextInputs, embed_mask: Tensor | None = None, *, multilabel: bool = True) -> Tensor:
    """Returns the probabilities [B, C] float64 of a linear model of token ids and positions.

    The weights are random for every token id, also for the padding id 0.

    Example:
        >>> bag_of_words(random_texts([4])).shape
        torch.Size([1, 4])
    """
    weights = torch.randn(VOCAB_SIZE, NUM_CLASSES, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    mask = inputs.attention_mask if embed_mask is None else inputs.attention_mask & embed_mask
    place = 1 + 0.1 * inputs.attention_mask.cumsum(dim=1)
    logits = torch.einsum("btc,bt->bc", weights[inputs.input_ids], mask.double() * place) / 3
    return logits.sigmoid() if multilabel else logits.softmax(dim=-1)


def explained_batch(
    lengths: list[int], *, seed: int = 0, pad_to: int | None = None, num_targets: int = 3
) -> tuple[Attribution, Batch]:
    """Returns a random attribution, and the multi-label batch that it explains. The batch has rationales.

    Args:
        lengths: number of tokens of each text, special tokens included.
        seed: seed of texts, scores, labels and evidence.
        pad_to: smallest number of columns T, padding included.
        num_targets: number of explained classes of each example.

    Example:
        >>> attribution, batch = explained_batch([4, 6])
        >>> attribution.scores.shape, batch.labels.shape
        (torch.Size([2, 3, 6]), torch.Size([2, 4]))
    """
    inputs = random_texts(lengths, seed=seed, pad_to=pad_to)
    width = inputs.input_ids.shape[1]
    rows: dict[str, list[torch.Tensor]] = {"targets": [], "annotated": [], "scores": [], "marked": [], "labels": []}
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(100 * seed + row)
        rows["targets"].append(torch.randperm(NUM_CLASSES, generator=generator)[:num_targets].sort().values)
        rows["annotated"].append(torch.randperm(NUM_CLASSES, generator=generator)[:2])
        random = torch.rand(num_targets + 2, length, generator=generator, dtype=torch.float64)
        padded = torch.nn.functional.pad(random, (0, width - length))
        rows["scores"].append((padded[:num_targets] * 20).round() / 20)  # scores are rounded, so that some are equal
        rows["marked"].append((padded[num_targets:] > 0.6).float() * inputs.token_mask[row])
        rows["labels"].append((torch.rand(NUM_CLASSES, generator=generator) < 0.6).float())
    targets, annotated, scores, marked, labels = (torch.stack(tensors) for tensors in rows.values())
    target_mask = torch.ones_like(targets, dtype=torch.bool)
    target_mask[::3, -1] = False
    rationale = Attribution(marked, annotated, torch.ones_like(annotated, dtype=torch.bool), inputs.token_mask)
    return Attribution(scores, targets, target_mask, inputs.token_mask), Batch(inputs, labels, rationale)


def check_metric(metric: AttributionMetric) -> None:
    """Checks that a metric has the properties in `LAWS`, which all metrics of this package have.

    Args:
        metric: the metric, before its first `update`.

    Raises:
        ValueError: the metric lacks a property; the message names the property and the remedy.

    Example:
        >>> class Longest(AttributionMetric):
        ...     columns = ("",)
        ...     def measure(self, attribution, batch, predict):
        ...         return torch.full((*attribution.targets.shape, 1), float(attribution.scores.shape[-1]))
        >>> check_metric(Longest())
        Traceback (most recent call last):
        ValueError: Longest: padding changes longest from 17 to 30: measure only tokens in attribution.token_mask
    """
    require_object(metric, AttributionMetric)
    make = functools.partial(copy.deepcopy, metric)
    for law in LAWS:
        law(make)
    _whole_batch_values.cache_clear()


def values_of(make: MakeMetric, batches: Sequence[ExplainedTexts]) -> dict[str, float]:
    """Returns the values of a new metric on batches. A metric that needs tuning is tuned on other random texts.

    Example:
        >>> from lightning_xai.metrics.complexity import Entropy
        >>> values_of(Entropy, [explained_batch([4, 6])])["num_examples"]
        5.0
    """
    metric, validation = make(), make()
    for attribution, batch in batches:
        metric.update(attribution, batch, bag_of_words)
    if metric.needs_tuning:
        validation.update(*explained_batch([12, 15], seed=9), bag_of_words)
        metric.tune_from(validation)
    return {key: float(value) for key, value in metric.compute().items()}


def one_batch_equals_batches_of_one(make: MakeMetric) -> None:
    """The metric's values do not depend on how examples are grouped into batches."""
    attribution, batch = explained_batch(LENGTHS)
    singles = [(attribution[[row]], batch[[row]]) for row in range(len(LENGTHS))]
    _require_same(make, singles, "batches of one example change", "measure each row independently of other rows")


def padding_changes_nothing(make: MakeMetric) -> None:
    """The metric's values do not depend on the amount of padding."""
    padded = [explained_batch(LENGTHS, pad_to=30)]
    _require_same(make, padded, "padding changes", "measure only tokens in attribution.token_mask")


def repeated_examples_count_once(make: MakeMetric) -> None:
    """An example that occurs twice counts once."""
    attribution, batch = explained_batch(LENGTHS)
    again = [(attribution, batch), (attribution[:3], batch[:3])]
    remedy = "do not override `update`, which stores batch.index so that repeats can be dropped"
    _require_same(make, again, "repeated examples change", remedy)


def order_changes_nothing(make: MakeMetric) -> None:
    """The metric's values do not depend on the order of the examples."""
    attribution, batch = explained_batch(LENGTHS)
    order = list(range(len(LENGTHS)))[::-1]
    shuffled = [(attribution[order], batch[order])]
    remedy = "let `aggregate` ignore the order of records"
    _require_same(make, shuffled, "the order of examples changes", remedy)


def some_row_is_measured(make: MakeMetric) -> None:
    """On random texts, at least one row is measured, and at least one value is named after the metric."""
    values, metric = _whole_batch_values(make), make()
    remedy = "return numbers from `measure`; NaN means that a value is undefined for the row"
    require(values["num_examples"] > 0, f"{_name(metric)} measures no row of random texts", remedy)
    named = any(key.split("/")[0] == metric.name for key in values)
    require(named, f"{_name(metric)}: no value is named {metric.name!r}", "do not override `compute`")


def reset_forgets_the_rows(make: MakeMetric) -> None:
    """`reset` forgets all rows."""
    metric = make()
    metric.update(*explained_batch(LENGTHS), bag_of_words)
    metric.reset()
    require(len(metric.table()[0]) == 0, f"{_name(metric)}: `reset` keeps rows", "declare all state with `add_state`")


def arguments_stay_as_they_were(make: MakeMetric) -> None:
    """`update` changes neither its arguments nor the state of the process."""
    attribution, batch = explained_batch(LENGTHS)
    parts: list[Any] = [attribution, batch.inputs, batch.rationale]
    before = [part.map(torch.clone) for part in parts]
    metric, process = make(), process_state()
    metric.update(attribution, batch, bag_of_words)
    for part, kept in zip(parts, before, strict=True):
        for field in fields(part):
            tensor = getattr(part, field.name)
            same = tensor is None or torch.equal(tensor, getattr(kept, field.name))
            rule = f"{_name(metric)}: `update` changes {type(part).__name__}.{field.name}"
            require(same, rule, "change only copies of this tensor")
    changed = changed_parts(process, process_state())
    rule = f"{_name(metric)}: `update` changes {', '.join(changed)}"
    require(not changed, rule, "draw random numbers from a torch.Generator of your own")


def rows_outside_the_target_mask_do_not_count(make: MakeMetric) -> None:
    """The metric's values do not depend on the scores of rows outside the target mask."""
    attribution, batch = explained_batch(LENGTHS)
    spoiled = attribution.scores.clone()
    spoiled[~attribution.target_mask] = 77.0
    changed = replace(attribution, scores=spoiled)
    remedy = "measure each row independently of other rows, and do not override `update`"
    _require_same(make, [(changed, batch)], "rows outside target_mask change", remedy)


def batches_without_a_row_are_accepted(make: MakeMetric) -> None:
    """A batch whose target mask is all False does not affect the metric's values."""
    attribution, batch = explained_batch(LENGTHS)
    nothing = replace(attribution, target_mask=torch.zeros_like(attribution.target_mask))
    batches = [(nothing, batch), (attribution, batch)]
    _require_same(make, batches, "an empty batch changes", "do not override `update`")


def single_precision_and_single_labels_are_accepted(make: MakeMetric) -> None:
    """A metric accepts float32 scores and single labels [B]. It stores its results for each row in float64."""
    attribution, batch = explained_batch(LENGTHS)
    attribution = replace(attribution, scores=attribution.scores.float())
    metric = make()
    metric.update(attribution, replace(batch, labels=batch.labels.argmax(dim=1)), bag_of_words)
    kept = metric.table()[1].dtype == torch.float64
    require(kept, f"{_name(metric)}: records are not in float64", "do not override `update`")


def every_value_has_its_number_of_rows(make: MakeMetric) -> None:
    """Every value has a count `num_examples/<value>`, which is at most the number of all rows.

    The count is at least `num_examples`, except for values that use only some rows (those in `selections`).
    """
    values, metric = _whole_batch_values(make), make()
    counts = counts_of(values)
    named = counts.keys() == {key for key in values if not key.startswith("num_")}
    fewest, most = values["num_examples"], values["num_examples"] + values["num_skipped"]
    remedy = "let `counted_rows` return the rows from which `aggregate` computes the value"
    selected = tuple(f"{metric.name}/{beginning}" for beginning in metric.selections)
    of_all = [number for key, number in counts.items() if not key.startswith(selected)]
    fits = named and fewest <= min(of_all) and max(counts.values()) <= most
    require(fits, f"{_name(metric)}: a count num_examples/<value> is missing or out of range", remedy)


def a_text_of_one_token_is_accepted(make: MakeMetric) -> None:
    """For a text of one word, every value except tuned thresholds is NaN or is computed from at least one row."""
    values, metric = values_of(make, [explained_batch([3])]), make()
    for key, number in counts_of(values).items():
        fits = math.isnan(values[key]) or number > 0 or key.endswith("/threshold")
        rule = f"{_name(metric)}: {key} is {values[key]:g} for a text of one word, although it is computed from no row"
        require(fits, rule, "return NaN where a value is undefined")


def counts_of(values: dict[str, float]) -> dict[str, int]:
    """Returns a dict that maps the name of each value to the number of rows from which the value is computed.

    Example:
        >>> counts_of({"f1": 0.5, "num_examples/f1": 3.0})
        {'f1': 3}
    """
    return {key.removeprefix("num_examples/"): int(n) for key, n in values.items() if key.startswith("num_examples/")}


LAWS = (
    some_row_is_measured,
    one_batch_equals_batches_of_one,
    padding_changes_nothing,
    repeated_examples_count_once,
    order_changes_nothing,
    reset_forgets_the_rows,
    arguments_stay_as_they_were,
    rows_outside_the_target_mask_do_not_count,
    batches_without_a_row_are_accepted,
    single_precision_and_single_labels_are_accepted,
    every_value_has_its_number_of_rows,
    a_text_of_one_token_is_accepted,
)


def _name(metric: AttributionMetric) -> str:
    return type(metric).__name__


@functools.lru_cache(maxsize=1)
def _whole_batch_values(make: MakeMetric) -> dict[str, float]:
    """Returns the values on one batch of all texts. Later checks of the same metric reuse these values."""
    return values_of(make, [explained_batch(LENGTHS)])


def _require_same(make: MakeMetric, actual: Sequence[ExplainedTexts], rule: str, remedy: str) -> None:
    before, after = _whole_batch_values(make), values_of(make, actual)
    name = _name(make())
    require(before.keys() == after.keys(), f"{name}: {rule} which values there are", remedy)
    for key, value in before.items():
        both_undefined = math.isnan(value) and math.isnan(after[key])
        close = both_undefined or math.isclose(value, after[key], rel_tol=1e-9, abs_tol=1e-12)
        require(close, f"{name}: {rule} {key} from {value:.8g} to {after[key]:.8g}", remedy)
