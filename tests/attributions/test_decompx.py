import copy
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from lightning_xai.attributions.decompx import DecompositionRules, DecompX, decompose_segment, decompose_text
from lightning_xai.functional.decomposition.bias_shares import distribute_bias
from lightning_xai.functional.decomposition.encoder_layer import trace_layers
from lightning_xai.types import ClassifierOutput
from tests.conftest import text_inputs, tiny_classifier

SETTINGS: dict[str, dict[str, Any]] = {  # of golden/decompx.json
    "recommended": {},
    "no_biases": {"bias": "none"},
    "bias_norm": {"bias": "norm"},
    "bias_equal": {"bias": "equal"},
    "bias_cls": {"bias": "cls"},
    "bias_abssim": {"bias": "abssim"},
    "gelu_la_tanh_la": {"activation": "local_affine"},
    "relu": {"activation": "relu"},
    "no_ffn": {"feed_forward": "left_out"},
}
each_setting = pytest.mark.parametrize(  # MiniLM takes seconds
    ("name", "setting"),
    [("minilm", "recommended"), *((name, s) for name in ("tiny-bert", "tiny-roberta") for s in SETTINGS)],
)
COMPLETE = ["absdot", "abssim", "norm", "equal", "cls"]
ENCODERS = ["bert", "roberta", "distilbert", "electra", "big_bird", "deberta-v2", "plm_ca"]


def examples_of(name: str, setting: str) -> int:
    """Returns the number of golden texts that a test reads: all five for the recommended setting of tiny networks."""
    if name == "minilm":
        return 1
    return 5 if setting == "recommended" else 2


def forward(model, inputs) -> ClassifierOutput:
    model.set_attention("eager")
    with torch.no_grad():
        return model(inputs, output_attentions=True, output_hidden_states=True)


def decomposed(model, inputs, row=0, **arguments):
    """Returns vectors [1, T, D] and logits [1, T, C] of the tokens of one text."""
    output, length = forward(model, inputs), int(inputs.attention_mask[row].sum())
    readout, layers, head = output.readout[row, :, :length], model.encoder_layers(), model.head_layers()
    with torch.no_grad():
        return decompose_text(layers, head, output, row, readout, output.logits[row], DecompositionRules(**arguments))


def in_double(method, model, inputs, targets):
    model.double()
    model.set_attention("eager")
    return method.scores(model, inputs, targets)


@each_setting
def test_class_scores_are_those_of_the_authors_code(golden, name, setting):  # golden/decompx.json
    case = golden("decompx", name, max_examples=examples_of(name, setting))
    scores = DecompX(**SETTINGS[setting]).scores(case.model, case.inputs, case.targets)
    for row, record in zip(scores, case.outputs, strict=True):
        expected = torch.tensor(record["outputs"][setting]["classifier"], dtype=torch.float64).T
        tolerance = 1e-8 * float(expected.abs().max())
        torch.testing.assert_close(row[:, : expected.shape[1]], expected, rtol=0, atol=tolerance)


