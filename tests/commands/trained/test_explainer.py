"""The predicted classes of each text are explained, in the order of the texts."""

import pytest
import torch

from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.commands.trained.explainer import BATCH_SIZE, Explainer
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.models.bilstm import BiLSTMAttention
from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork
from lightning_xai.models.hf_classifier import random_bert
from lightning_xai.report.strongest import strongest_words

WORDS = VocabularyEncoder(words=15)
METHODS: dict[str, AttributionMethod] = {"InputXGradient": InputXGradient()}


class FixedProbabilities(BiLSTMAttention):
    """Predicts the first row of PROBABILITIES for the first text of a batch, the second row for the second text."""

    PROBABILITIES = torch.tensor([[0.9, 0.8, 0.7, 0.1], [0.1, 0.6, 0.2, 0.3]])

    def probabilities(self, logits):
        return self.PROBABILITIES[: len(logits)]


def explainer(*, multilabel: bool, num_classes: int = 3) -> Explainer:
    network = FixedProbabilities(20, 4, multilabel, embedding_size=3, hidden_size=3).eval()
    trained = TrainedNetwork(network, ["a", "b", "c", "d"], decision_threshold=0.5)
    return Explainer(trained, WORDS, METHODS, num_classes=num_classes)


def classes(documents) -> list[list[tuple[str, bool]]]:
    return [[(explained.name, explained.predicted) for explained in document.classes] for document in documents]


def test_all_predicted_classes_are_explained_and_at_least_as_many_as_asked_for():
    documents = explainer(multilabel=True, num_classes=2).documents(["w0", "w1"])
    first, second = classes(documents)
    assert first == [("a", True), ("b", True), ("c", True)]
    assert second == [("b", True), ("d", False)]


def test_one_class_is_explained_where_an_example_has_one():
    assert classes(explainer(multilabel=False).documents(["w0", "w1"])) == [[("a", True)], [("b", True)]]


def test_documents_come_in_the_order_of_texts_over_several_batches():
    texts = [f"w{number % 15}" for number in range(2 * BATCH_SIZE + 3)]
    trained = TrainedNetwork(random_bert(), ["bad", "good"])
    documents = list(Explainer(trained, WORDS, METHODS).documents(texts))
    assert [document.text for document in documents] == texts
    assert [document.name for document in documents] == [f"text {number}" for number in range(len(texts))]


def test_a_method_that_needs_attentions_gets_the_eager_kernel():
    network = random_bert()
    network.set_attention("sdpa")
    (document,) = Explainer(TrainedNetwork(network, ["bad", "good"]), WORDS, {"Attention": Attention()}).documents(
        ["w1 w2"]
    )
    assert network.attention_implementation == "eager" and list(document.classes[0].scores) == ["Attention"]


def test_a_network_whose_classes_have_no_names_is_refused():
    with pytest.raises(ValueError, match="has no class names"):
        Explainer(TrainedNetwork(random_bert(), None), WORDS, METHODS)


def test_an_encoder_with_more_ids_than_the_network_has_embeddings_is_refused():
    with pytest.raises(ValueError, match="encoder has 21 token ids, but the embedding table has only 20 rows"):
        Explainer(TrainedNetwork(random_bert(), ["bad", "good"]), VocabularyEncoder(words=16), METHODS)


def test_probability_without_the_strongest_words_is_that_of_the_text_that_remains():
    network = random_bert()
    explainer = Explainer(TrainedNetwork(network, ["bad", "good"]), WORDS, METHODS)
    (document,) = explainer.documents(["w1 w2 w3 w4 w5 w6 w7"])
    (explained,) = document.classes
    strongest = {word.text for word in strongest_words(document, explained.scores["InputXGradient"])}
    rest = " ".join(word for word in document.text.split() if word not in strongest)
    (remaining,) = Explainer(TrainedNetwork(network, ["bad", "good"]), WORDS, METHODS).documents([rest])
    probability = remaining.classes[0].probability
    expected = probability if remaining.classes[0].name == explained.name else 1 - probability
    assert len(strongest) == 5 and explained.probability_without["InputXGradient"] == pytest.approx(expected, abs=1e-6)
