"""Gradients that hold the graph of a few segments equal those of one graph, and need less memory."""

import pytest
import torch

from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.attention_gradient import AttentionGradient
from lightning_xai.attributions.by_segment import BySegment
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.gradient_shap import GradientSHAP
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.sequential_integrated_gradients import SequentialIntegratedGradients
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.models.segments.segment_graph import SegmentGraph
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

METHODS = [
    Gradient(),
    InputXGradient("sum"),
    AttInGrad(),
    AttentionGradient("signed"),
    IntegratedGradients(num_steps=3, delta_tolerance=None),
    GradientSHAP(num_samples=3, noise_std=0.1),
    SequentialIntegratedGradients(pooling="l2", num_steps=2),
]
CLASSES = torch.tensor([[1, 4], [0, 2], [3, 3]])


def texts(padding: str = "right"):
    inputs = text_inputs([19, 8, 3])
    return inputs if padding == "right" else inputs.map(lambda t: t.roll(5, dims=1) if t.dim() > 1 else t)


def require_equal_scores(method, model, segments_at_once):
    inputs, classes = text_inputs([11, 8]), CLASSES[:2]
    whole = method.scores(model, inputs, classes)
    by_segment = BySegment(method, segments_at_once).scores(model, inputs, classes)
    torch.testing.assert_close(by_segment, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_scores_equal_those_of_one_graph(method):
    require_equal_scores(method, tiny_classifier("plm_ca", num_classes=100).double(), segments_at_once=2)


@pytest.mark.parametrize("method", [AttInGrad(), METHODS[4]], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("segments_at_once", [1, 100])
def test_scores_equal_those_of_one_graph_of_few_classes(method, segments_at_once):
    require_equal_scores(method, tiny_classifier("plm_ca").double(), segments_at_once)


@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
@pytest.mark.parametrize("embedding", ["word", "module"])
@pytest.mark.parametrize("padding", ["right", "left"])
def test_scores_are_equal_in_every_mode(mask_mode, embedding, padding):
    config = TINY_CONFIGS["roberta"] | {"pad_token_id": 1}
    model = tiny_classifier("plm_ca", config=config, mask_mode=mask_mode, embedding=embedding).double()
    inputs = texts(padding)
    whole = InputXGradient().attribute(model, inputs, CLASSES).scores
    by_segment = BySegment(InputXGradient(), 2).attribute(model, inputs, CLASSES).scores
    torch.testing.assert_close(by_segment, whole, rtol=1e-6, atol=0)
    assert model.segments_at_once is None


@pytest.mark.parametrize("method", [Gradient(), IntegratedGradients(num_steps=3)], ids=lambda m: type(m).__name__)
def test_segments_are_encoded_as_often_as_passes_says(method):
    model, encoded = tiny_classifier("plm_ca"), []
    model.transformer.register_forward_hook(lambda _module, _given, output: encoded.append(output[0].detach()))
    inputs = text_inputs([24, 24])  # 3 segments each
    stated = BySegment(method, 4).passes(22, 2)
    BySegment(method, 4).attribute(model, inputs, CLASSES[:2])
    assert sum(len(states) for states in encoded) == 2 * 3 * stated.forward
    assert stated.backward == method.passes(22, 2).backward


def test_no_graph_of_all_segments_exists():
    model, requiring = tiny_classifier("plm_ca"), []

    def note(_module, _given, output):
        if output[0].requires_grad:
            requiring.append(len(output[0]))

    model.transformer.register_forward_hook(note)
    inputs = text_inputs([80])  # 10 segments
    BySegment(Gradient(), 3).attribute(model, inputs, CLASSES[:1])
    assert sorted(requiring) == [2, 2, 3, 3]


def test_scores_of_a_class_do_not_depend_on_the_batch():
    model, method = tiny_classifier("plm_ca"), Transformed(BySegment(AttInGrad(), 2), ["normalize"])
    together = method.attribute(model, texts(), CLASSES).scores
    alone = method.attribute(model, texts()[1:2].trim(), CLASSES[1:2]).scores
    torch.testing.assert_close(together[1:2, :, :8], alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("method", "number", "message"), [
    (Attention(), 8, "Attention takes no gradient that BySegment can compute"),
    (Transformed(Gradient(), ["absolute"]), 8, "Transformed takes no gradient.*transforms around BySegment"),
    (Gradient(), 0, "segments_at_once is 0: give at least 1"),
])  # fmt: skip
def test_impossible_arguments_are_refused(method, number, message):
    with pytest.raises(ValueError, match=message):
        BySegment(method, number)


def test_networks_without_segments_and_train_mode_are_refused(tiny_hf, tiny_plm_ca):
    with pytest.raises(ValueError, match="HFClassifier encodes a text as a whole: use Gradient without BySegment"):
        BySegment(Gradient()).attribute(tiny_hf, texts(), CLASSES[1:2].expand(3, -1))
    embeds = tiny_plm_ca.embed(texts()).detach().requires_grad_()
    with pytest.raises(ValueError, match=r"train mode.*call eval\(\) first"):
        SegmentGraph(tiny_plm_ca.train(), texts(), embeds, output_readout=False, segments_at_once=1)
