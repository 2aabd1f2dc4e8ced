import warnings

import pytest
import torch

from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.functional.gradients.path_gradients import path_ends
from tests.attributions.conftest import GOLDEN_MODELS
from tests.conftest import text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 1]])


@pytest.fixture
def inputs():
    return text_inputs([6, 9])


GOLDEN_CASES = [
    *((name, output, 2) for name in ("tiny-bert", "tiny-roberta") for output in ("sum", "l2", "local_l2")),
    ("minilm", "l2", 1),
]  # name, output, number of examples


@pytest.mark.parametrize("name, output, count", GOLDEN_CASES)
def test_scores_are_those_of_captum(golden, name, output, count):  # golden/captum_ig.json
    case = golden("captum_ig", name, max_examples=count)
    method = IntegratedGradients(pooling=output.removeprefix("local_"), multiply_by_inputs="local" not in output)
    scores = method.scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows(output), strict=True):
        torch.testing.assert_close(row[:, : expected.shape[1]], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_deltas_are_those_of_captum(golden, name):  # golden/captum_ig.json
    case = golden("captum_ig", name, max_examples=1 if name == "minilm" else 2)
    deltas = IntegratedGradients().convergence_delta(case.model, case.inputs, case.targets)
    torch.testing.assert_close(
        deltas, torch.stack(case.rows("delta")), rtol=0, atol=1e-8
    )  # the weights of captum are float32


@pytest.mark.parametrize("quadrature", ["gausslegendre", "riemann_middle", "riemann_right"])
def test_plm_ca_has_the_scores_of_captum(tiny_plm_ca, inputs, quadrature):
    import captum.attr

    model = tiny_plm_ca.double()
    explainer = captum.attr.IntegratedGradients(
        lambda embeds, index: model(inputs[index % len(inputs)], embeds).logits, multiply_by_inputs=False
    )
    start, end = (embeds.detach() for embeds in path_ends(model, inputs, "fill"))
    scores = IntegratedGradients(7, quadrature, multiply_by_inputs=False, delta_tolerance=None).scores(
        model, inputs, TARGETS
    )
    for column in range(2):
        expected = explainer.attribute(
            end, start, TARGETS[:, column], additional_forward_args=torch.arange(2), n_steps=7, method=quadrature
        )
        torch.testing.assert_close(scores[:, column], torch.linalg.vector_norm(expected, dim=-1))


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
@pytest.mark.parametrize("baseline", ["fill", "zero"])
def test_signed_scores_sum_to_the_difference_of_the_logits(kind, baseline, inputs):
    model = tiny_classifier(kind).double()
    scores = IntegratedGradients(300, pooling="sum", baseline=baseline).scores(model, inputs, TARGETS)
    start, end = path_ends(model, inputs, baseline)
    difference = (model(inputs, end).logits - model(inputs, start).logits).gather(1, TARGETS)
    torch.testing.assert_close(scores.sum(-1), difference, rtol=1e-4, atol=1e-4)


def test_the_delta_falls_with_the_steps(tiny_plm_ca, inputs):
    model = tiny_plm_ca.double()
    few, many = (IntegratedGradients(n).convergence_delta(model, inputs, TARGETS).abs().max() for n in (3, 50))
    assert many < 1e-6 < few


def test_tokens_that_are_their_own_baseline_score_zero(tiny_hf, inputs):
    scores = IntegratedGradients(5).attribute(tiny_hf, inputs, TARGETS).scores
    assert not scores.masked_select(~inputs.token_mask.unsqueeze(1)).any()
    assert scores.masked_select(inputs.token_mask.unsqueeze(1)).all()


def test_a_delta_above_the_tolerance_warns_once(tiny_hf, inputs):
    method = IntegratedGradients(2, delta_tolerance=1e-6)
    with pytest.warns(UserWarning, match="raise num_steps above 2"):
        method.attribute(tiny_hf, inputs, TARGETS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.attribute(tiny_hf, inputs, TARGETS)


def test_a_delta_below_the_tolerance_is_silent(tiny_hf, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IntegratedGradients(2, delta_tolerance=1e6).attribute(tiny_hf, inputs, TARGETS)


def test_checking_the_delta_costs_two_forward_passes():
    assert IntegratedGradients(50).passes(9, 3) == (52, 150)
    assert IntegratedGradients(50, delta_tolerance=None).passes(9, 3) == (50, 150)


def test_default_tolerance_warns_of_few_steps_and_not_of_the_default_steps(tiny_plm_ca, inputs):
    with pytest.warns(UserWarning, match="more than 0.05: raise num_steps above 2"):
        IntegratedGradients(2).attribute(tiny_plm_ca, inputs, TARGETS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        IntegratedGradients().attribute(tiny_plm_ca, inputs, TARGETS)


@pytest.mark.parametrize(
    "arguments", [{"num_steps": 0}, {"chunk_size": 0}, {"baseline": "pad"}, {"quadrature": "simpson"}]
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="is"):
        IntegratedGradients(**arguments)
