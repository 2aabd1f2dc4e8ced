"""A fingerprint changes with what a tokenizer does, and with nothing else."""

import copy
import time
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from lightning_xai.data.encoding import FastTokenizerEncoder, TokenizerEncoder
from lightning_xai.data.tokenizers.own_tokenizer import own_tokenizer_facts
from lightning_xai.data.tokenizers.tokenizer_fingerprint import encoder_fingerprint, tokenizer_fingerprint
from lightning_xai.data.vocabulary import VocabularyEncoder, word_tokenizer
from tests.data.test_encoding import KINDS, SPECIAL, word_piece, wrapped

LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789", "\u00e9", "\u4f60", "\U0001f600"]


def letters(normalizer=None, *, unk: bool = True) -> Tokenizer:
    """Returns a tokenizer with one token for every known letter."""
    words = {word: number for number, word in enumerate([*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)])}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.normalizer = normalizer or normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    return tokenizer


BASE = tokenizer_fingerprint(wrapped(letters()))
OTHERS = {
    "case": lambda: wrapped(letters(normalizers.BertNormalizer(lowercase=False, strip_accents=False))),
    "accents": lambda: wrapped(letters(normalizers.BertNormalizer(lowercase=True, strip_accents=True))),
    "CJK": lambda: wrapped(letters(normalizers.BertNormalizer(strip_accents=False, handle_chinese_chars=False))),
    "digits": lambda: wrapped(
        letters(normalizers.Sequence([normalizers.BertNormalizer(strip_accents=False), normalizers.Replace("3", "4")]))
    ),
    "emoji": lambda: wrapped(
        letters(
            normalizers.Sequence(
                [normalizers.BertNormalizer(strip_accents=False), normalizers.Replace("\U0001f600", "a")]
            )
        )
    ),
    "special token": lambda: wrapped(letters(), mask_token="[UNK]"),
}


@pytest.mark.parametrize("difference", OTHERS)
def test_a_tokenizer_that_differs_in_one_thing_has_another_fingerprint(difference):
    assert tokenizer_fingerprint(OTHERS[difference]()) != BASE


@pytest.mark.parametrize("words", [["a", "b"], ["b", "a", "c"], ["a", "b", "d"]], ids=["fewer", "order", "other"])
def test_another_vocabulary_has_another_fingerprint(words):
    assert VocabularyEncoder(words=words).fingerprint() != VocabularyEncoder(words=["a", "b", "c"]).fingerprint()


def test_words_outside_the_fixed_texts_tell_whether_case_matters():
    words = [f"zyx{number}" for number in range(41)]
    cased, uncased = (VocabularyEncoder(words=words, lowercase=lower).fingerprint() for lower in (False, True))
    assert cased != uncased


def test_an_added_token_changes_the_fingerprint_of_a_tokenizer_in_use():
    tokenizer = wrapped(word_piece())
    before = tokenizer_fingerprint(tokenizer)
    tokenizer.add_tokens(["[NOTE]"])
    assert tokenizer_fingerprint(tokenizer) != before


@pytest.mark.parametrize("kind", KINDS)
def test_padding_truncation_and_saving_change_nothing(kind, tmp_path):
    tokenizer = wrapped(KINDS[kind]())
    fingerprint = tokenizer_fingerprint(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    loaded: Any = AutoTokenizer.from_pretrained(tmp_path)
    loaded.backend_tokenizer.enable_truncation(4, stride=1, strategy="only_first", direction="left")
    loaded.backend_tokenizer.enable_padding(length=64, pad_id=1, pad_token="[CLS]", direction="left")
    before = loaded.backend_tokenizer.truncation, loaded.backend_tokenizer.padding
    assert tokenizer_fingerprint(loaded) == fingerprint
    assert (loaded.backend_tokenizer.truncation, loaded.backend_tokenizer.padding) == before
    facts = own_tokenizer_facts(str(tmp_path))
    assert facts is not None and facts["fingerprint"] == fingerprint


@pytest.mark.parametrize("options", [{"max_length": 5}, {"fill": "pad"}, {"explain_pair": False}])
def test_options_of_an_encoder_are_no_part_of_its_fingerprint(options):
    assert VocabularyEncoder(words=9, **options).fingerprint() == VocabularyEncoder(words=9).fingerprint()


def test_encoders_of_two_classes_with_one_tokenizer_have_one_fingerprint(tmp_path):
    encoder = VocabularyEncoder(words=["a", "b"])
    encoder.tokenizer.save_pretrained(tmp_path)
    assert TokenizerEncoder(str(tmp_path)).fingerprint() == encoder.fingerprint()


def test_a_built_vocabulary_has_the_fingerprint_of_the_same_words_given():
    built = VocabularyEncoder(words=None)
    built.fit([{"text": "b a"}, {"text": "a"}])
    assert built.fingerprint() == VocabularyEncoder(words=["a", "b"]).fingerprint()


def test_an_encoder_of_any_class_has_a_fingerprint():
    same, other = (
        (FastTokenizerEncoder(wrapped(letters())) for _ in range(2)),
        FastTokenizerEncoder(wrapped(word_piece())),
    )
    first, second = map(encoder_fingerprint, same)
    assert first == second != encoder_fingerprint(other)


def test_facts_build_the_encoder_again_and_survive_a_copy():
    encoder = VocabularyEncoder(words=["a", "b"], fill="pad", max_length=9)
    facts = encoder.facts()
    assert VocabularyEncoder(**facts["init_args"]).facts() == facts == copy.deepcopy(encoder).facts()


def test_large_vocabulary_costs_little_and_once():
    began = time.process_time()
    tokenizer = word_tokenizer([f"word{n}" for n in range(30_000)], split="whitespace", lowercase=False)
    built = time.process_time()
    tokenizer_fingerprint(tokenizer)
    first = time.process_time()
    tokenizer_fingerprint(tokenizer)
    again = time.process_time()
    # compared with the time in which this machine builds the tokenizer, which is usually about the same
    assert first - built < 10 * (built - began) and again - first < (first - built) / 2
