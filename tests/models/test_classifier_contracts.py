"""Laws of every Classifier in lightning_xai.models, found by importing the package, and of the documented example."""

import copy
import doctest
import importlib
import inspect
import pkgutil
import re
from dataclasses import replace

import pytest
import torch

import lightning_xai.models
from lightning_xai.models.base import Classifier
from tests.conftest import PAD, TINY_CONFIGS, VOCAB_SIZE, text_inputs

ARGUMENTS = {"config": TINY_CONFIGS["roberta"], "num_classes": 3, "segment_length": 4, "vocab_size": VOCAB_SIZE}


def classifier_classes() -> list[type[Classifier]]:
    classes = set()
    for module in pkgutil.walk_packages(lightning_xai.models.__path__, "lightning_xai.models."):
        for _, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(value, Classifier) and not inspect.isabstract(value) and value.__module__ == module.name:
                classes.add(value)
    return sorted(classes, key=lambda c: c.__name__)


def documented_class() -> type[Classifier]:
    """Returns the class in the Example of Classifier, which developers copy."""
    names = dict(vars(lightning_xai.models.base))
    exec(doctest.DocTestParser().get_examples(Classifier.__doc__ or "")[0].source, names)
    return names["BagOfWords"]


def build(network_class: type[Classifier]) -> Classifier:
    names = inspect.signature(network_class.__init__).parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = network_class(**{k: v for k, v in ARGUMENTS.items() if k in names})
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.double().eval()


CLASSES = [*classifier_classes(), documented_class()]
FIRST_WEIGHT = re.compile(r"layer\.0\..*query\.weight$|encoder\..*weight_ih_l0$")


def first_weights(model: Classifier) -> list[torch.nn.Parameter]:
    """Returns weights of a transformer's first layer or of an LSTM, found by their names."""
    return [p for n, p in model.named_parameters() if FIRST_WEIGHT.search(n)]


def require_readout_kind(network_class: type[Classifier]) -> None:
    kind = getattr(network_class, "readout_is_attention", None)
    assert isinstance(kind, bool), (
        f"{network_class.__name__} does not define readout_is_attention: set it to True in the class if the head "
        "attends to tokens, or to False if it reads fixed tokens"
    )


@pytest.fixture(params=CLASSES, ids=lambda c: c.__name__)
def model(request):
    return build(request.param)


@pytest.fixture
def attending(model, inputs):
    """A model whose tokens attend to one another; tests of other networks are skipped."""
    model.set_attention("eager")
    attentions = model(inputs, output_attentions=True).attentions
    model.set_attention("sdpa")
    if attentions is None:
        pytest.skip(f"{type(model).__name__} has no attention between tokens")
    return model


@pytest.fixture
def inputs():
    return text_inputs([9, 5])


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def test_the_walk_finds_the_models():
    found = {c.__name__: c for c in classifier_classes()}
    assert all(first_weights(build(found[name])) for name in ("BiLSTMAttention", "HFClassifier", "PLMCA"))


@pytest.mark.parametrize("network_class", CLASSES, ids=lambda c: c.__name__)
def test_the_class_says_whether_its_readout_is_attention(network_class):
    require_readout_kind(network_class)


def test_a_class_that_does_not_say_so_is_named():
    nameless = type("Silent", (Classifier,), {})
    with pytest.raises(AssertionError, match="Silent does not define readout_is_attention"):
        require_readout_kind(nameless)


def test_the_last_hidden_state_is_what_the_readout_weights(model, inputs):
    output = model(inputs, output_hidden_states=True)
    assert output.hidden_states[-1].shape[:2] == inputs.input_ids.shape == output.readout.shape[::2]
    assert model(inputs).hidden_states is None
    try:
        layers = model.head_layers()
    except ValueError:
        pytest.skip(f"{type(model).__name__} has no head layers to check the logits with")
    states = output.readout @ output.hidden_states[-1]
    for layer in layers:
        states = layer(states)
    close(states.reshape(output.logits.shape), output.logits)


def test_embeddings_of_the_inputs_give_the_same_logits(model, inputs):
    close(model(inputs, model.embed(inputs)).logits, model(inputs).logits)


def test_logits_do_not_depend_on_neighbors_or_padding(model, inputs):
    close(model(inputs[1:].trim()).logits, model(inputs).logits[1:])


def test_logits_do_not_depend_on_the_side_of_padding(model, inputs):
    left = inputs[1:].map(lambda t: t.roll(4, dims=1) if t.dim() > 1 else t)
    close(model(left).logits, model(inputs[1:]).logits)
    close(model(left, model.embed(left)).logits, model(inputs[1:]).logits)


def test_logits_do_not_depend_on_what_stands_at_padding(model, inputs):
    ids = torch.where(inputs.attention_mask, inputs.input_ids, 7)
    close(model(replace(inputs, input_ids=ids)).logits, model(inputs).logits)
    embeds = torch.where(inputs.attention_mask.unsqueeze(-1), model.embed(inputs), 100.0)
    close(model(inputs, embeds).logits, model(inputs).logits)


def test_masked_tokens_inside_the_text_count_as_deleted(model):
    text = text_inputs([9])
    holes = replace(text, attention_mask=text.attention_mask & (torch.arange(9) != 3) & (torch.arange(9) != 4))
    kept = [0, 1, 2, 5, 6, 7, 8]
    deleted = text.map(lambda t: t[:, kept] if t.dim() > 1 else t)
    close(model(holes).logits, model(deleted).logits)


def test_erasing_with_pad_ids_moves_no_position(model, inputs):
    ids = inputs.input_ids.clone()
    ids[:, 2] = PAD
    erased = replace(inputs, input_ids=ids)
    close(model(inputs, model.embed(erased)).logits, model(erased).logits)


