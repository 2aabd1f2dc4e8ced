"""Encoders on tokenizers of every kind, built in memory."""

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.encoding import FastTokenizerEncoder, TokenizerEncoder
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.functional.text.spans import marked_tokens, strip_offsets

TEXTS = [
    "The cat and 2 other animals walked, unbelievably.",
    "na\u00efve caf\u00e9 \U0001f600 cats walked \u4f60\u597d",
    "  two  spaces and a\ttab, unbelievable other animals.",
]
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]


def wrapped(tokenizer: Tokenizer, **options) -> PreTrainedTokenizerFast:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", **(names | options))


def word_piece() -> Tokenizer:
    words = ["the", "cat", "##s", "and", "2", "other", "animals", "walk", "##ed", ",", "un", "##believ", "##ably", "."]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(SPECIAL + words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TEXTS[0]] * 3, trainer)
    return tokenizer


def unigram(*, split: bool = True) -> Tokenizer:
    pieces = ["\u2581", "\u2581the", "\u2581cat", "\u2581a", "nd", "s", "\u2581walk", "ed", ",", ".", "\u2581The"]
    letters = list("abcdefghijklmnopqrstuvwxyzT2")
    vocabulary = [(w, 0.0) for w in SPECIAL] + [(w, -2.0) for w in pieces] + [(c, -5.0) for c in letters if c != "s"]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=4))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=split)
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


KINDS = {"word_piece": word_piece, "byte_level": byte_level, "unigram": unigram}


@pytest.fixture(params=KINDS)
def encoder(request) -> FastTokenizerEncoder:
    return FastTokenizerEncoder(wrapped(KINDS[request.param]()), max_length=200)


@pytest.mark.parametrize("text", TEXTS)
def test_every_word_maps_to_its_own_tokens_and_back(encoder, text):
    encoded = encoder.encode({"text": text})
    for begin, end in [(text.index(word), text.index(word) + len(word)) for word in text.split() if len(word) > 1]:
        mask = marked_tokens([[begin, end]], strip_offsets(encoded.offsets, text), encoded.sequence_ids == 0)
        assert mask.any()
        covered = encoded.offsets[mask & (encoded.offsets[:, 1] > encoded.offsets[:, 0])]
        assert (covered[:, 0].min(), covered[:, 1].max()) == (begin, end)


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_show_no_white_space_at_the_ends(encoder, text):
    encoded = encoder.encode({"text": text})
    pieces = [text[begin:end] for begin, end in encoded.offsets]
    assert pieces == [piece.strip() for piece in pieces]


def test_encoding_many_texts_equals_encoding_each(encoder):
    examples = [{"text": text, "text_pair": pair} for text, pair in zip(TEXTS, ["a cat", None, ""], strict=True)]
    for one, many in zip(map(encoder.encode, examples), encoder.encode_batch(examples), strict=True):
        for name in ("input_ids", "word_ids", "offsets", "token_mask", "baseline_ids"):
            np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


def test_both_halves_of_an_emoji_are_evidence():
    text = "a \U0001f600 b"
    encoder = FastTokenizerEncoder(wrapped(byte_level()))
    encoded = encoder.encode({"text": text, "rationales": [{"label": 1, "spans": [[2, 3]]}]})
    shares = (encoded.offsets == [2, 3]).all(axis=1)
    assert shares.sum() > 1
    assert (encoded.rationales[1][shares]).all()
    assert encoded.rationales[1][encoded.offsets[:, 0] != 2].sum() == 0


def test_punctuation_is_a_word_of_its_own_in_word_piece():
    encoder = FastTokenizerEncoder(wrapped(word_piece()))
    assert encoder.encode({"text": "cats walked, unbelievably."}).word_ids.tolist() == [
        -1, 0, 0, 1, 1, 2, 3, 3, 3, 4, -1,
    ]  # fmt: skip


def test_tokenizer_without_words_counts_those_between_white_space():
    encoder = FastTokenizerEncoder(wrapped(unigram(split=False)))
    encoded = encoder.encode({"text": "cats and cats"})
    for token, word in zip(encoder.tokens(encoded), encoded.word_ids, strict=True):
        assert (word == -1) == (token in SPECIAL)
    assert sorted(set(encoded.word_ids.tolist())) == [-1, 0, 1, 2]
    assert (np.diff(encoded.word_ids[1:-1]) >= 0).all()


def test_words_of_the_pair_are_numbered_after_those_of_the_text():
    encoded = VocabularyEncoder(words=95).encode({"text": "w1 w2", "text_pair": "w3"})
    assert encoded.word_ids.tolist() == [-1, 0, 1, -1, 2, -1]


def test_pair_has_its_own_type_and_may_be_kept_from_explanation():
    encoded = VocabularyEncoder(words=95, explain_pair=False).encode({"text": "w1", "text_pair": "w3"})
    assert encoded.token_type_ids is not None and encoded.token_type_ids.tolist() == [0, 0, 0, 1, 1]
    assert encoded.token_mask.tolist() == [False, True, False, False, False]


