"""Properties that attribution methods must have. `check_method` tests whether a method has them, on tiny networks."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod, DifferentiableAttribution, explaining
from lightning_xai.attributions.tiny_networks import tiny_networks
from lightning_xai.functional.laws import (
    changed_parts,
    network_state,
    process_state,
    random_texts,
    require,
    require_close,
)
from lightning_xai.functional.network.untouched import network_kept
from lightning_xai.functional.own_parts import require_object, require_type
from lightning_xai.models.base import Classifier
from lightning_xai.types import Attribution, Passes, TextInputs

LENGTHS = [6, 13, 9]
TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])
CHUNKS = ((1, 1), (5, 3), (14, 3))  # (chunk size, number of texts); chunk size 1 is slow, so it is tested on one text


def check_method(method: AttributionMethod, *networks: Classifier) -> None:
    """Raises ValueError unless a method has the properties that all methods of this package have.

    Args:
        method: the method.
        networks: the classifiers on which the method is checked, with at least 3 classes and 100 token ids; by default
            a tiny BERT and a tiny PLM-CA.

    Raises:
        ValueError: the method lacks a property; the message names the property and the remedy.

    Example:
        >>> from lightning_xai.types import Passes
        >>> class TokenIds(AttributionMethod):
        ...     def scores(self, model, inputs, targets):
        ...         return inputs.input_ids.unsqueeze(1).expand(*targets.shape, -1) - 50.0
        ...     def passes(self, num_tokens, num_targets):
        ...         return Passes(forward=1, backward=0)
        >>> check_method(TokenIds())  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: TokenIds makes 0 forward passes per text, but `passes` says 1: correct `passes`, or set ...
    """
    require_object(method, AttributionMethod)
    laws = [*LAWS, *(DIFFERENTIABLE_LAWS if isinstance(method, DifferentiableAttribution) else ())]
    for network in networks or tiny_networks():
        checked = copy.deepcopy(network)
        _shared_scores.cache_clear()
        for law in laws:
            with network_kept(checked):
                law(method, checked)
        if "chunk_size" in vars(method):
            chunk_size_changes_nothing(method, checked, functools.partial(_with_chunk_size, method))


def same_alone_and_in_a_batch(method: AttributionMethod, model: Classifier) -> None:
    """An example has the same scores alone and in a batch."""
    together = _scores_together(method, model)
    for row in range(len(LENGTHS)):
        alone = _scores(method, model, _texts()[row : row + 1].trim(), TARGETS[row : row + 1])
        rule = f"{_name(method)}: other texts in the batch change scores"
        remedy = "compute each row separately, and seed random choices by inputs.index"
        _require_same(together[row : row + 1, :, : alone.shape[-1]], alone, rule, remedy)


def padding_changes_nothing(method: AttributionMethod, model: Classifier) -> None:
    """Padding does not change the scores of tokens; the scores of padding are 0."""
    padded = _scores(method, model, random_texts(LENGTHS, pad_to=21))
    rule = f"{_name(method)}: padding changes scores"
    remedy = "ignore tokens where attention_mask is False, and draw no random numbers for them"
    _require_same(padded[..., : max(LENGTHS)], _scores_together(method, model), rule, remedy)
    scores_zero = not padded[..., max(LENGTHS) :].any() and not padded[0, :, LENGTHS[0] :].any()
    require(scores_zero, f"{_name(method)}: scores of padding are not 0", "let `attribute` of the base class set them")


def same_class_alone_and_with_others(method: AttributionMethod, model: Classifier) -> None:
    """A class has the same scores whether it is explained alone or together with other classes."""
    together = _scores_together(method, model)
    alone = [_scores(method, model, _texts(), TARGETS[:, k : k + 1]) for k in range(TARGETS.shape[1])]
    rule = f"{_name(method)}: the other explained classes change the scores of a class"
    _require_same(together, torch.cat(alone, dim=1), rule, "compute the scores for each targets[:, k] separately")


def masked_classes_score_zero(method: AttributionMethod, model: Classifier) -> None:
    """Classes outside the target mask score 0 and do not affect the scores of other classes."""
    mask = torch.tensor([[True, False], [False, True], [False, False]])
    scores = method.attribute(model, _texts(), TARGETS.masked_fill(~mask, -1), mask).scores
    rule = f"{_name(method)}: classes outside target_mask have scores other than 0, or change other scores"
    _require_same(scores, _scores_together(method, model) * mask.unsqueeze(-1), rule, "do not override `attribute`")


def chunk_size_changes_nothing(
    method: AttributionMethod, model: Classifier, with_chunk_size: Callable[[int], AttributionMethod]
) -> None:
    """Scores do not depend on the option `chunk_size`."""
    expected = _scores_together(method, model)
    for chunk_size, rows in CHUNKS:
        actual = _scores(with_chunk_size(chunk_size), model, _texts()[:rows], TARGETS[:rows])
        rule = f"{_name(method)}: chunk_size {chunk_size} changes scores"
        _require_same(actual, expected[:rows], rule, "do not share state between chunks")


def model_is_left_as_it_was(method: AttributionMethod, model: Classifier) -> None:
    """The network (weights, gradients, flags, modes, hooks, attention kernel) and the process state do not change."""
    model.train()
    next(model.modules()).training = False  # modules may differ in mode; a method must restore each mode
    next(model.parameters()).requires_grad_(False)
    before, process = network_state(model), process_state()
    _scores(method, model, _texts())
    _require_unchanged(method, model, before, process, "after `scores`")


def model_is_left_as_it_was_after_an_exception(method: AttributionMethod, model: Classifier) -> None:
    """An exception inside the network leaves the network and the process as they were before the call."""

    def fail(*_: object) -> None:
        raise RuntimeError("stop")

    model.train()
    before, process = network_state(model), process_state()
    handle = list(model.modules())[-1].register_forward_hook(fail)
    failed = False
    try:
        _scores(method, model, _texts())
    except RuntimeError as error:
        failed = "stop" in str(error)
    handle.remove()
    if method.passes(max(LENGTHS), TARGETS.shape[1]).forward:
        require(failed, f"{_name(method)}: an error inside the network is hidden", "do not catch the network's errors")
    _require_unchanged(method, model, before, process, "after an exception")


def contexts_change_nothing(method: AttributionMethod, model: Classifier) -> None:
    """Scores do not depend on whether inference mode and autocast are on."""
    expected = _scores_together(method, model)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        actual = method.attribute(model, _texts(), TARGETS.clone()).scores
    require(
        actual.dtype == torch.float32 and not actual.requires_grad,
        f"{_name(method)}: scores have dtype {actual.dtype} and requires_grad {actual.requires_grad}",
        "do not override `attribute`, which returns detached float32 scores",
    )
    rule = f"{_name(method)}: inference mode or autocast changes scores"
    _require_same(actual.clone(), expected, rule, "do not override `attribute`, which switches both off")


def passes_are_as_made(method: AttributionMethod, model: Classifier) -> None:
    """`passes` returns the number of passes that the method makes, or an upper bound if `passes_at_most` is set."""
    made = {"forward": 0, "backward": 0}

    def count(_module: object, _arguments: object, output: Any) -> None:
        logits = output.logits
        # DeepLift runs input and baseline in one call of the network; the baseline's logits are in `second_run`
        baseline_logits = getattr(logits, "second_run", None)
        made["forward"] += len(logits) + (0 if baseline_logits is None else len(baseline_logits))
        if logits.requires_grad:
            logits.register_hook(count_backward)

    def count_backward(gradient: Tensor) -> None:
        made["backward"] += len(gradient)

    handle = model.register_forward_hook(count)
    method.attribute(model, random_texts([9, 9, 9]), TARGETS)
    handle.remove()
    stated = method.passes(7, 2)  # each text has 9 tokens, of which 7 are explainable; 2 classes are explained
    require_type(stated, Passes, f"{_name(method)}.passes", "return Passes(forward=..., backward=...)")
    # fewer passes may be counted than `passes` states, for two reasons. The hook does not see the forward passes in a
    # network's `version_logits`. If the head attends to tokens, several classes share a backward pass
    fewest, least = method.passes_at_most, 0 if hasattr(model, "version_logits") else 1
    may_be_fewer = {"forward": fewest or not least, "backward": fewest or model.readout_is_attention}
    for direction, number in made.items():
        wanted = 3 * getattr(stated, direction)
        fits = abs(number - wanted) <= 1e-6 * wanted or (may_be_fewer[direction] and least <= number < wanted)
        rule = f"{_name(method)} makes {number / 3:g} {direction} passes per text, but `passes` says {wanted / 3:g}"
        require(fits, rule, "correct `passes`, or set passes_at_most")


def negative_only_with_a_sign(method: AttributionMethod, model: Classifier) -> None:
    """At least one score is negative if `has_sign` is True; otherwise, no score is negative."""
    negative = bool((_scores_together(method, model) < 0).any())
    problem = "no score is negative although has_sign is True" if method.has_sign else "a score is negative"
    remedy = "define the property has_sign, which is True if a negative score is evidence against the class"
    require(negative == method.has_sign, f"{_name(method)}: {problem}", remedy)


def method_of_a_split_is_itself(method: AttributionMethod, model: Classifier) -> None:
    """`for_split` returns the method itself; only methods that read stored scores may return another."""
    require(method.for_split("test") is method, f"{_name(method)}.for_split does not return self", "do not override it")


def loss_reaches_the_encoder(method: DifferentiableAttribution, model: Classifier) -> None:
    """A loss on the scores has a gradient for weights of the first layer."""
    model.zero_grad()
    method.scores(model, _texts(), TARGETS, create_graph=True).square().sum().backward()
    gradients = [weight.grad for weight in model.encoder_layers()[0].module.parameters() if weight.dim() > 1]
    reached = [gradient for gradient in gradients if gradient is not None and gradient.abs().max() > 0]
    finite = all(bool(gradient.isfinite().all()) for gradient in reached)
    remedy = "with create_graph, keep the graph of every pass, and detach nothing"
    require(bool(reached) and finite, f"{_name(method)}: a loss on scores has no finite gradient for layer 0", remedy)


def graph_changes_nothing(method: DifferentiableAttribution, model: Classifier) -> None:
    """Scores are the same with and without `create_graph`."""
    with explaining(model, "cpu"):
        plain = method.scores(model, _texts(), TARGETS)
    rule = f"{_name(method)}: create_graph changes scores"
    with_graph = method.scores(model, _texts(), TARGETS, create_graph=True)
    _require_same(with_graph.detach(), plain.detach(), rule, "compute the same numbers with and without create_graph")


def autocast_changes_little(method: DifferentiableAttribution, model: Classifier) -> None:
    """Autocast changes scores by less than a tenth of the largest absolute score."""
    exact = method.scores(model, _texts(), TARGETS).detach()
    for create_graph in (False, True):
        with torch.autocast("cpu", torch.bfloat16):
            mixed = method.scores(model, _texts(), TARGETS, create_graph=create_graph).detach()
        # padding is not compared, because `scores`, unlike `attribute`, need not set the scores of padding to 0
        inside = _texts().attention_mask.unsqueeze(1)
        gap = float(((mixed - exact) * inside).abs().max() / (exact * inside).abs().max())
        rule = f"{_name(method)}: under autocast, scores differ by {gap:.0%} of the largest score"
        require(gap < 0.1, rule, "compute sums and differences of scores in float32")


LAWS = (
    model_is_left_as_it_was,  # runs first, because it cannot notice lasting changes from an earlier check
    method_of_a_split_is_itself,
    # before the next check, which also removes padding, but would blame the batch if padding changed the scores
    padding_changes_nothing,
    same_alone_and_in_a_batch,
    same_class_alone_and_with_others,
    masked_classes_score_zero,
    contexts_change_nothing,
    negative_only_with_a_sign,
    passes_are_as_made,
    model_is_left_as_it_was_after_an_exception,
)
DIFFERENTIABLE_LAWS = (loss_reaches_the_encoder, graph_changes_nothing, autocast_changes_little)


def _texts() -> TextInputs:
    return random_texts(LENGTHS)


def _scores(method: AttributionMethod, model: Classifier, inputs: TextInputs, targets: Tensor = TARGETS) -> Tensor:
    return method.attribute(model, inputs, targets).scores


@functools.lru_cache(maxsize=1)
def _shared_scores(attribute: Callable[..., Attribution], model: Classifier) -> Tensor:
    return attribute(model, _texts(), TARGETS).scores


def _scores_together(method: AttributionMethod, model: Classifier) -> Tensor:
    """Returns the scores of all texts. They are computed only once while the method and the network stay the same."""
    return _shared_scores(method.attribute, model)  # bound methods are hashable, as lru_cache requires


def _name(method: AttributionMethod) -> str:
    return type(method).__name__


def _with_chunk_size(method: AttributionMethod, chunk_size: int) -> AttributionMethod:
    changed = copy.copy(method)
    vars(changed)["chunk_size"] = chunk_size
    return changed


def _require_same(actual: Tensor, expected: Tensor, rule: str, remedy: str) -> None:
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    require_close(actual, expected, rule, remedy, relative=1e-4, absolute=1e-4 * largest)


def _require_unchanged(method: AttributionMethod, model: Classifier, before: dict, process: dict, when: str) -> None:
    changed = [*changed_parts(before, network_state(model)), *changed_parts(process, process_state())]
    remedy = "undo changes in a finally block, and draw random numbers only from a torch.Generator that you create"
    require(not changed, f"{_name(method)}: {when}, {', '.join(changed)} are not as before", remedy)
