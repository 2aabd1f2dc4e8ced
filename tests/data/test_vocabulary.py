"""Vocabularies that are built from the training rows, and word vectors for them."""

from typing import Any

import pytest
import torch
from datasets import DatasetDict

from lightning_xai.data.encoding import Encoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.vocabulary import SPECIAL_WORDS, VocabularyEncoder, frequent_words

ROWS = [{"text": "The cat, the hat"}, {"text": "a cat", "text_pair": "the dog"}, {"text": "a bat [UNK]"}]


class Rows(TextSource):
    """The given texts as the training split; the other splits have a text with an unknown word."""

    class_names = ["no", "yes"]

    def __init__(self, *texts: str) -> None:
        self.texts = {"train": list(texts), "validation": ["a zebra"], "test": ["a zebra cat"]}

    def load(self) -> DatasetDict:
        return rows_to_splits(
            {
                split: [{"text": text, "labels": i % 2, "id": str(i)} for i, text in enumerate(texts)]
                for split, texts in self.texts.items()
            }
        )


def built(rows=ROWS, **options: Any) -> VocabularyEncoder:
    encoder = VocabularyEncoder(words=None, **options)
    encoder.fit(rows)
    return encoder


def words_of(encoder: VocabularyEncoder) -> list[str]:
    assert encoder.words is not None
    return encoder.words


def module(*texts: str, **options) -> TextDataModule:
    return TextDataModule(Rows(*texts), VocabularyEncoder(words=None), **options)


def test_words_come_in_the_order_of_how_many_texts_have_them():
    words = frequent_words([["b", "b", "c"], ["c", "a"], ["c", "b"]], min_count=1, max_words=None)
    assert words == ["c", "b", "a"]


def test_rare_words_and_those_beyond_the_limit_are_left_out():
    texts = [["b", "c", "a"], ["c", "b"], ["c"]]
    assert frequent_words(texts, min_count=2, max_words=None) == ["c", "b"]
    assert frequent_words(texts, min_count=1, max_words=1) == ["c"]


def test_words_of_texts_and_pairs_are_built_in_but_no_special_words():
    assert set(words_of(built())) == {"The", "cat,", "the", "hat", "a", "cat", "dog", "bat"}


def test_lowercase_and_punctuation_split_words_as_texts_are_split_later():
    encoder = built(lowercase=True, split="punctuation")
    assert {"the", "cat", ","} <= set(words_of(encoder)) and "The" not in words_of(encoder)
    encoded = encoder.encode({"text": "THE CAT, please"})
    assert encoder.tokens(encoded) == ["[CLS]", "the", "cat", ",", "[UNK]", "[SEP]"]
    assert encoded.offsets[1:5].tolist() == [[0, 3], [4, 7], [7, 8], [9, 15]]


def test_special_words_have_the_first_rows():
    encoder = built()
    assert encoder.tokenizer.convert_tokens_to_ids([*SPECIAL_WORDS, words_of(encoder)[0]]) == [0, 1, 2, 3, 4, 5]
    assert encoder.vocab_size == 5 + len(words_of(encoder))


def test_encoding_before_the_vocabulary_is_built_is_refused():
    with pytest.raises(ValueError, match="not built yet"):
        VocabularyEncoder(words=None).encode({"text": "a"})


def test_rows_without_a_word_often_enough_are_refused():
    with pytest.raises(ValueError, match="lower min_count"):
        built(min_count=9)


@pytest.mark.parametrize(("option", "value"), [("min_count", 0), ("max_words", 0), ("split", "letters")])
def test_a_wrong_option_is_named(option, value):
    with pytest.raises(ValueError, match=f"{option} is {value!r}"):
        VocabularyEncoder(**{option: value})


def test_the_data_module_builds_from_the_training_split_alone():
    data = module("a cat", "a hat")
    assert data.vocab_size == 5 + 3
    assert data.encoder.tokens(data.split("test").encoded[0]) == ["[CLS]", "a", "[UNK]", "cat", "[SEP]"]


def test_the_vocabulary_is_that_of_the_rows_in_use():
    data = module("a", "b", "c", "d", max_examples={"train": 2})
    assert data.vocab_size == 5 + 2


def test_a_given_vocabulary_needs_no_rows():
    data = TextDataModule(Rows(), VocabularyEncoder(words=["a"]))
    assert data.vocab_size == 6 and data.encoded_source._loaded is None


def test_what_was_built_is_the_state_and_replaces_another_vocabulary():
    first, other = module("a cat", "a hat"), module("only zebra cat")
    assert first.vocab_size == 8
    assert other.encoder.tokens(other.split("test").encoded[0])[1:4] == ["[UNK]", "zebra", "cat"]
    other.load_state_dict(first.state_dict())
    assert other.encoder.tokens(other.split("test").encoded[0])[1:4] == ["a", "[UNK]", "cat"]


def test_a_given_vocabulary_is_no_state():
    assert TextDataModule(Rows("a"), VocabularyEncoder(words=["a"])).state_dict() == {}


def test_a_checkpoint_with_other_words_than_those_given_is_refused():
    with pytest.raises(ValueError, match="set the encoder's words to null"):
        VocabularyEncoder(words=["a"]).load_state_dict({"words": ["b"]})


def test_an_encoder_with_ids_of_its_own_refuses_a_vocabulary():
    with pytest.raises(ValueError, match="VocabularyEncoder"):
        Encoder.load_state_dict(VocabularyEncoder(words=95), {"words": ["b"]})


def test_vectors_stand_in_the_rows_of_their_words(tmp_path):
    (tmp_path / "vectors.txt").write_text("cat 1 2\nzebra 3 4\n")
    data = TextDataModule(Rows("a cat"), VocabularyEncoder(words=None, vectors=str(tmp_path / "vectors.txt")))
    vectors = data.word_vectors
    assert isinstance(data.encoder, VocabularyEncoder)
    assert vectors is not None and vectors.shape == (7, 2)
    known = ~vectors.isnan().any(dim=1)
    assert known.nonzero().flatten().tolist() == data.encoder.tokenizer.convert_tokens_to_ids(["cat"])
    assert torch.equal(vectors[known], torch.tensor([[1.0, 2.0]]))
    assert data.summary()["vector_coverage"] == 0.5


def test_without_training_texts_the_vocabulary_of_a_trained_network_is_taken():
    source = Rows()
    del source.texts["train"]
    data = TextDataModule(source, VocabularyEncoder())
    assert data.vocab_size is None and data.word_vectors is None
    with pytest.raises(ValueError, match="learns from the split 'train', but Rows only has the splits"):
        data.split("test")
    trained = TextDataModule(Rows("a zebra", "a cat"), VocabularyEncoder())
    data.take_encoder(trained.encoder_facts() | {"learned": trained.state_dict()["encoder"]}, "runs/x/seed0")
    assert data.vocab_size == trained.vocab_size
    assert data.split("test").unknown_fraction() == 0
