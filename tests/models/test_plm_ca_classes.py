"""PLM-CA for some classes only gives the numbers that it gives for all classes."""

import pytest
import torch
from torch.profiler import profile

from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.functional.classes import class_outputs
from lightning_xai.functional.classes.class_outputs import logits_only
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

NUM_CLASSES = 100
CLASSES = torch.tensor([[7, 99, 7], [0, 3, 50], [98, 1, 2]])


def many_classes(**arguments):
    return tiny_classifier("plm_ca", num_classes=NUM_CLASSES, **arguments)


def padded_left(inputs, columns=5):
    return inputs.map(lambda t: t.roll(columns, dims=1) if t.dim() > 1 else t)


def inputs_of_kinds():
    mixed = text_inputs([19, 8, 3])
    return [mixed, text_inputs([16, 16, 16]), padded_left(text_inputs([3, 8, 9], pad_to=14))]


@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
def test_logits_and_readout_of_some_classes_are_those_of_all(mask_mode):
    model = many_classes(mask_mode=mask_mode).double()
    for inputs in inputs_of_kinds():
        every, some = model(inputs), model(inputs, classes=CLASSES)
        torch.testing.assert_close(some.logits, every.logits.gather(1, CLASSES), rtol=0, atol=1e-12)
        rows = torch.arange(3).unsqueeze(1)
        torch.testing.assert_close(some.readout, every.readout[rows, CLASSES], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
@pytest.mark.parametrize("classes", [None, CLASSES])
def test_fused_attention_gives_the_logits_and_gradients_of_plain_attention(mask_mode, classes):
    model = many_classes(mask_mode=mask_mode).double()
    for inputs in inputs_of_kinds():
        results = []
        for kernel in ("sdpa", "eager"):
            model.set_attention(kernel)
            model.zero_grad()
            logits = logits_only(model, inputs, classes=classes)
            logits.square().sum().backward()
            results.append((logits, [parameter.grad for parameter in model.parameters()]))
        (fused, of_fused), (plain, of_plain) = results
        torch.testing.assert_close(fused, plain, rtol=0, atol=1e-12)
        torch.testing.assert_close(of_fused, of_plain, rtol=1e-9, atol=1e-10)


def test_a_readout_that_is_not_asked_for_is_not_computed():
    model, inputs = many_classes(), text_inputs([20, 9])
    with torch.no_grad(), profile() as seen:
        output = model(inputs, output_readout=False)
    assert output.readout.shape == (2, 0, 20)
    assert "aten::softmax" not in {event.key for event in seen.key_averages()}


def test_a_text_without_tokens_has_the_same_logits_without_a_readout():
    model, inputs = many_classes(), text_inputs([20, 9])
    inputs.attention_mask[1] = False
    torch.testing.assert_close(logits_only(model, inputs), model(inputs).logits)


def test_eager_attention_without_a_readout_can_be_differentiated_twice():
    model, inputs = many_classes(), text_inputs([20, 9])
    model.set_attention("eager")
    embeds = model.embed(inputs).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(logits_only(model, inputs, embeds).sum(), embeds, create_graph=True)
    gradient.norm().backward()
    assert model.key.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("multilabel", [True, False])
def test_predict_gives_the_probabilities_of_some_classes(multilabel):
    model, inputs = many_classes(multilabel=multilabel), text_inputs([19, 8, 3])
    expected = model.predict(inputs).gather(1, CLASSES)
    torch.testing.assert_close(model.predict(inputs, classes=CLASSES, chunk_size=2), expected)
    assert model.predict(inputs[:0], classes=CLASSES[:0]).shape == (0, 3)


@pytest.mark.parametrize("method", [Gradient(), AttInGrad()])
def test_scores_do_not_depend_on_whether_other_classes_are_computed(method, monkeypatch):
    model, inputs = many_classes().double(), text_inputs([19, 8, 3])
    some = method.scores(model, inputs, CLASSES)
    monkeypatch.setattr(class_outputs, "FEW_CLASSES", NUM_CLASSES)
    torch.testing.assert_close(method.scores(model, inputs, CLASSES), some, rtol=0, atol=1e-12)


def test_14_of_8900_classes_make_no_tensor_of_8900_classes_by_tokens():
    from tests.models.test_plm_ca import LargestTensor

    config = TINY_CONFIGS["bert"] | {"num_hidden_layers": 1}
    model, inputs = tiny_classifier("plm_ca", config=config, num_classes=8900, segment_length=128), text_inputs([6000])
    with torch.no_grad(), LargestTensor() as seen:
        output = model(inputs, classes=torch.arange(14).unsqueeze(0))
    assert output.readout.shape == (1, 14, 6000)
    assert seen.largest < 8900 * 100
