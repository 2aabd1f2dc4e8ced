import pytest
import torch

from lightning_xai.attributions.attention_gradient import AttentionGradient
from tests.conftest import text_inputs

TARGETS = torch.tensor([[2, 0], [1, 1]])


@pytest.fixture
def inputs():
    return text_inputs([6, 9])


def test_cross_attention_scores_match_finite_differences(tiny_plm_ca, inputs):
    model = tiny_plm_ca.double()
    scores = AttentionGradient(sign="signed").scores(model, inputs, TARGETS)
    output = model(inputs, output_hidden_states=True)
    values, readout = model.value(output.hidden_states[-1]), output.readout
    delta, expected = 1e-6, torch.zeros_like(scores)
    for token in range(inputs.input_ids.shape[1]):
        shift = torch.zeros_like(readout)
        shift[..., token] = delta
        slopes = (
            model.logits_of_readout(readout + shift, values) - model.logits_of_readout(readout - shift, values)
        ) / (2 * delta)
        expected[..., token] = (slopes * readout[..., token]).gather(1, TARGETS)
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-8)


def test_cls_scores_are_attention_times_gradient_averaged_over_heads(tiny_hf, inputs):
    model = tiny_hf.double()
    model.set_attention("eager")
    scores = AttentionGradient().scores(model, inputs, TARGETS)
    output = model(inputs, output_attentions=True)
    last = output.attentions[-1]
    for row, classes in enumerate(TARGETS.tolist()):
        for column, target in enumerate(classes):
            (gradient,) = torch.autograd.grad(output.logits[row, target], last, retain_graph=True)
            expected = (last * gradient.abs())[row, :, 0].mean(dim=0)
            torch.testing.assert_close(scores[row, column], expected)


def test_all_layers_are_averaged(tiny_hf, inputs):
    model = tiny_hf.double()
    model.set_attention("eager")
    scores = AttentionGradient("nonnegative", layers="all").scores(model, inputs[:1], TARGETS[:1])
    output = model(inputs[:1], output_attentions=True)
    gradients = torch.autograd.grad(output.logits[0, 2], output.attentions)
    rows = [(a * g.relu())[0, :, 0].mean(0) for a, g in zip(output.attentions, gradients, strict=True)]
    torch.testing.assert_close(scores[0, 0], torch.stack(rows).mean(0))


def test_one_backward_pass_serves_all_classes_of_a_cross_attention(tiny_plm_ca, inputs):
    gradients: list[torch.Tensor] = []
    tiny_plm_ca.register_forward_hook(lambda _, __, output: output.logits.register_hook(gradients.append) and None)
    AttentionGradient().attribute(tiny_plm_ca, inputs, TARGETS)
    assert len(gradients) == 1


def test_the_sign_is_applied_to_the_gradient(tiny_plm_ca, inputs):
    scores = {
        sign: AttentionGradient(sign).attribute(tiny_plm_ca, inputs, TARGETS).scores
        for sign in ("signed", "absolute", "nonnegative")
    }
    assert torch.equal(scores["absolute"], scores["signed"].abs())
    assert torch.equal(scores["nonnegative"], scores["signed"].relu())


def test_all_layers_are_refused_where_the_head_attends_to_tokens(tiny_plm_ca, inputs):
    with pytest.raises(ValueError, match="set layers to 'last'"):
        AttentionGradient(layers="all").attribute(tiny_plm_ca, inputs, TARGETS)
