"""The BiLSTM with attention equals its formulas, written out for one text, and can be explained by gradients."""

import copy
from dataclasses import replace

import pytest
import torch

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.attention_gradient import AttentionGradient
from lightning_xai.attributions.decompx import DecompX
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.models.bilstm import BiLSTMAttention, attention_weights
from tests.conftest import MASK, PAD, VOCAB_SIZE, text_inputs

TARGETS = torch.tensor([[0, 2], [1, 2]])


def network(**arguments) -> BiLSTMAttention:
    sizes = {"vocab_size": VOCAB_SIZE, "num_classes": 3, "embedding_size": 6, "hidden_size": 4}
    return BiLSTMAttention(**(sizes | arguments)).double().eval()


def paired_inputs(lengths=(9, 7), *, main: int = 5):
    """Returns [CLS] words [SEP] words [SEP]; the main text has `main` tokens, [CLS] and the first [SEP] included."""
    inputs = text_inputs(list(lengths))
    column = torch.arange(inputs.input_ids.shape[1])
    special = inputs.special_tokens_mask | (column == main - 1)
    return replace(
        inputs,
        special_tokens_mask=special,
        token_mask=inputs.attention_mask & ~special & (column < main),
        token_type_ids=((column >= main) & inputs.attention_mask).long(),
    )


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def lstm_states(lstm, rows):
    """Returns the states of one direction, token by token."""
    h = c = torch.zeros(lstm.hidden_size, dtype=torch.double)
    states = []
    for x in rows:
        gates = lstm.weight_ih_l0 @ x + lstm.bias_ih_l0
        gates = gates + lstm.weight_hh_l0 @ h + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        c = sigmoid(f) * c + sigmoid(i) * torch.tanh(g)
        h = sigmoid(o) * torch.tanh(c)
        states.append(h)
    return states


def both_directions(encoder, rows):
    """Returns the states [T, 2H] of a text, and the last ones of both directions [2H]."""
    forward, backward = lstm_states(encoder.left_to_right, rows), lstm_states(encoder.right_to_left, rows.flip(0))
    states = [torch.cat(pair) for pair in zip(forward, backward[::-1], strict=True)]
    return torch.stack(states), torch.cat([forward[-1], backward[-1]])


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_logits_of_a_text_follow_the_formulas():
    model, inputs = network(), text_inputs([9, 7])
    states, _ = both_directions(model.encoder, model.embed(inputs)[1, :7])
    words = states[1:6]  # between [CLS] and [SEP]
    u = torch.tanh(words @ model.attention.weight.T + model.attention.bias)
    alpha = torch.softmax(u @ model.query.weight[0], dim=0)
    logits = model.output.weight @ (alpha @ words) + model.output.bias
    output = model(inputs)
    close(output.logits[1], logits)
    close(output.readout[1, 0, 1:6], alpha)


def test_logits_of_a_pair_follow_the_formulas():
    model, inputs = network(paired=True), paired_inputs((9, 8))
    embeds = model.embed(inputs)[1]
    states, _ = both_directions(model.encoder, embeds[:5])
    _, last = both_directions(model.auxiliary_encoder, embeds[5:8])
    words = states[1:4]
    u = torch.tanh(model.attention(words) + model.auxiliary_attention(last))
    alpha = torch.softmax(u @ model.query.weight[0], dim=0)
    context = torch.tanh(model.decoder(alpha @ words) + model.auxiliary_decoder(last))
    output = model(inputs)
    close(output.logits[1], model.output(context))
    close(output.readout[1, 0, 1:4], alpha)


def test_nothing_but_words_of_the_main_text_is_attended_to():
    inputs = paired_inputs()
    attended = network(paired=True)(inputs).readout[:, 0] > 0
    assert torch.equal(attended, inputs.token_mask)


def test_a_text_without_words_is_read_at_its_special_tokens():
    output = network()(text_inputs([2, 6]))
    close(output.readout[0, 0, :2].sum(), torch.tensor(1.0, dtype=torch.double))
    assert output.logits.isfinite().all()


def test_weights_without_any_token_are_zero():
    scores, none = torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2, dtype=torch.bool)
    assert attention_weights(scores, none, none).tolist() == [[0.0, 0.0]]


def test_pairs_do_not_depend_on_neighbors_or_padding():
    model, inputs = network(paired=True), paired_inputs((12, 8))
    left = inputs[1:].map(lambda t: t.roll(4, dims=1) if t.dim() > 1 else t)
    close(model(inputs[1:].trim()).logits, model(inputs).logits[1:])
    close(model(left).logits, model(inputs).logits[1:])


def test_an_empty_auxiliary_text_counts_as_zeros():
    model, inputs = network(paired=True), paired_inputs((9, 5))
    alone = replace(inputs, token_type_ids=torch.zeros_like(inputs.token_type_ids))[1:].trim()
    close(model(inputs).logits[1:], model(alone).logits)


