"""Fingerprints of tokenizers and encoders. If two fingerprints are equal, token ids have the same meaning."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

if TYPE_CHECKING:
    from lightning_xai.data.base import Encoder

# texts that different tokenizers are likely to split differently, and that are too short for most encoders to truncate.
# If these texts change, all stored fingerprints become invalid
PROBES = (
    "The cat and 2 other animals walked, unbelievably.",
    "THE Cat bought an iPhone; I'M sure McDonald's DON'T.",
    "na\u00efve caf\u00e9, cafe\u0301 \u00c5ngstr\u00f6m stra\u00dfe \u0130stanbul",
    "3.14 1,000,000 2024-01-31 50% \u00bd \u0663",
    "\u4f60\u597d\u4e16\u754c \u65e5\u672c\u8a9e\u30c6\u30ad \ud55c\uad6d\uc5b4",
    "\U0001f600 \U0001f469\u200d\U0001f4bb \u2764\ufe0f",
    "  two  spaces\tand a tab\nline\u00a0end ",
    "\u0645\u0631\u062d\u0628\u0627 \u041f\u0440\u0438\u0432\u0435\u0442 \u03ac\u03bb\u03c6\u03b1",
    "http://a.b/c?d=e user@mail.com (x)[y] C++ ...",
)
PAIR = ("A dog runs.", "It sleeps.")
NUM_WORDS = 50  # at most this many vocabulary entries are tokenized: unchanged, in upper case and in lower case
ROLES = ("pad", "cls", "sep", "mask", "unk", "bos", "eos")

# tokenizer -> (size of its vocabulary, fingerprint); if the size has changed since, the fingerprint is out of date
_known: WeakKeyDictionary[PreTrainedTokenizerFast, tuple[int, str]] = WeakKeyDictionary()
# tokenizer -> (size of its vocabulary, serialization hash)
_serialized: WeakKeyDictionary[PreTrainedTokenizerFast, tuple[int, str]] = WeakKeyDictionary()


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerFast) -> str:
    """Returns 12 hex digits: a hash of the vocabulary with its ids, the special tokens, and the tokens of fixed texts.

    The fixed texts are PROBES (single texts), PAIR (a text pair), the special tokens, and every n-th entry of the
    vocabulary (unchanged, in upper case and in lower case). For each token of these texts, the hash covers the id, the
    character offsets and the word index. The hash does not depend on padding, truncation, names or file formats.

    Example:
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> upper, lower = (word_tokenizer(["film"], split="whitespace", lowercase=lower) for lower in (False, True))
        >>> tokenizer_fingerprint(upper) == tokenizer_fingerprint(lower)
        False
        >>> upper.backend_tokenizer.enable_truncation(3)
        >>> again = word_tokenizer(["film"], split="whitespace", lowercase=False)
        >>> tokenizer_fingerprint(upper) == tokenizer_fingerprint(again)
        True
    """
    size = len(tokenizer)
    known = _known.get(tokenizer)
    if known is None or known[0] != size:
        known = _known[tokenizer] = size, _computed(tokenizer)
    return known[1]


def encoder_fingerprint(encoder: Encoder) -> str:
    """Returns 12 hex digits: a hash of the vocabulary's size, the special ids, and the tokens of fixed texts.

    This hash is meant for encoders without a Hugging Face tokenizer. Of each token, it covers the id, the spelling, the
    character offsets, the word index, and whether the token is special.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> small, large = VocabularyEncoder(words=3), VocabularyEncoder(words=4)
        >>> encoder_fingerprint(small) == encoder_fingerprint(large)
        False
    """
    special = [encoder.pad_token_id, encoder.mask_token_id, encoder.unk_token_id]
    digest = hashlib.sha256(json.dumps([encoder.vocab_size, special]).encode())
    for encoded in encoder.encode_batch([{"text": text} for text in PROBES]):
        for values in (encoded.input_ids, encoded.special_tokens_mask, encoded.offsets, encoded.word_ids):
            digest.update(np.asarray(values, dtype="<i8").tobytes() + b"\0")
        digest.update(json.dumps(encoder.tokens(encoded)).encode())
    return digest.hexdigest()[:12]


def serialization_hash(tokenizer: PreTrainedTokenizerFast) -> str:
    """Returns 20 hex digits: a hash of the tokenizer's vocabulary and of its settings except truncation and padding.

    Unlike the fingerprint, the hash may differ between versions of the library `tokenizers`.

    Example:
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> one, other = (word_tokenizer([word], split="whitespace", lowercase=False) for word in ("good", "film"))
        >>> serialization_hash(one) == serialization_hash(other)
        False
    """
    size = len(tokenizer)
    known = _serialized.get(tokenizer)
    if known is None or known[0] != size:
        with _whole_texts(tokenizer.backend_tokenizer):
            settings = tokenizer.backend_tokenizer.to_str()
        known = size, hashlib.sha256(settings.encode("utf-8", "surrogatepass")).hexdigest()[:20]
        _serialized[tokenizer] = known
    return known[1]


def _computed(tokenizer: PreTrainedTokenizerFast) -> str:
    backend = tokenizer.backend_tokenizer
    vocabulary = sorted(backend.get_vocab(with_added_tokens=True).items(), key=lambda entry: (entry[1], entry[0]))
    digest = hashlib.sha256(np.array([number for _, number in vocabulary], dtype="<i8").tobytes())
    digest.update("\0".join(token for token, _ in vocabulary).encode("utf-8", "surrogatepass"))
    special = {role: getattr(tokenizer, f"{role}_token_id", None) for role in ROLES}
    digest.update(json.dumps(special).encode())
    named = [str(getattr(tokenizer, f"{role}_token")) for role, number in special.items() if number is not None]
    # entries of the vocabulary are tokenized too, since a small vocabulary may lack all words of PROBES
    words = [token for token, _ in vocabulary[:: len(vocabulary) // NUM_WORDS + 1]]
    texts = [*PROBES, *(" ".join(tokens) for tokens in (named, words, map(str.upper, words), map(str.lower, words)))]
    with _whole_texts(backend):
        for text, second in [*((text, None) for text in texts), PAIR]:
            encoding = backend.encode(text, second)  # `encode_batch` would start threads, after which forks are unsafe
            digest.update(json.dumps([encoding.ids, encoding.offsets, encoding.word_ids]).encode())
    return digest.hexdigest()[:12]


@contextmanager
def _whole_texts(backend: Tokenizer) -> Iterator[None]:
    """Turns off padding and truncation within the context."""
    truncation: dict[str, Any] | None = backend.truncation
    padding: dict[str, Any] | None = backend.padding
    backend.no_truncation()
    backend.no_padding()
    try:
        yield
    finally:
        if truncation is not None:
            backend.enable_truncation(**truncation)
        if padding is not None:
            backend.enable_padding(**padding)
