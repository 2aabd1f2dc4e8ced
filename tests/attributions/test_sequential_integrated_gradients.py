from dataclasses import replace

import pytest
import torch

from lightning_xai.attributions.sequential_integrated_gradients import SequentialIntegratedGradients
from tests.attributions.conftest import GOLDEN_MODELS
from tests.conftest import text_inputs, tiny_classifier

TARGETS = torch.tensor([[0, 2], [1, 1]])


@pytest.fixture
def inputs():
    return text_inputs([6, 9])


@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_sums_are_the_occlusion_differences_of_the_authors_code(golden, name):  # golden/sig.json
    case = golden("sig", name, max_examples=2)
    scores = SequentialIntegratedGradients().scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows("occlusion_difference"), strict=True):
        torch.testing.assert_close(row[:, : expected.shape[1]], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "tolerance"), [("tiny-bert", 1e-9), ("tiny-roberta", 1e-9), ("minilm", 2e-4)])
def test_sums_are_those_of_the_authors_code(golden, name, tolerance):  # golden/sig.json, whose 50 points are inexact
    case = golden("sig", name, max_examples=2)
    scores = SequentialIntegratedGradients().scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows("sum"), strict=True):
        torch.testing.assert_close(row[:, : expected.shape[1]], expected, rtol=0, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN_MODELS)
def test_norms_are_those_of_the_authors_code(golden, name):  # golden/sig.json
    case = golden("sig", name, max_examples=1)
    first_token = case.inputs.token_mask & (torch.arange(case.inputs.token_mask.shape[1]) <= 1)
    scores = SequentialIntegratedGradients("l2").scores(
        case.model, replace(case.inputs, token_mask=first_token), case.targets
    )
    torch.testing.assert_close(scores[0, :, 1], case.rows("l2")[0][:, 1], rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta"])
def test_normalized_sums_are_those_of_the_authors_code(golden, name):  # golden/sig.json
    case = golden("sig", name)
    scores = SequentialIntegratedGradients().scores(case.model, case.inputs, case.targets)
    for row, expected in zip(scores, case.rows("normalised"), strict=True):
        normalized = torch.nn.functional.normalize(row[:, : expected.shape[1]], dim=-1)
        torch.testing.assert_close(normalized, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["bert", "roberta", "plm_ca"])
def test_the_sum_on_the_line_is_the_drop_without_the_token(kind, inputs):
    model = tiny_classifier(kind).double()
    method = SequentialIntegratedGradients(num_steps=100)
    drops = method.scores(model, inputs, TARGETS)
    torch.testing.assert_close(method.line_scores(model, inputs, TARGETS), drops, rtol=1e-5, atol=1e-6)


def test_a_score_is_the_drop_of_the_logit_when_the_fill_token_replaces_the_token(tiny_plm_ca, inputs):
    scores = SequentialIntegratedGradients().attribute(tiny_plm_ca, inputs, TARGETS).scores
    ids = inputs.input_ids.clone()
    ids[1, 4] = inputs.baseline_ids[1, 4]
    drop = tiny_plm_ca(inputs).logits[1, 1] - tiny_plm_ca(replace(inputs, input_ids=ids)).logits[1, 1]
    torch.testing.assert_close(scores[1, 0, 4], drop, rtol=1e-4, atol=1e-5)


def test_norms_without_the_factor_are_those_of_the_mean_gradient(tiny_hf, inputs):
    model = tiny_hf.double()
    start, end = (model.embed(replace(inputs, input_ids=ids)) for ids in (inputs.baseline_ids, inputs.input_ids))
    method = SequentialIntegratedGradients("l1", num_steps=4, quadrature="riemann_middle", multiply_by_inputs=False)
    expected = torch.zeros(end.shape[-1], dtype=torch.float64)
    for point in (0.125, 0.375, 0.625, 0.875):
        embeds = end.detach().clone()
        embeds[1, 3] = start[1, 3] + point * (end[1, 3] - start[1, 3])
        embeds.requires_grad_()
        expected += torch.autograd.grad(model(inputs, embeds).logits[1, 1], embeds)[0][1, 3] / 4
    torch.testing.assert_close(method.scores(model, inputs, TARGETS)[1, 0, 3], expected.abs().sum())


@pytest.mark.parametrize("pooling", ["sum", "l2"])
def test_special_tokens_score_zero(tiny_hf, inputs, pooling):
    scores = SequentialIntegratedGradients(pooling, num_steps=3).attribute(tiny_hf, inputs, TARGETS).scores
    assert not scores.masked_select(~inputs.token_mask.unsqueeze(1)).any()
    assert scores.masked_select(inputs.token_mask.unsqueeze(1)).all()


@pytest.mark.parametrize("pooling", ["sum", "l2"])
def test_a_text_without_a_token_to_explain_scores_zero(tiny_hf, pooling):
    scores = SequentialIntegratedGradients(pooling, num_steps=3).attribute(tiny_hf, text_inputs([2, 2]), TARGETS).scores
    assert scores.shape == (2, 2, 2) and not scores.any()


@pytest.mark.parametrize("chunk_size", [1, 4, 100])
def test_chunk_size_changes_no_norm(tiny_hf, inputs, chunk_size):
    model = tiny_hf.double()
    expected = SequentialIntegratedGradients("l2", num_steps=3).scores(model, inputs, TARGETS)
    actual = SequentialIntegratedGradients("l2", num_steps=3, chunk_size=chunk_size).scores(model, inputs, TARGETS)
    torch.testing.assert_close(actual, expected)


def test_norms_take_one_forward_pass_for_each_token_and_point(tiny_hf, inputs):
    rows = []
    tiny_hf.register_forward_hook(lambda module, arguments, output: rows.append(len(output.logits)))
    method = SequentialIntegratedGradients("l2", num_steps=3)
    method.attribute(tiny_hf, inputs, TARGETS)
    assert sum(rows) == method.passes(4, 2).forward + method.passes(7, 2).forward == 33


def test_passes_with_and_without_the_line():
    assert SequentialIntegratedGradients().passes(7, 3) == (8, 0)
    assert SequentialIntegratedGradients("l2", num_steps=10).passes(7, 3) == (70, 210)
    assert SequentialIntegratedGradients("sum", num_steps=10, multiply_by_inputs=False).passes(7, 3) == (70, 210)


@pytest.mark.parametrize(
    "arguments", [{"num_steps": 0}, {"chunk_size": 0}, {"pooling": "mean"}, {"quadrature": "simpson"}]
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="is"):
        SequentialIntegratedGradients(**arguments)
