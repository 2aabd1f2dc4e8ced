"""Explanation guided training, against a reference that takes one example at a time in float64."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.egt import EGT, lowest_words
from tests.conftest import tiny_classifier
from tests.objectives.conftest import planted_batch


def egt(network, **arguments: Any) -> Supervised:
    return Supervised(network, terms={"egt": EGT(arguments.pop("method", Gradient(pooling="l2")), **arguments)})


def distribution(values: torch.Tensor) -> torch.Tensor:
    return (values + 1e-9) / (values + 1e-9).sum()


def attention_of(network, inputs, label: int) -> torch.Tensor:
    """The attention [T] for a class: of the head if it attends to tokens, else of the last layer."""
    if network.readout_is_attention:
        return network(inputs).readout[0, label]
    return network(inputs, output_attentions=True).attentions[-1][0].mean(dim=0)[0]  # the attention is [H, T, T]


def reference(network, batch, row: int, fraction: float, direction: str) -> float:
    """The value of one text of single-token words, from the paper's equation 7; the mean over its gold classes."""
    inputs = batch.inputs[row : row + 1].trim()
    keep, gold = inputs.token_mask[0], batch.labels[row]
    labels = gold.nonzero().flatten().tolist() if gold.dim() else [int(gold)]
    found = [Gradient(pooling="l2").attribute(network, inputs, torch.tensor([[label]])).scores for label in labels]
    scores = [distribution(of_class[0, 0].abs()[keep].double()) for of_class in found]
    summed = torch.stack(scores).sum(dim=0)
    lowest = summed.argsort(stable=True)[: math.ceil(fraction * len(summed))]
    ids = inputs.input_ids.clone()
    places = keep.nonzero().flatten()[lowest]
    ids[0, places] = inputs.baseline_ids[0, places]
    total = 0.0
    for changed in (inputs, replace(inputs, input_ids=ids)):
        for label, of_class in zip(labels, scores, strict=True):
            first, second = distribution(attention_of(network, changed, label)[keep]), of_class
            if direction == "scores_first":
                first, second = second, first
            total += (first * (first.log() - second.log())).sum().item()
    return total / len(labels)


@pytest.mark.parametrize("direction", ["attention_first", "scores_first"])
@pytest.mark.parametrize(
    ("name", "multilabel", "fraction"), [("bert", False, 0.15), ("bert", False, 0.6), ("plm_ca", True, 0.3)]
)
def test_value_is_that_of_equation_7_for_one_example_at_a_time(name, multilabel, fraction, direction):
    network = tiny_classifier(name, dropout=0.0).double()
    batch = planted_batch(num_classes=network.num_classes, multilabel=multilabel)
    batch = replace(batch, inputs=replace(batch.inputs, word_ids=None))  # every token is a word
    if multilabel:
        batch.labels[0, :2] = 1.0  # two gold classes
    objective = egt(network, masked_fraction=fraction, direction=direction).eval()
    values = objective.term_values(batch, dict(objective.used_terms()))["egt"].values
    rows = [row for row in range(len(batch)) if not multilabel or batch.labels[row].any()]
    expected = [reference(network, batch, row, fraction, direction) for row in rows]
    assert values[rows].tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("direction", ["attention_first", "scores_first"])
def test_gradient_reaches_attention_and_not_the_scores(direction):
    network = tiny_classifier("bert", dropout=0.0)
    objective = egt(network, direction=direction, method=InputXGradient())
    value = objective.losses(planted_batch())["egt"]
    value.backward()
    grads = {name: p.grad for name, p in network.named_parameters()}
    assert grads["transformer.classifier.weight"] is None  # the scores, which depend on it, are detached
    assert grads["transformer.bert.encoder.layer.1.attention.self.query.weight"].abs().max() > 0


@pytest.mark.slow
def test_training_brings_attention_nearer_to_the_scores(tmp_path):
    network, batch = tiny_classifier("bert", dropout=0.0), planted_batch()
    objective = egt(network, weight=1.0)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    first = objective.losses(batch)["egt"].item()
    for _ in range(15):
        optimizer.zero_grad()
        objective.losses(batch)["egt"].backward()
        optimizer.step()
    assert objective.losses(batch)["egt"].item() < 0.5 * first


def test_lowest_words_are_whole_words_and_exactly_as_many_as_asked_for():
    units = torch.tensor([[-1, 0, 0, 1, 2, 2, 3, -1], [-1, 0, 1, -1, -1, -1, -1, -1]])
    scores = torch.tensor([[9.0, 1, 3, 2, 1, 0, 5, 9], [0.0, 2, 1, 0, 0, 0, 0, 0]])
    lowest = lowest_words(scores, units, 0.5)  # words of 4, 2, 1 and 5; and of 2 and 1
    assert lowest[0].tolist() == [False, False, False, True, True, True, False, False]
    assert lowest[1].tolist() == [False, False, True, False, False, False, False, False]


@pytest.mark.parametrize(("number", "fraction", "expected"), [(30, 0.1, 3), (20, 0.15, 3), (7, 0.15, 2), (1, 0.15, 1)])
def test_number_of_masked_words_is_rounded_up_in_exact_arithmetic(number, fraction, expected):
    units = torch.arange(number).unsqueeze(0)
    assert int(lowest_words(torch.rand(1, number), units, fraction).sum()) == expected


def test_text_without_words_masks_nothing():
    assert not lowest_words(torch.zeros(2, 3), torch.full((2, 3), -1), 0.5).any()


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 2.0])
def test_masked_fraction_outside_0_and_1_is_refused(fraction):
    with pytest.raises(ValueError, match=f"masked_fraction is {fraction}"):
        EGT(Gradient(), masked_fraction=fraction)
