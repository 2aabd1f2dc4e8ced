"""Guidance of attributions by rationales: against a reference for one example, and which weights it reaches."""

import copy
import functools
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.base import DifferentiableAttribution
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.explanation_guidance import ExplanationGuidance
from lightning_xai.types import Attribution, Batch
from tests.conftest import tiny_classifier
from tests.objectives.conftest import planted_batch, quiet_trainer

PAPER: dict[str, DifferentiableAttribution] = {
    "attention": Attention(),
    "rollout": AttentionRollout(),
    "input_x_gradient": InputXGradient("sum"),
}
BEYOND: dict[str, DifferentiableAttribution] = {
    "integrated_gradients": IntegratedGradients(num_steps=3, pooling="sum", delta_tolerance=None),
    "att_in_grad": AttInGrad(),
    "alti": ALTI(),
    "decompx_reverse": DecompXReverse(),
    "decompx_differentiable": DecompXReverse(coefficients="differentiable"),
}
GUIDES = PAPER | BEYOND
each_guide = pytest.mark.parametrize("guide", GUIDES)


@functools.cache
def tiny_bert() -> Any:
    return tiny_classifier("bert", dropout=0.0).double()


def guided(
    method: DifferentiableAttribution, network: Any = None, task_weight: float = 0.0, **options: Any
) -> Supervised:
    """Returns Supervised with the term alone, by default on a tiny BERT in float64 in eval mode."""
    network = network or copy.deepcopy(tiny_bert())
    return Supervised(network, terms={"guidance": ExplanationGuidance(method, **options)}, task_weight=task_weight)


def some_without_evidence() -> Batch:
    """Returns six texts, of which two have no evidence and one has evidence for another class only."""
    batch = planted_batch()
    assert batch.rationale is not None
    scores, targets = batch.rationale.scores.clone(), batch.rationale.targets.clone()
    scores[:2] = 0
    targets[2] = (targets[2] + 1) % 3
    scores[3, 0, 1:4] = 1  # three evidence tokens
    return replace(batch, rationale=replace(batch.rationale, scores=scores, targets=targets))


def reference(
    guide: str, network: Any, batch: Batch, row: int, average: str = "example"
) -> tuple[torch.Tensor, float] | None:
    """Returns the loss of one text and its weight, written for one text at a time; None if it does not count."""
    one = batch.inputs[row : row + 1].trim()
    assert batch.rationale is not None
    length = one.input_ids.shape[1]
    label = int(batch.labels[row])
    evidence = batch.rationale.scores[row, 0, :length] * (batch.rationale.targets[row, 0] == label)
    target = torch.tensor([[label]])
    scores = GUIDES[guide].scores(network, one, target, create_graph=True)[0, 0]
    if guide in ("attention", "rollout", "alti", "att_in_grad"):
        if not evidence.any():
            return None
        wanted = evidence.double() / evidence.sum()
    else:
        wanted = evidence.double()
    if guide == "attention":
        scores = (100 * scores).exp() / (100 * scores).exp().sum()
    elif guide == "att_in_grad":
        scores = scores / scores.sum()
    elif guide not in ("rollout", "alti"):
        scores = (scores / scores.square().sum().sqrt()).abs()
    error = torch.stack([(scores[t] - wanted[t]).abs() for t in range(length)]).sum()
    return error / length, (length if average == "token" else 1)


@pytest.mark.parametrize(
    ("guide", "average"),
    [*((guide, "example") for guide in GUIDES), ("attention", "token"), ("input_x_gradient", "token")],
)
def test_loss_and_gradient_are_those_of_a_reference_for_one_text_at_a_time(guide, average):
    objective, batch = guided(GUIDES[guide], average=average), some_without_evidence()
    network = objective.network
    loss = objective.losses(batch)["guidance"]
    pairs = [pair for row in range(6) if (pair := reference(guide, network, batch, row, average)) is not None]
    assert len(pairs) == (6 if GUIDES[guide].has_sign else 3)
    expected = sum((error * weight for error, weight in pairs), torch.zeros(())) / sum(weight for _, weight in pairs)
    assert torch.allclose(loss, expected, rtol=1e-9)
    weights = [p for p in network.parameters() if p.requires_grad]
    ours = torch.autograd.grad(loss, weights, allow_unused=True)
    theirs = torch.autograd.grad(expected, weights, allow_unused=True)
    for a, b, weight in zip(ours, theirs, weights, strict=True):
        a, b = (torch.zeros_like(weight) if gradient is None else gradient for gradient in (a, b))
        assert torch.allclose(a, b, rtol=1e-7, atol=1e-9)


