"""A language model as explainer: how its answers become ranks, and what is counted and refused."""

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM

from lightning_xai.attributions.llm_ranking import LLMRanking, mentioned_words, rank_scores, rank_words
from lightning_xai.data.tokenizers.own_tokenizer import load_tokenizer
from lightning_xai.models.text_generator import TextGenerator, words_of_tokens
from lightning_xai.types import TextInputs
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.data.prompts import byte_level_folder, llama_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return llama_folder(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def film_folder(folder, tmp_path_factory):
    """A Llama that always writes " film": all its states are one vector, which is the row of this token in its head."""
    place = byte_level_folder(tmp_path_factory.mktemp("film"))
    language_model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        language_model.model.embed_tokens.weight.fill_(1.0)
        language_model.lm_head.weight.zero_()
        language_model.lm_head.weight[load_tokenizer(folder)(" film")["input_ids"]] = 1.0
        for layer in language_model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    language_model.save_pretrained(place)
    return place


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("1. great\n2. film", ["great", "film"]),
        ("1) **Great**\n2) 'film'.", ["great", "film"]),
        ("- dull, slow; sad", ["dull", "slow", "sad"]),
        ("The words: don't", ["the", "words", "don't"]),
        ("", []),
        ("1.\n2.\n...", []),
    ],
)
def test_words_of_an_answer(answer, words):
    assert mentioned_words(answer) == words


def test_the_kth_mention_takes_the_kth_occurrence():
    ranked = rank_words(["good", "but", "Good"], ["good", "good", "good", "but"])
    assert ranked.ranks == [0, 2, 1] and (ranked.num_ranked, ranked.num_dropped) == (3, 1)


def test_words_that_are_not_mentioned_tie_last():
    assert rank_scores([1, None, 0, None]) == [0.5, 0.0, 1.0, 0.0]
    assert rank_scores([None, None]) == [0.0, 0.0]


def test_tokens_know_the_word_in_which_they_end(folder):
    tokenizer = load_tokenizer(folder)
    ids = tokenizer("na\u00efve  \U0001f600 film!", add_special_tokens=False)["input_ids"]
    words, numbers = words_of_tokens(tokenizer, ids)
    assert words == ["na\u00efve", "\U0001f600", "film!"] and numbers == sorted(numbers) and set(numbers) == {0, 1, 2}


@pytest.mark.slow
def test_scores_follow_the_answer_and_counts_say_how(film_folder):
    assert TextGenerator(film_folder, 3).answer("Which film?") == " film film film"
    network = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"vocab_size": 400})
    tokenizer = load_tokenizer(film_folder)
    method = LLMRanking(film_folder, ["bad", "so", "good"], max_new_tokens=3)
    texts = ("Film, a fine film", "a fine", "")
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    inputs = TextInputs.of_ids([[1, *row, 2] for row in rows], special_ids=[1, 2])
    scores = method.attribute(network, inputs, torch.tensor([[2, 2], [0, 1], [1, 1]])).scores
    words, numbers = words_of_tokens(tokenizer, rows[0])
    expected = [1.0, 0.0, 0.0, 0.5]
    assert words == ["Film,", "a", "fine", "film"]
    assert scores[0, 0, 1 : 1 + len(numbers)].tolist() == [expected[n] for n in numbers]
    assert torch.equal(scores[0, 0], scores[0, 1]) and not scores[1:].any()
    # one answer for the one class of the first text, two for the two of the second, none for the empty text
    assert method.answers == {"answers": 3, "ranked": 2, "dropped": 1 + 3 + 3, "useless": 2}
    assert "answers" not in method.settings()
    assert copy.deepcopy(method) is method


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"task": "Rank {text}"}, "has 0 places for {label}"), ({"max_new_tokens": 0}, "max_new_tokens is 0")],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LLMRanking("models/instruct", ["bad", "good"], **arguments)


def test_a_missing_model_and_missing_names_are_refused(folder):
    inputs, targets = TextInputs.of_ids([[5, 6]]), torch.tensor([[0]])
    with pytest.raises(ValueError, match="2 class_names, but the network has 3 classes"):
        LLMRanking(folder, ["bad", "good"]).attribute(tiny_classifier("bert"), inputs, targets)
    with pytest.raises(ValueError, match="there is no no/such/model"):
        LLMRanking("no/such/model", ["a", "b", "c"]).attribute(tiny_classifier("bert"), inputs, targets)