def test_rows_of_the_readout_sum_to_one_over_tokens(model, inputs):
    readout = model(inputs).readout
    assert readout.shape[0] == 2 and readout.shape[1] in (1, model.num_classes) and readout.shape[2] == 9
    close((readout * inputs.attention_mask.unsqueeze(1)).sum(dim=-1), torch.ones(readout.shape[:2], dtype=torch.double))


def test_readout_keeps_its_columns_when_padding_is_on_the_left(model, inputs):
    left = inputs[1:].map(lambda t: t.roll(4, dims=1) if t.dim() > 1 else t)
    close(model(left).readout, model(inputs[1:]).readout.roll(4, dims=-1))


def test_hidden_states_keep_their_columns_when_padding_is_on_the_left(model, inputs):
    left = inputs[1:].map(lambda t: t.roll(4, dims=1) if t.dim() > 1 else t)
    states = model(left, output_hidden_states=True).hidden_states[-1]
    close(states[:, 4:], model(inputs[1:], output_hidden_states=True).hidden_states[-1][:, :5])


def test_there_is_one_hidden_state_more_than_attentions(attending, inputs):
    attending.set_attention("eager")
    output = attending(inputs, output_attentions=True, output_hidden_states=True)
    assert len(output.hidden_states) == len(output.attentions) + 1
    assert {tuple(s.shape) for s in output.hidden_states} == {(2, 9, output.hidden_states[0].shape[-1])}


def test_attentions_are_in_the_graph_of_the_logits(attending, inputs):
    attending.set_attention("eager")
    output = attending(inputs, output_attentions=True)
    for gradient in torch.autograd.grad(output.logits.sum(), output.attentions):
        assert gradient.isfinite().all()


def test_attentions_without_eager_attention_are_refused(attending, inputs):
    with pytest.raises(ValueError, match="set_attention"):
        attending(inputs, output_attentions=True)


def test_attentions_with_padding_on_the_left_are_refused(attending, inputs):
    attending.set_attention("eager")
    with pytest.raises(ValueError, match="on the right"):
        attending(inputs[1:].map(lambda t: t.roll(4, dims=1) if t.dim() > 1 else t), output_attentions=True)


def test_both_attention_kernels_give_the_same_logits(model, inputs):
    fast = model(inputs).logits
    model.set_attention("eager")
    assert model.attention_implementation == "eager"
    close(model(inputs).logits, fast)
    model.set_attention("sdpa")
    assert model.attention_implementation == "sdpa"


def test_double_backward_through_eager_attention_reaches_encoder_weights(model, inputs):
    weights = first_weights(model)
    if not weights:
        pytest.skip(f"{type(model).__name__} has no weight with the name of a transformer's or an LSTM's first layer")
    model.set_attention("eager")
    embeds = model.embed(inputs).detach().requires_grad_()
    gradient = torch.autograd.grad(model(inputs, embeds).logits.sum(), embeds, create_graph=True)[0]
    gradient.norm().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in weights)


def test_a_row_without_any_token_gives_finite_logits_and_gradients(model, inputs):
    empty = replace(inputs, attention_mask=inputs.attention_mask & torch.tensor([[True], [False]]))
    for kernel in ("sdpa", "eager"):
        model.set_attention(kernel)
        model.zero_grad()
        output = model(empty)
        output.logits.sum().backward()
        assert output.logits.isfinite().all() and all(
            p.grad is None or p.grad.isfinite().all() for p in model.parameters()
        )


def test_embeddings_of_another_batch_size_are_refused(model, inputs):
    with pytest.raises(ValueError, match="inputs_embeds"):
        model(inputs, model.embed(inputs)[:1])


def test_a_forward_leaves_no_hook(model, inputs):
    before = [len(module._forward_hooks) for module in model.modules()]
    model(inputs, model.embed(inputs))
    assert [len(module._forward_hooks) for module in model.modules()] == before


def test_a_failing_forward_leaves_no_hook(model, inputs):
    before = [len(module._forward_hooks) for module in model.modules()]
    with pytest.raises(RuntimeError):
        model(inputs, model.embed(inputs)[..., :3])
    assert [len(module._forward_hooks) for module in model.modules()] == before


def test_a_copy_works_apart_from_the_original(model, inputs):
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.embedding_matrix.zero_()
    twin.set_attention("eager")
    twin(inputs, output_attentions=True)
    close(model(inputs).logits, build(type(model))(inputs).logits)
    assert model.attention_implementation == "sdpa"


def test_predict_matches_forward_whatever_the_chunk_size(model):
    inputs = text_inputs([5, 9, 7, 4, 8])
    expected = model.probabilities(model(inputs).logits)
    torch.testing.assert_close(model.predict(inputs, chunk_size=2), expected, rtol=0, atol=1e-6)


def test_predict_zeroes_embeddings_where_told(model, inputs):
    keep = torch.ones(2, 9, dtype=torch.bool)
    keep[:, 2] = False
    expected = model.probabilities(model(inputs, model.embed(inputs) * keep.unsqueeze(-1)).logits)
    torch.testing.assert_close(model.predict(inputs, keep), expected, rtol=0, atol=1e-6)


def test_architecture_rebuilds_the_network_from_primitives(model, inputs):
    twin = type(model)(**model.architecture()).double().eval()
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(inputs).logits, model(inputs).logits)


def test_embedding_matrix_is_the_word_table(model):
    assert model.embedding_matrix.shape[0] == VOCAB_SIZE and model.embedding_matrix.requires_grad


def test_construction_leaves_every_part_in_training_mode_and_no_gradient(model):
    fresh = type(model)(**model.architecture())
    assert all(module.training for module in fresh.modules())
    assert all(p.grad is None for p in fresh.parameters())