def test_evidence_in_the_text_does_not_mark_the_pair():
    example = {"text": "w1", "text_pair": "w1", "rationales": [{"label": 0, "spans": [[0, 2]]}]}
    assert VocabularyEncoder(words=95).encode(example).rationales[0].tolist() == [False, True, False, False, False]


def test_truncation_drops_the_tail_and_keeps_the_last_special_token():
    encoded = VocabularyEncoder(words=95, max_length=4).encode({"text": "w1 w2 w3 w4"})
    assert encoded.input_ids.tolist() == [1, 6, 7, 2]
    assert encoded.truncated


def test_evidence_lost_to_truncation_is_reported_and_its_class_left_out():
    rationales = [{"label": 0, "spans": [[3, 5]]}, {"label": 1, "spans": [[6, 8], [9, 11]]}]
    encoded = VocabularyEncoder(words=95, max_length=4).encode({"text": "w1 w2 w3 w4", "rationales": rationales})
    assert encoded.evidence_kept == pytest.approx(1 / 3)
    assert list(encoded.rationales) == [0]
    assert encoded.evidence_cut == {1: 2}


@pytest.mark.parametrize(
    ("spans", "max_length", "cut"),
    [([[9, 11]], 6, {}), ([[0, 2], [9, 11]], 4, {}), ([[6, 8], [9, 11]], 4, {1: 2}), ([], 4, {}), ([[2, 3]], 6, {})],
    ids=["not truncated", "partly", "wholly", "no spans", "space only"],
)
def test_evidence_is_cut_only_where_truncation_leaves_none_of_it(spans, max_length, cut):
    example = {"text": "w1 w2 w3 w4", "rationales": [{"label": 1, "spans": spans}]}
    assert VocabularyEncoder(words=95, max_length=max_length).encode(example).evidence_cut == cut


def test_tokens_of_cut_evidence_are_counted_once_for_a_pair_of_texts():
    rationales = [{"label": 1, "spans": [[6, 8], [12, 14]]}]
    example = {"text": "w1 w2 w3 w4 w5 w6", "text_pair": "w1 w2 w3 w4 w5 w6", "rationales": rationales}
    assert VocabularyEncoder(words=95, max_length=7).encode(example).evidence_cut == {1: 2}


@pytest.mark.parametrize("text, ids", [("", [1, 2]), ("w0", [1, 5, 2])])
def test_texts_of_no_and_one_token(text, ids):
    assert VocabularyEncoder(words=95).encode({"text": text}).input_ids.tolist() == ids


def test_text_without_any_token_becomes_one_special_token():
    tokenizer = word_piece()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    encoded = FastTokenizerEncoder(fast, fill="pad").encode({"text": ""})
    assert (encoded.input_ids.tolist(), encoded.special_tokens_mask.tolist(), encoded.token_mask.tolist()) == (
        [4], [True], [False],
    )  # fmt: skip


def test_document_of_six_thousand_tokens_is_encoded_whole():
    assert len(VocabularyEncoder(words=95, max_length=6002).encode({"text": "w1 " * 6000})) == 6002


@pytest.mark.parametrize("fill, fill_id", [("mask", 3), ("pad", 0), ("unk", 4)])
def test_baseline_replaces_explained_tokens_by_the_fill_token(fill, fill_id):
    encoded = VocabularyEncoder(words=95, fill=fill).encode({"text": "w1 w2"})
    assert encoded.baseline_ids.tolist() == [1, fill_id, fill_id, 2]


def test_typed_separator_counts_as_special():
    encoded = FastTokenizerEncoder(wrapped(word_piece())).encode({"text": "cat [SEP] cat"})
    assert encoded.special_tokens_mask.tolist() == [True, False, True, False, True]


def test_missing_fill_token_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="no mask token: set fill: pad or fill: unk"):
        FastTokenizerEncoder(wrapped(word_piece(), mask_token=None))


def test_wrong_offsets_are_refused():
    tokenizer = word_piece()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("the "), normalizers.BertNormalizer()])
    with pytest.raises(ValueError, match="offsets of token"):
        FastTokenizerEncoder(wrapped(tokenizer))


def test_room_for_special_tokens_only_is_refused():
    with pytest.raises(ValueError, match="max_length=3"):
        VocabularyEncoder(words=95, max_length=3)


def test_repeated_words_of_a_vocabulary_are_refused():
    with pytest.raises(ValueError, match="duplicates"):
        VocabularyEncoder(["a", "b", "a"])


def test_tokenizer_saved_in_a_folder_is_loaded(tmp_path):
    fast = wrapped(word_piece())
    fast.save_pretrained(tmp_path)
    loaded = TokenizerEncoder(str(tmp_path), max_length=8)
    assert loaded.encode({"text": "the cat"}).input_ids.tolist() == [1, 5, 6, 2]


def test_added_tokens_keep_their_words():
    fast = wrapped(word_piece())
    fast.add_tokens([AddedToken("diagnosis", normalized=False)])
    encoded = FastTokenizerEncoder(fast).encode({"text": "the diagnosis and"})
    assert encoded.word_ids.tolist() == [-1, 0, 1, 2, -1]
