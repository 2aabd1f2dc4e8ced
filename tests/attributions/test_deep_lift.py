import warnings
from typing import cast

import captum.attr
import pytest
import torch
from torch import nn

from lightning_xai.attributions.deep_lift import DeepLift, multipliers
from lightning_xai.functional.gradients.path_gradients import PathEnds, path_ends
from lightning_xai.models.base import Classifier
from lightning_xai.types import ClassifierOutput
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 0], [2, 1]])
KINDS = [*TINY_CONFIGS, "plm_ca"]


@pytest.fixture
def inputs():
    return text_inputs([6, 13, 9])


class Perceptron(nn.Module):
    """A hidden layer for each token, their mean and another hidden layer; captum needs each activation as a module."""

    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.at_tokens, self.at_text = activation(), activation()

    def read(self, embeds):
        states = self.at_tokens(self.first(embeds)).mean(1)
        return self.last(self.at_text(self.second(states)))

    def forward(self, inputs, embeds):
        return ClassifierOutput(self.read(embeds), readout=torch.ones(len(embeds), 1, embeds.shape[1]))


class Read(nn.Module):
    """A Perceptron as captum calls it, on embeddings alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, embeds):
        return self.model.read(embeds)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid])
def test_scores_are_captums_where_captum_has_rules(activation, inputs):
    model = Perceptron(activation).double()
    start, end = torch.randn(2, 3, 13, 4, dtype=torch.float64)
    actual, _ = multipliers(cast(Classifier, model), inputs, TARGETS, PathEnds(start, end))
    for column in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # captum warns of the hooks that it sets
            expected = captum.attr.DeepLift(Read(model)).attribute(end, start, TARGETS[:, column])
        torch.testing.assert_close(actual[column] * (end - start), expected.detach(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_signed_scores_sum_to_the_difference_of_the_logits(kind, kernel, inputs):
    model = tiny_classifier(kind)
    model.set_attention(kernel)
    start, end = (embeds.detach() for embeds in path_ends(model, inputs, "fill"))
    with torch.no_grad():
        difference = (model(inputs, end).logits - model(inputs, start).logits).gather(1, TARGETS)
    scores = DeepLift().attribute(model, inputs, TARGETS).scores
    torch.testing.assert_close(scores.sum(-1), difference, rtol=0, atol=5e-6)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra", "big_bird", "deberta-v2", "plm_ca"])
@pytest.mark.parametrize("baseline", ["fill", "zero"])
def test_the_delta_is_rounding(kind, baseline, inputs):
    deltas = DeepLift(baseline=baseline).convergence_delta(tiny_classifier(kind).double(), inputs, TARGETS)
    assert deltas.abs().max() < 1e-11


def test_captum_misses_completeness_on_a_transformer(inputs):  # it has no rule for GELU, softmax and LayerNorm
    model = tiny_classifier("bert", embedding="module").double()
    start, end = (embeds.detach() for embeds in path_ends(model, inputs, "fill"))

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, embeds):
            return self.model(inputs.map(lambda t: t.repeat(len(embeds) // 3, *[1] * (t.dim() - 1))), embeds).logits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = captum.attr.DeepLift(Logits())
        _, deltas = explainer.attribute(end, start, TARGETS[:, 0], return_convergence_delta=True)
    assert deltas.abs().max() > 0.01
    assert DeepLift().convergence_delta(model, inputs, TARGETS).abs().max() < 1e-11


@pytest.mark.parametrize("activation", ["gelu_new", "gelu_fast", "gelu_python", "quick_gelu", "silu", "relu", "relu2"])
def test_scores_are_complete_for_every_form_of_an_activation(activation, inputs):
    model = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"hidden_act": activation}).double()
    assert DeepLift().convergence_delta(model, inputs, TARGETS).abs().max() < 1e-11


def test_a_function_without_a_rule_is_named(tiny_hf, inputs):
    tiny_hf.transformer.bert.encoder.layer[1].register_forward_hook(lambda _module, _args, output: output.cos())
    with pytest.raises(ValueError, match="cos has no DeepLift rule"):
        DeepLift().attribute(tiny_hf, inputs, TARGETS)


def test_tokens_that_are_their_own_baseline_score_zero(tiny_hf, inputs):
    scores = DeepLift().attribute(tiny_hf, inputs, TARGETS).scores
    assert not scores.masked_select(~inputs.token_mask.unsqueeze(1)).any()
    assert scores.masked_select(inputs.token_mask.unsqueeze(1)).all()


def test_an_input_equal_to_its_baseline_scores_zero(tiny_hf, inputs):
    same = inputs.map(lambda tensor: tensor)
    object.__setattr__(same, "baseline_ids", inputs.input_ids)
    assert not DeepLift().attribute(tiny_hf, same, TARGETS).scores.any()


def test_a_delta_above_the_tolerance_warns_once(tiny_hf, inputs):
    method = DeepLift(delta_tolerance=1e-12)
    with pytest.warns(UserWarning, match="the scores of DeepLift violate completeness"):
        method.attribute(tiny_hf, inputs, TARGETS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.attribute(tiny_hf, inputs, TARGETS)


def test_a_delta_below_the_tolerance_is_silent(tiny_hf, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DeepLift().attribute(tiny_hf, inputs, TARGETS)


@pytest.mark.parametrize("arguments", [{"chunk_size": 0}, {"baseline": "pad"}, {"pooling": "max"}])
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="is"):
        DeepLift(**arguments)