def test_auxiliary_text_changes_the_logits_of_a_paired_network_only_through_its_own_encoder():
    model, inputs = network(paired=True), paired_inputs()
    embeds = model.embed(inputs).detach().requires_grad_()
    with torch.no_grad():
        model.auxiliary_attention.weight.zero_()
        model.auxiliary_decoder.weight.zero_()
    (gradient,) = torch.autograd.grad(model(inputs, embeds).logits.sum(), embeds)
    moved = gradient.abs().sum(dim=-1) > 0
    assert torch.equal(moved, inputs.attention_mask & (inputs.token_type_ids == 0))


def test_a_paired_network_needs_token_types():
    with pytest.raises(ValueError, match="token_type_ids"):
        network(paired=True)(replace(text_inputs([5]), token_type_ids=None))


def test_attention_scores_are_the_readout():
    model, inputs = network(), text_inputs([9, 7])
    scores = Attention().attribute(model, inputs, TARGETS).scores
    torch.testing.assert_close(scores, model(inputs).readout.expand(-1, 2, -1).float())


@pytest.mark.parametrize("method", [AttentionGradient(), AttInGrad(), Gradient()], ids=lambda m: type(m).__name__)
def test_gradient_methods_score_words_and_leave_the_modes(method):
    model, inputs = network().train(), text_inputs([9, 7])
    scores = method.attribute(model, inputs, TARGETS).scores
    assert (scores.abs().sum(dim=1)[inputs.token_mask] > 0).all()
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("method", [AttentionRollout(), ALTI(), DecompX()], ids=lambda m: type(m).__name__)
def test_methods_on_attentions_between_tokens_are_refused(method):
    model = network()
    model.set_attention("eager")
    with pytest.raises(ValueError, match="BiLSTMAttention|no attentions"):
        method.attribute(model, text_inputs([9, 7]), TARGETS)


def test_logits_in_half_precision_are_near_those_in_full():
    model, inputs = network().float(), text_inputs([9, 7])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(inputs).logits
    torch.testing.assert_close(logits.float(), model(inputs).logits, rtol=0, atol=0.02)


def test_rows_without_a_vector_are_drawn_and_the_others_copied():
    vectors = torch.full((VOCAB_SIZE, 6), torch.nan)
    vectors[10:20] = torch.arange(60.0).reshape(10, 6)
    table = network(word_vectors=vectors).embedding_matrix
    assert torch.equal(table[10:20], vectors[10:20].double())
    assert table.isfinite().all() and float(table[20:].detach().std()) == pytest.approx(1, abs=0.15)


def test_vectors_of_another_width_are_refused_with_the_size_to_set():
    with pytest.raises(ValueError, match="set the network's embedding_size to 5"):
        network(word_vectors=torch.zeros(VOCAB_SIZE, 5))


@pytest.mark.parametrize(("mask_row", "is_zero"), [("zero", True), ("random", False)])
def test_the_mask_row_starts_as_told(mask_row, is_zero):
    table = network(mask_row=mask_row).embedding_matrix
    assert bool((table[MASK] == 0).all()) is is_zero
    assert (table[PAD] == 0).all()


def test_arguments_for_a_checkpoint_leave_the_vectors_out():
    model = network(word_vectors=torch.zeros(VOCAB_SIZE, 6))
    assert model.architecture()["word_vectors"] is None
    assert copy.deepcopy(model).architecture() == model.architecture()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"mask_id": 200}, "mask_id is 200"),
        ({"mask_row": "none"}, "mask_row is 'none'"),
        ({"num_classes": 1}, "num_classes is 1"),
    ],
)
def test_a_wrong_argument_is_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        network(**arguments)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_gradients_in_single_precision_are_those_in_double(kernel):
    """oneDNN runs LSTMs in single precision only, so its gradients of both orders are checked against plain ones."""
    inputs, results = paired_inputs((9, 7)), []
    model = network(paired=True)
    for each in (copy.deepcopy(model).float(), model):
        each.set_attention(kernel)
        embeds = each.embed(inputs).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(each(inputs, embeds).logits[:, 0].sum(), embeds, create_graph=True)
        gradient.square().sum().backward()
        results.append([gradient, *(parameter.grad for parameter in each.parameters() if parameter.grad is not None)])
    for single, double in zip(*results, strict=True):
        torch.testing.assert_close(
            single.double(), double, rtol=0, atol=1e-5 * float(double.detach().abs().max()) + 1e-7
        )


def test_a_vocabulary_without_training_texts_is_named():
    with pytest.raises(ValueError, match="vocab_size is missing, because the data have no training texts"):
        BiLSTMAttention(vocab_size=None)  # type: ignore[arg-type]
