"""PLM-CA attends within segments: no tensor of tokens by tokens exists in passes of training or explaining."""

import pytest
import torch

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.attention_gradient import AttentionGradient
from lightning_xai.attributions.by_segment import BySegment
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.deep_lift import DeepLift
from lightning_xai.attributions.glob_enc import GlobEnc
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.gradient_shap import GradientSHAP
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.kernel_shap import KernelSHAP
from lightning_xai.attributions.lime import LIME
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.functional.erasure.evaluate import predict_of
from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Counts, Range
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.mask_search import sparse_variable
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.vat import VAT
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs, tiny_classifier
from tests.tensor_shapes import TensorShapes

TOKENS = 151  # larger than the vocabulary and any other size of the tiny network
METHODS = [
    Random(), Attention(), AttentionGradient(), Gradient(), InputXGradient(), AttInGrad(), BySegment(Gradient(), 4),
    IntegratedGradients(num_steps=2, delta_tolerance=None), GradientSHAP(num_samples=2), DeepLift(), DecompXReverse(),
    KernelSHAP(num_samples=6), AttentionRollout(), ALTI(), GlobEnc(),
]  # fmt: skip
CLASSES = torch.tensor([[3, 70]])


def model(**arguments):
    return tiny_classifier("plm_ca", num_classes=80, **arguments)


def pairs(shapes: TensorShapes) -> dict:
    return shapes.with_sizes(TOKENS - 2, TOKENS - 2)  # without two special tokens


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
def test_forward_and_training(kernel, mask_mode):
    objective = Supervised(model(mask_mode=mask_mode), terms={"igr": InputGradient()} if kernel == "eager" else {})
    with TensorShapes() as shapes:
        objective.losses(Batch(text_inputs([TOKENS, 40]), torch.ones(2, 80)))["loss"].backward()
        with torch.no_grad():
            logits_only(objective.network, text_inputs([TOKENS]))
    assert shapes.with_sizes(TOKENS, 16) and not pairs(shapes)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_explanations(method):
    network = model()
    network.set_attention("eager" if method.needs_attentions else "sdpa")
    with TensorShapes() as shapes:
        method.attribute(network, text_inputs([TOKENS]), CLASSES)
    assert not pairs(shapes)


@pytest.mark.parametrize(
    "terms", [{"pgd": PGD(epsilon=0.1, search=Search(num_steps=2))}, {"vat": VAT()}], ids=["pgd", "vat"]
)
def test_training_under_noise(terms):
    objective = Supervised(model(), terms=terms)
    with TensorShapes() as shapes:
        objective.losses(Batch(text_inputs([TOKENS, 40]), torch.ones(2, 80)))["loss"].backward()
    assert not pairs(shapes)


def test_the_search_for_a_token_mask():
    with TensorShapes() as shapes:
        sparse_variable(model(), text_inputs([TOKENS]), Search(num_steps=2))
    assert not pairs(shapes)


@pytest.mark.parametrize("metric", [Comprehensiveness, Sufficiency])
def test_metrics(metric):
    network, inputs = model(), text_inputs([TOKENS])
    scores = torch.rand(1, 2, TOKENS, generator=torch.Generator().manual_seed(0))
    attribution = Attribution(scores, CLASSES, torch.ones_like(CLASSES).bool(), inputs.token_mask)
    with TensorShapes() as shapes:
        metric(Counts(Range(first=1, last=9)), erasure="mask", explained="all").measure(
            attribution, Batch(inputs, torch.zeros(1, 80)), PredictOnce(predict_of(network), inputs)
        )
    assert not pairs(shapes)


def test_lime_has_pairs_only_in_its_regression_of_all_units():
    with TensorShapes() as shapes:
        LIME(num_samples=6).attribute(model(), text_inputs([TOKENS]), CLASSES)
    assert {dtype for _, dtype in pairs(shapes)} == {torch.float64}  # the network is in float32


def test_occlusion_has_pairs_only_as_masks_of_its_versions():
    with TensorShapes() as shapes:
        Occlusion().attribute(model(), text_inputs([TOKENS]), CLASSES)
    assert {dtype for _, dtype in pairs(shapes)} == {torch.bool}