# which kinds of weights of the last layer, of the first layer, of the embeddings and of the head a loss reaches
LAST_ATTENTION = {"last.query", "last.key"}
FIRST = {"first.query", "first.key", "first.value", "first.output", "first.up", "first.down", "words"}
REACHED = {
    "attention": LAST_ATTENTION | FIRST,
    "rollout": LAST_ATTENTION | FIRST,
    "alti": LAST_ATTENTION | {"last.value", "last.output"} | FIRST,
    "input_x_gradient": LAST_ATTENTION | {"last.value", "last.output", "last.up", "last.down", "head"} | FIRST,
    "integrated_gradients": LAST_ATTENTION | {"last.value", "last.output", "last.up", "last.down", "head"} | FIRST,
    "att_in_grad": LAST_ATTENTION | {"last.value", "last.output", "last.up", "last.down", "head"} | FIRST,
    # the frozen coefficients hide queries and keys
    "decompx_reverse": {"last.value", "last.output", "last.up", "last.down", "head"}
    | FIRST - {"first.query", "first.key"},
    "decompx_differentiable": LAST_ATTENTION | {"last.value", "last.output", "last.up", "last.down", "head"} | FIRST,
}


@each_guide
def test_weights_that_the_loss_reaches(guide):
    objective = guided(GUIDES[guide])
    objective.losses(planted_batch())["guidance"].backward()
    network: Any = objective.network
    kinds = {"words": network.embedding_matrix, "head": network.transformer.classifier.weight}
    for name, layer in zip(("first", "last"), network.encoder_layers(), strict=True):
        attention = layer.module.attention.self
        kinds |= {f"{name}.query": attention.query.weight, f"{name}.key": attention.key.weight}
        parts = {"value": layer.value, "output": layer.output, "up": layer.up, "down": layer.down}
        kinds |= {f"{name}.{kind}": part.weight for kind, part in parts.items()}
    reached = {kind for kind, weight in kinds.items() if weight.grad is not None and bool(weight.grad.abs().max() > 0)}
    assert reached == REACHED[guide]


@pytest.mark.parametrize("guide", ["attention", "input_x_gradient", "alti"])
@pytest.mark.parametrize("average", ["example", "token"])
def test_loss_does_not_depend_on_the_division_into_micro_batches(guide, average):
    batch = some_without_evidence()
    gradients = []
    for size in (6, 2):
        objective = guided(GUIDES[guide], average=average)
        term = objective.terms["guidance"]
        assert isinstance(term, ExplanationGuidance)
        objective.expected_weights["guidance"] = float(term.example_weights(batch).mean())
        for start in range(0, 6, size):
            (objective.losses(batch[start : start + size])["loss"] * size / 6).backward()
        parameters = objective.network.parameters()
        gradients.append([torch.zeros_like(p) if p.grad is None else p.grad for p in parameters])
    for other in gradients[1:]:
        for a, b in zip(gradients[0], other, strict=True):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-11)


@each_guide
def test_padding_changes_nothing(guide):
    batch = planted_batch()
    short = Batch(batch.inputs[2:3].trim(), batch.labels[2:3], batch[2:3].rationale)
    length = short.inputs.input_ids.shape[1]
    assert batch.rationale is not None and length < 10
    rationale = batch[2:3].rationale
    assert rationale is not None
    short = replace(
        short,
        rationale=replace(
            rationale, scores=rationale.scores[..., :length], token_mask=rationale.token_mask[:, :length]
        ),
    )
    objective = guided(GUIDES[guide])
    padded, alone = (objective.losses(texts)["guidance"] for texts in (batch[2:3], short))
    assert torch.allclose(padded, alone, rtol=1e-10)


def test_attention_is_guided_as_the_network_used_it_after_dropout():
    network = tiny_classifier("bert", dropout=0.5).train()
    objective = guided(Attention(), network, normalization="none", scaling=1.0, score="kl")
    torch.manual_seed(3)
    loss = objective.losses(planted_batch())["guidance"]
    torch.manual_seed(3)
    output = network(planted_batch().inputs, output_attentions=True)
    attention = output.attentions[-1].mean(dim=1)[:, 0]  # [B, T] of [CLS]
    rationale = planted_batch().rationale
    assert rationale is not None
    evidence = rationale.scores[:, 0] > 0
    assert torch.allclose(loss, -attention[evidence].clamp_min(1e-12).log().mean())
    assert attention.sum(dim=1).sub(1).abs().max() > 0.01


@pytest.mark.parametrize("guide", ["alti", "integrated_gradients", "decompx_reverse"])
def test_methods_with_passes_of_their_own_make_them_in_eval_mode(guide):
    network = tiny_classifier("bert", dropout=0.5)
    objective = guided(GUIDES[guide], network)
    expected = objective.losses(planted_batch())["guidance"]
    objective.train()
    assert torch.allclose(objective.losses(planted_batch())["guidance"], expected)
    assert all(module.training for module in network.modules())


