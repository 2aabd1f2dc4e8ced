"""The scorer of AML: where the prediction enters, what is trained, which texts and networks are refused."""

import copy
from dataclasses import replace

import pytest
import torch

from lightning_xai.models.scorer.token_scorer import TokenScorer
from lightning_xai.types import TextInputs
from tests.conftest import SEP, TINY_CONFIGS, text_inputs, tiny_classifier

ENCODERS = [name for name in TINY_CONFIGS if name != "llama"]


def scorer(kind: str = "bert", **options) -> TokenScorer:
    made = TokenScorer(config=TINY_CONFIGS[kind], num_classes=3, **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made.double().eval()


def predictions(rows: int) -> torch.Tensor:
    return torch.randn(rows, 3, dtype=torch.float64).softmax(-1)


@pytest.mark.parametrize("kind", ENCODERS)
def test_padding_and_neighbors_change_no_logit(kind):
    made, inputs, y = scorer(kind), text_inputs([6, 13, 9], pad_to=15), predictions(3)
    together = made(inputs, y)
    for row, length in enumerate([6, 13, 9]):
        alone = made(inputs[row : row + 1].trim(), y[row : row + 1])
        assert torch.allclose(together[row : row + 1, :length], alone, atol=1e-10)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_padding_on_the_left_changes_no_logit(kind):
    made, inputs, y = scorer(kind), text_inputs([6, 9]), predictions(2)
    rolled = inputs.map(lambda t: torch.stack([t[0].roll(3), t[1]]) if t.dim() > 1 else t)
    expected = made(inputs, y)
    assert torch.allclose(made(rolled, y)[0, 3:], expected[0, :6], atol=1e-10)
    assert torch.allclose(made(rolled, y)[1], expected[1], atol=1e-10)


def test_the_prediction_stands_after_the_last_separator_of_each_text_and_pair():
    made, y = scorer(), predictions(3)
    inputs = TextInputs.of_ids([[1, 5, 2, 6, 7, 2], [1, 8, 2], [1, 9, 9, 9, 9, 9, 2]], special_ids=[1, 2])
    types = torch.tensor([[0, 0, 0, 1, 1, 1, 0], [0] * 7, [0] * 7])
    arguments = made.reader_arguments(replace(inputs, token_type_ids=types), y)
    table = made.reader.encoder.get_input_embeddings()
    for row, length in enumerate([6, 3, 7]):
        expected = made.z[0] + sum(y[row, j] * made.z[j + 1] for j in range(3))
        assert torch.allclose(arguments["embeds"][row, length], expected)
        assert inputs.input_ids[row, length - 1] == SEP
        assert torch.equal(arguments["embeds"][row, :length], table(inputs.input_ids[row, :length]))
        assert arguments["attention_mask"][row].tolist() == [1] * (length + 1) + [0] * (7 - length)
        assert arguments["position_ids"][row, : length + 1].tolist() == list(range(length + 1))
    assert arguments["token_type_ids"][0].tolist() == [0, 0, 0, 1, 1, 1, 1, 0]


def test_each_class_and_no_class_has_an_embedding_with_a_gradient():
    made = scorer()
    made(text_inputs([6, 13, 9]), torch.eye(3, dtype=torch.float64)).sum().backward()
    assert made.z.shape == (4, 16) and made.z.grad is not None
    assert (made.z.grad.abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize("kind", ENCODERS)
def test_everything_but_the_embedding_module_is_trained(kind):
    made = scorer(kind)
    made(text_inputs([6, 13]), predictions(2)).square().sum().backward()
    without = [name for name, parameter in made.named_parameters() if parameter.grad is None]
    assert without and all(name.startswith("reader.encoder.embeddings.") for name in without)
    trained = [name for name, parameter in made.named_parameters() if parameter.requires_grad]
    assert not set(trained) & set(without)


def test_a_scorer_is_rebuilt_from_its_architecture():
    made, inputs, y = scorer("roberta"), text_inputs([6, 13]), predictions(2)
    again = TokenScorer(**made.architecture()).double().eval()
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(inputs, y), made(inputs, y))


def test_a_scorer_takes_the_encoder_of_the_explained_network():
    network, made = tiny_classifier("bert"), TokenScorer(config=TINY_CONFIGS["bert"], num_classes=3)
    made.copy_encoder(network.transformer)
    own, theirs = made.reader.encoder.state_dict(), network.transformer.base_model.state_dict()
    assert own and all(torch.equal(value, theirs[name]) for name, value in own.items())
    with pytest.raises(ValueError, match="has no weight .* set scorer.path"):
        made.copy_encoder(tiny_classifier("roberta").transformer)


def test_a_network_that_reads_from_left_to_right_is_refused():
    with pytest.raises(ValueError, match="llama: its tokens do not attend to later tokens"):
        TokenScorer(config=TINY_CONFIGS["llama"])


@pytest.mark.parametrize(("kind", "most"), [("bert", 19), ("roberta", 18)])
def test_a_text_that_leaves_no_position_is_refused_with_the_length_that_fits(kind, most):
    config = TINY_CONFIGS[kind] | {"max_position_embeddings": 20}
    made = TokenScorer(config=config, num_classes=3)
    made(text_inputs([most]), torch.ones(1, 3))
    with pytest.raises(ValueError, match=f"has {most + 1} tokens, .* max_length to at most {most}"):
        made(text_inputs([most + 1]), torch.ones(1, 3))


def test_last_layers_are_named_with_the_head():
    made = scorer()
    names = made.trained_names("last:1")
    assert all(name.startswith(("encoder.encoder.layer.1.", "hidden.", "output.")) for name in names)
    assert set(made.trained_names("last:2")) == set(made.trained_names())
    with pytest.raises(ValueError, match="tuned is 'last:3': .* K from 1 to 2"):
        made.trained_names("last:3")


def test_forward_leaves_the_scorer_as_it_was():
    made = scorer()
    before = copy.deepcopy(made.state_dict())
    made(text_inputs([6]), predictions(1))
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
