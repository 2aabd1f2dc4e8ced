"""Laws of every Classifier in lightning_xai.models, found by importing the package, and of the documented example."""

import copy
import doctest
import importlib
import inspect
import pkgutil
from dataclasses import replace
from typing import Any

import pytest
import torch

import lightning_xai.models
from lightning_xai.models import laws
from lightning_xai.models.base import Classifier
from lightning_xai.models.encoder_weights import encoder_matrices
from tests.conftest import TINY_CONFIGS, VOCAB_SIZE, text_inputs

ARGUMENTS = {"config": TINY_CONFIGS["roberta"], "num_classes": 3, "segment_length": 4, "vocab_size": VOCAB_SIZE}
# not a Llama, whose eager kernel computes its softmax in float32 even in a float64 network
GPT2 = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": VOCAB_SIZE, "n_positions": 64}
DECODER = ARGUMENTS | {"config": GPT2, "verbalizers": [7, 9, 11]}


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
        arguments = DECODER if "verbalizers" in names else ARGUMENTS
        model = network_class(**{k: v for k, v in arguments.items() if k in names})
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.double().eval()


CLASSES = [*classifier_classes(), documented_class()]


@pytest.fixture(params=CLASSES, ids=lambda c: c.__name__)
def model(request):
    return build(request.param)


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_law(law, model):
    law(model)


def test_the_walk_finds_the_models_and_the_matrices_of_their_encoders():
    found = {c.__name__: c for c in classifier_classes()}
    named = ("BiLSTMAttention", "HFClassifier", "PLMCA")
    assert all(len(encoder_matrices(build(found[name]))) >= 4 for name in named)


@pytest.mark.parametrize("network_class", CLASSES, ids=lambda c: c.__name__)
def test_the_class_says_whether_its_readout_is_attention(network_class):
    laws.says_how_it_reads(network_class)


def test_a_class_that_does_not_say_so_is_named():
    nameless = type("Silent", (Classifier,), {})
    with pytest.raises(ValueError, match="Silent does not define readout_is_attention"):
        laws.says_how_it_reads(nameless)


def test_a_copy_works_apart_from_the_original(model):
    inputs = text_inputs([9, 5])
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.embedding_matrix.zero_()
    twin.set_attention("eager")
    twin(inputs, output_attentions=True)
    torch.testing.assert_close(model(inputs).logits, build(type(model))(inputs).logits, rtol=0, atol=1e-10)
    assert model.attention_implementation == "sdpa"


def test_embedding_matrix_is_the_word_table(model):
    assert model.embedding_matrix.shape[0] == VOCAB_SIZE and model.embedding_matrix.requires_grad


BagOfWords: Any = documented_class()


class SeesPadding(BagOfWords):
    def forward(self, inputs, inputs_embeds=None, **options):
        output = super().forward(inputs, inputs_embeds, **options)
        return replace(output, logits=output.logits * inputs.input_ids.shape[1])


class IgnoresEmbeds(BagOfWords):
    def forward(self, inputs, inputs_embeds=None, **options):
        return super().forward(inputs, None, **options)


class ReadsTooMuch(BagOfWords):
    def forward(self, inputs, inputs_embeds=None, **options):
        output = super().forward(inputs, inputs_embeds, **options)
        return replace(output, readout=2 * output.readout)


class ForgetsTheKernel(BagOfWords):
    def set_attention(self, implementation):
        pass


class MakesFloat32(BagOfWords):
    def forward(self, inputs, inputs_embeds=None, **options):
        output = super().forward(inputs, inputs_embeds, **options)
        return replace(output, logits=output.logits.float().double() if inputs_embeds is None else output.logits)


class ForgetsAnArgument(BagOfWords):
    def architecture(self):
        return {"vocab_size": self.table.num_embeddings, "size": 4}


class DividesByZero(BagOfWords):
    def forward(self, inputs, inputs_embeds=None, **options):
        output = super().forward(inputs, inputs_embeds, **options)
        return replace(output, logits=output.logits / inputs.attention_mask.any(dim=1, keepdim=True))


class SeesOtherTexts(BagOfWords):
    def forward(self, inputs, inputs_embeds=None, **options):
        output = super().forward(inputs, inputs_embeds, **options)
        return replace(output, logits=output.logits * len(inputs))


class ReturnsLogits(BagOfWords):
    def forward(self, inputs, inputs_embeds=None, **options):
        return super().forward(inputs, inputs_embeds, **options).logits


class EmbedsNothing(BagOfWords):
    def embed(self, inputs):
        return None


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (SeesOtherTexts, "other texts in the batch change logits by up to .*compute each row separately"),
        (ReturnsLogits, "ReturnsLogits.forward returned Tensor: return a ClassifierOutput"),
        (EmbedsNothing, r"EmbedsNothing.embed returned NoneType: return embeddings \[B, T, D\]"),
        (SeesPadding, "SeesPadding: padding changes logits by up to .*use attention_mask"),
        (IgnoresEmbeds, "inputs_embeds had too few rows, but forward raised no error: raise ValueError"),
        (ReadsTooMuch, "sums of the readout's rows differ from 1"),
        (ForgetsTheKernel, "attention_implementation is 'sdpa': store the last given name"),
        (MakesFloat32, "logits from embeddings differ from logits from ids"),
        (ForgetsAnArgument, r"a network built from architecture\(\) differs \(.*\): return constructor arguments"),
        (DividesByZero, "a text without tokens gives logits or gradients that are not finite"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_network_outside_the_package_that_breaks_a_law_is_told_which(network, message):
    model = network(VOCAB_SIZE, 3)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=message) as caught:
        laws.check_model(model)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("pad_id", [0, 1])
def test_a_network_outside_the_package_that_keeps_all_laws_passes(pad_id):
    laws.check_model(type("Outside", (BagOfWords,), {"pad_id": pad_id})(VOCAB_SIZE, 3))


def test_a_vocabulary_that_is_too_small_is_named():
    with pytest.raises(ValueError, match="BagOfWords has 5 token ids: build it with 100 or more"):
        laws.check_model(BagOfWords(5))