def test_passes_that_are_shared_cost_nothing():
    costs = {guide: ExplanationGuidance(method).passes(10) for guide, method in GUIDES.items()}
    assert costs["attention"] == costs["rollout"] == 0
    assert costs["input_x_gradient"] == costs["att_in_grad"] == 3
    assert costs["alti"] == 3 and costs["decompx_reverse"] == 6 and costs["integrated_gradients"] == 18


def test_two_layers_and_two_heads_give_the_mean_of_their_losses():
    batch, network = planted_batch(), copy.deepcopy(tiny_bert())

    def loss(**options: Any) -> float:
        return guided(Attention(), network, **options).losses(batch)["guidance"].item()

    assert loss(layers=[-1]) == pytest.approx(loss())
    assert loss(layers=[0, 1]) == pytest.approx((loss(layers=[0]) + loss(layers=[-1])) / 2)
    assert loss(heads=[0, 1], layers=[0]) == pytest.approx(
        (loss(heads=[0], layers=[0]) + loss(heads=[1], layers=[0])) / 2
    )
    one = network(batch.inputs, output_attentions=True)
    mean = torch.stack(one.attentions).mean(dim=(0, 2))[:, 0]  # over layers and heads, the row of [CLS]
    scores = (100 * mean.masked_fill(~batch.inputs.attention_mask, -1e9)).softmax(dim=-1)
    assert batch.rationale is not None
    errors = (scores - batch.rationale.scores[:, 0]).abs().sum(dim=1) / batch.inputs.attention_mask.sum(dim=1)
    assert loss(layers=[0, 1], combine_layers="scores") == pytest.approx(errors.mean().item())


def test_predicted_class_is_explained_by_option():
    batch, network = planted_batch(), copy.deepcopy(tiny_bert())
    method = InputXGradient("sum")
    predicted = network(batch.inputs).logits.argmax(dim=1)
    assert (predicted != batch.labels).any()
    loss = guided(method, network, explained="predicted").losses(batch)["guidance"]
    assert batch.rationale is not None
    as_gold = replace(batch, labels=predicted, rationale=replace(batch.rationale, targets=predicted.unsqueeze(1)))
    assert torch.allclose(loss, guided(method, network).losses(as_gold)["guidance"])


def test_each_gold_class_with_evidence_has_a_row_in_multilabel_data():
    network = tiny_classifier("plm_ca", dropout=0.0).double()
    batch = planted_batch(num_examples=2, num_classes=5, multilabel=True)
    scores = torch.zeros(2, 3, 10)
    scores[0, 0, 1], scores[0, 1, 2], scores[0, 2, 3], scores[1, 0, 2] = 1, 1, 1, 1
    targets = torch.tensor([[3, 1, 0], [2, 0, 0]])
    present = torch.tensor([[True, True, True], [True, False, False]])
    labels = torch.tensor([[0.0, 1, 0, 1, 1], [0, 0, 1, 0, 0]])  # class 4 has no evidence, class 0 is not gold
    batch = replace(batch, labels=labels, rationale=Attribution(scores, targets, present, batch.inputs.token_mask))
    loss = guided(Attention(), network, scaling=1.0, normalization="none", score="kl").losses(batch)["guidance"]
    readout = network(batch.inputs).readout
    expected = -(readout[0, 3, 1].log() + readout[0, 1, 2].log()) / 2 - readout[1, 2, 2].log()
    assert torch.allclose(loss, expected / 2)


def planted_data(max_length: int = 128, **source: Any) -> TextDataModule:
    sizes: dict[str, Any] = {"num_train": 8, "num_validation": 4, "num_test": 2, "words_per_document": (10, 10)}
    return TextDataModule(Planted(**(sizes | source)), VocabularyEncoder(words=95, max_length=max_length), batch_size=4)


def test_validation_logs_the_exact_mean_and_the_total(tmp_path):
    network = tiny_classifier("bert", num_classes=2)
    data, objective = planted_data(), guided(Attention(), network, task_weight=0.5, average="token")
    trainer = quiet_trainer(tmp_path)
    trainer.validate(objective, datamodule=data, verbose=False)
    batch = data.collate(data.split("validation")[[0, 1, 2, 3]])
    with torch.no_grad():
        loss = objective.eval().losses(batch)["guidance"].item()
    logged = trainer.callback_metrics
    assert logged["val/guidance"].item() == pytest.approx(loss, rel=1e-5)
    cross_entropy = F.cross_entropy(network(batch.inputs).logits, batch.labels).item()
    assert logged["val/loss"].item() == pytest.approx(0.5 * cross_entropy + loss, rel=1e-5)