@each_setting
def test_norms_are_those_of_the_authors_code(golden, name, setting):  # golden/decompx.json
    case = golden("decompx", name, max_examples=examples_of(name, setting))
    scores = DecompX(**SETTINGS[setting], score="norm").scores(case.model, case.inputs, case.targets[:, :1])
    for row, record in zip(scores, case.outputs, strict=True):
        expected = torch.tensor(record["outputs"][setting]["importance_norm"], dtype=torch.float64)
        torch.testing.assert_close(row[0, : len(expected)], expected, rtol=0, atol=1e-8 * float(expected.abs().max()))


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_class_scores_in_single_precision_are_those_of_the_authors_code(golden, name, setting):
    case = golden("decompx", name, max_examples=examples_of(name, setting))
    case.model = copy.deepcopy(case.model).float()
    scores = DecompX(**SETTINGS[setting]).scores(case.model, case.inputs, case.targets)
    for row, record in zip(scores, case.outputs, strict=True):
        expected = torch.tensor(record["outputs"][setting]["classifier"]).T
        tolerance = 1e-5 * float(expected.abs().max())
        torch.testing.assert_close(row[:, : expected.shape[1]], expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta"])
def test_the_source_of_biases_is_that_of_the_authors_code(golden, name):
    case = golden("decompx", name)
    for row, record in enumerate(case.outputs):
        vectors, outputs = decomposed(case.model, case.inputs, row, bias="token")
        outputs = distribute_bias(outputs[:, :-1], outputs[:, -1], "absdot")[0]  # the last step of the authors' code
        expected = record["outputs"]["bias_token_absdot"]
        for values, key in ((vectors[0].norm(dim=-1), "importance_norm"), (outputs, "classifier")):
            torch.testing.assert_close(values, torch.tensor(expected[key], dtype=torch.float64), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta"])
def test_vectors_read_by_the_head_are_those_of_the_authors_code(golden, name):
    case = golden("decompx", name)
    for row, record in enumerate(case.outputs):
        actual, expected = (
            decomposed(case.model, case.inputs, row)[0][0],
            record["outputs"]["recommended"]["cls_vectors"],
        )
        torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta"])
def test_norms_after_every_layer_are_those_of_the_authors_code(golden, name):
    case = golden("decompx", name, max_examples=2)
    for row, record in enumerate(case.outputs):
        expected = torch.tensor(record["outputs"]["recommended"]["aggregated_norm_all_layers"], dtype=torch.float64)
        output, identity = segment(case.model, case.inputs, row), torch.eye(expected.shape[-1], dtype=torch.float64)
        for depth, norms in enumerate(expected, start=1):
            layers = case.model.encoder_layers()[:depth]
            vectors, _ = decompose_segment(layers, output, identity, DecompositionRules())
            torch.testing.assert_close(vectors.detach().norm(dim=-1), norms, rtol=0, atol=1e-8)


def segment(model, inputs, row=0):
    """Returns the forward pass of one text that is one segment."""
    return forward(model, inputs[row : row + 1].trim())


@pytest.mark.parametrize("rule", COMPLETE)
def test_vectors_sum_to_the_hidden_state_after_every_layer(rule):
    model, inputs = tiny_classifier("bert").double(), text_inputs([9])
    output, identity = segment(model, inputs), torch.eye(9, dtype=torch.float64)
    for depth in (1, 2):
        vectors, _ = decompose_segment(model.encoder_layers()[:depth], output, identity, DecompositionRules(bias=rule))
        torch.testing.assert_close(vectors.sum(dim=1), output.hidden_states[depth][0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("rule", COMPLETE)
def test_class_scores_of_all_tokens_sum_to_the_logit(kind, rule):
    model, inputs, targets = tiny_classifier(kind), text_inputs([6, 20]), torch.tensor([[0, 2], [1, 2]])
    scores = in_double(DecompX(bias=rule), model, inputs, targets)
    logits = model(inputs).logits.gather(1, targets)
    torch.testing.assert_close(scores.sum(-1), logits, rtol=1e-10, atol=1e-10)


def test_class_scores_of_a_decoder_sum_to_the_logit():  # the RMSNorm of transformers rounds to float32
    model, inputs, targets = tiny_classifier("llama"), text_inputs([6, 20]), torch.tensor([[0, 2], [1, 2]])
    scores = in_double(DecompX(), model, inputs, targets)
    torch.testing.assert_close(scores.sum(-1), model(inputs).logits.gather(1, targets), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert", "llama", "plm_ca"])
def test_a_network_in_bfloat16_has_about_the_scores_of_double_precision(kind):
    model, inputs, targets = tiny_classifier(kind), text_inputs([6, 20]), torch.tensor([[0, 2], [1, 2]])
    expected = in_double(DecompX(), model, inputs, targets)
    actual = DecompX().attribute(model.bfloat16(), inputs, targets).scores
    torch.testing.assert_close(actual, expected.float(), rtol=0, atol=0.05 * float(expected.abs().max()))


@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
def test_with_a_source_of_biases_the_parts_sum_to_the_logits(kind):
    model, inputs = tiny_classifier(kind).double(), text_inputs([20])
    outputs = decomposed(model, inputs, bias="token")[1]
    expected = forward(model, inputs).logits[0]
    torch.testing.assert_close(outputs.sum(dim=1).flatten(), expected, rtol=1e-10, atol=1e-10)


def test_scores_with_tangents_sum_to_the_logit(tiny_hf):
    inputs, targets = text_inputs([9]), torch.tensor([[0, 1, 2]])
    scores = in_double(DecompX(activation="local_affine"), tiny_hf, inputs, targets)
    torch.testing.assert_close(scores.sum(-1), tiny_hf(inputs).logits, rtol=1e-10, atol=1e-10)


def share(vectors, bias, rule):
    """Returns vectors {source: [D]} with their shares of a bias, computed source by source."""
    weights = {
        "absdot": {s: (x @ bias).abs() for s, x in vectors.items()},
        "abssim": {s: F.cosine_similarity(x, bias, dim=0).abs() for s, x in vectors.items()},
        "norm": {s: x.norm() for s, x in vectors.items()},
        "equal": {s: bias.new_ones(()) for s in vectors},
        "cls": {s: bias.new_tensor(s == 0) for s in vectors},
        "none": {s: bias.new_zeros(()) for s in vectors},
    }[rule]
    total = sum(weights.values()) if rule != "none" else 1
    return {s: x + weights[s] / total * bias for s, x in vectors.items()}


def normalized(norm, vectors, state):
    """Returns vectors {source: [D]} after `norm`, with its deviation fixed at that of `state` [D]."""
    deviation = (state.var(unbiased=False) + norm.eps).sqrt()
    return {s: (x - x.mean()) / deviation * norm.weight for s, x in vectors.items()}


def twin(model, output, rule):
    """Returns class scores [T, C] of a BERT classifier, computed position by position and source by source."""
    traces = trace_layers(model.encoder_layers(), output, torch.ones(output.readout.shape[1:], dtype=torch.bool))
    states = {i: {i: x} for i, x in enumerate(output.hidden_states[0][0])}
    for place, (layer, trace) in enumerate(zip(model.encoder_layers(), traces, strict=True)):
        after = {}
        for i in states:
            vectors = {s: states[i].get(s, torch.zeros(16, dtype=torch.float64)) for s in states}
            for j in states:
                for s, x in states[j].items():
                    value = layer.value.weight @ x + (layer.value.bias if place == 0 else 0)
                    weights = trace.attention[0, :, i, j].repeat_interleave(layer.head_size)
                    vectors[s] = vectors[s] + layer.output.weight @ (weights * value)
            late = layer.output.weight @ layer.value.bias if place else 0
            vectors = share(vectors, layer.output.bias + late, rule)
            vectors = normalized(layer.attention_norm, vectors, trace.attention_sum[0, i])
            block = share(vectors, layer.attention_norm.bias, rule)
            units = share({s: layer.up.weight @ x for s, x in block.items()}, layer.up.bias, rule)
            slope = F.gelu(trace.preactivation[0, i]) / trace.preactivation[0, i]
            added = share({s: layer.down.weight @ (slope * h) for s, h in units.items()}, layer.down.bias, rule)
            vectors = {s: block[s] + added[s] for s in block}
            vectors = normalized(layer.feed_forward_norm, vectors, trace.feed_forward_sum[0, i])
            after[i] = share(vectors, layer.feed_forward_norm.bias, rule)
        states = after
    dense, _, classifier = model.head_layers()
    z = dense(output.hidden_states[-1][0, 0])
    pooled = share({s: dense.weight @ x for s, x in states[0].items()}, dense.bias, rule)
    scores = share({s: classifier.weight @ (x * z.tanh() / z) for s, x in pooled.items()}, classifier.bias, rule)
    return torch.stack([scores[s] for s in range(len(scores))])


@torch.no_grad()
@pytest.mark.parametrize("rule", [*COMPLETE, "none"])
def test_class_scores_are_those_of_a_loop_over_positions_and_sources(rule):
    model, inputs = tiny_classifier("bert").double(), text_inputs([6])
    expected = twin(model, segment(model, inputs), rule)
    torch.testing.assert_close(decomposed(model, inputs, bias=rule)[1][0], expected, rtol=1e-9, atol=1e-9)


def test_norms_are_the_same_for_every_class(tiny_hf):
    tiny_hf.set_attention("eager")
    scores = DecompX(score="norm").attribute(tiny_hf, text_inputs([6, 9]), torch.tensor([[0, 1], [2, 0]])).scores
    assert torch.equal(scores[:, 0], scores[:, 1]) and (scores[1] > 0).all()


@pytest.mark.parametrize("coefficient", ["query.weight", "value.weight", "intermediate.dense.weight"])
def test_the_gradient_of_a_score_matches_finite_differences(tiny_hf, coefficient):
    model, inputs, targets = tiny_hf.double(), text_inputs([6]), torch.tensor([[1]])
    model.set_attention("eager")
    weights = {name: parameter for name, parameter in model.named_parameters() if "layer.0." in name}
    weight = next(parameter for name, parameter in weights.items() if name.endswith(coefficient))
    method = DecompX()

    def score():
        return method.scores(model, inputs, targets, create_graph=True)[0, 0, 2]

    gradient = torch.autograd.grad(score(), weight)[0][0, 0]
    with torch.no_grad():
        weight[0, 0] += 1e-6
        above = score()
        weight[0, 0] -= 2e-6
        below = score()
    torch.testing.assert_close(gradient, ((above - below) / 2e-6).detach(), rtol=1e-4, atol=1e-9)


def test_a_chunk_of_no_source_is_refused():
    with pytest.raises(ValueError, match="chunk_size is 0: give at least 1 source token"):
        DecompX(chunk_size=0)


def test_an_architecture_with_unknown_layers_is_refused_by_name():
    model = tiny_classifier("modernbert")
    model.set_attention("eager")
    with pytest.raises(ValueError, match="the structure of modernbert's layers is unknown"):
        DecompX().attribute(model, text_inputs([6]), torch.tensor([[0]]))
