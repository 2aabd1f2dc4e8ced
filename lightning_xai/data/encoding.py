"""Encoders that use a Hugging Face fast tokenizer, and record each token's word, character offsets and evidence."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.base import Encoded, Encoder
from lightning_xai.data.corpora.token_columns import (
    OneSpecialToken,
    clean_offsets,
    evidence_columns,
    joined,
    joined_or_none,
    lost_offsets,
    number_pairs,
)
from lightning_xai.data.corpora.token_table import TokenTable, bounds_of, pack_flags
from lightning_xai.data.tokenizers.own_tokenizer import load_tokenizer
from lightning_xai.data.tokenizers.tokenizer_fingerprint import tokenizer_fingerprint

FILLS = ("mask", "pad", "unk")
_NO_OFFSETS = np.zeros((0, 2), dtype=np.int64)
_PROBE = "The cat and 2 other animals walked, unbelievably."


def fill_id(tokenizer: PreTrainedTokenizerFast, fill: str) -> int:
    """Returns the id of the token that replaces erased tokens.

    Args:
        tokenizer: the tokenizer.
        fill: "mask", "pad" or "unk" for a special token, or any other text that is one token.

    Raises:
        ValueError: the tokenizer has no such special token, or the text is not one known token.

    Example:
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> tokenizer = word_tokenizer(["good", "film"], split="whitespace", lowercase=True)
        >>> fill_id(tokenizer, "mask"), fill_id(tokenizer, "film")
        (3, 6)
    """
    name = tokenizer.name_or_path or type(tokenizer).__name__
    if fill in FILLS:
        token_id = getattr(tokenizer, f"{fill}_token_id")
        if token_id is not None:
            return token_id
        possible = [f for f in FILLS if getattr(tokenizer, f"{f}_token_id") is not None]
        if not possible:
            raise ValueError(
                f"{name} has no mask, pad or unknown token to replace erased tokens: set `fill` to a text that is one "
                "token"
            )
        raise ValueError(
            f"{name} has no {fill} token: set fill: {' or fill: '.join(possible)}, or set `fill` to a text that is one "
            "token"
        )
    ids = tokenizer(fill, add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        tokens = tokenizer.convert_ids_to_tokens(ids)
        raise ValueError(
            f"fill {fill!r} becomes the tokens {tokens} in {name}: set `fill` to mask, pad, unk, or a text that is "
            "exactly one known token"
        )
    return ids[0]


class FastTokenizerEncoder(Encoder):
    """Encodes texts with a Hugging Face fast tokenizer. Configurations use a subclass of this class.

    Long texts are truncated on the right, before the final special token. If an example has two texts, the longer text
    is truncated first. The tokenizer's pre-tokenizer splits texts into words. If there is no pre-tokenizer, or it does
    not split, words end at white space. A text that yields no token at all becomes one token that counts as special:
    the unknown token or, if the vocabulary has none, the end-of-text or padding token.

    Args:
        tokenizer: the tokenizer.
        max_length: largest number of tokens in an example, special tokens included.
        fill: the token that replaces erased tokens in `baseline_ids`: the special token "mask", "pad" or "unk", or any
            other text that is one token.
        explain_pair: whether tokens of `text_pair` may be explained and erased.

    Raises:
        ValueError: the tokenizer is slow, lacks the fill token, or reports wrong offsets; the text `fill` is not
            exactly one known token; or `max_length` is too small.

    Example:
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> tokenizer = word_tokenizer(["good", "film"], split="whitespace", lowercase=True)
        >>> FastTokenizerEncoder(tokenizer, max_length=4).encode({"text": "Good film today"}).input_ids.tolist()
        [1, 5, 6, 2]
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, max_length: int = 512, fill: str = "mask", explain_pair: bool = True
    ) -> None:
        name = tokenizer.name_or_path or type(tokenizer).__name__
        if not tokenizer.is_fast:
            raise ValueError(
                f"{name}: {type(tokenizer).__name__} is a slow tokenizer without character offsets; "
                "save its fast version as tokenizer.json"
            )
        tokenizer.truncation_side = "right"
        self.tokenizer = tokenizer
        self._set_max_length(max_length)
        self.explain_pair = explain_pair
        self.fill_token_id = fill_id(tokenizer, fill)
        self.mask_token_id = tokenizer.mask_token_id
        self.unk_token_id = tokenizer.unk_token_id
        candidates = [tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id, 0]
        self.pad_token_id = next(c for c in candidates if c is not None)
        candidates = [tokenizer.unk_token_id, tokenizer.eos_token_id, self.pad_token_id]
        self._empty_id = next(c for c in candidates if c is not None)
        structural = ("cls", "sep", "bos", "eos", "pad")
        self._structural_ids = [i for i in (getattr(tokenizer, f"{s}_token_id") for s in structural) if i is not None]
        encoding = tokenizer([_PROBE], return_special_tokens_mask=True).encodings[0]
        self._check_offsets(encoding, name)
        self._words_by_space = len({word for word in encoding.word_ids if word is not None}) < 2

    @property
    def vocab_size(self) -> int:
        return len(self.tokenizer)

    def fingerprint(self) -> str:
        return tokenizer_fingerprint(self.tokenizer)

    def with_max_length(self, max_length: int) -> FastTokenizerEncoder:
        limited = copy.copy(self)
        limited.init_args = {**self.init_args, "max_length": max_length}
        limited._set_max_length(max_length)
        return limited

    def _set_max_length(self, max_length: int) -> None:
        num_special = self.tokenizer.num_special_tokens_to_add(pair=True)
        if max_length <= num_special:
            raise ValueError(
                f"max_length={max_length} must be above {num_special}, the number of special tokens around two texts"
            )
        self.max_length = max_length

    def id_of_fill(self, fill: str) -> int:
        """Returns the id of the token that `fill` names, as the function `fill_id` does."""
        return fill_id(self.tokenizer, fill)

    def _check_offsets(self, encoding: Any, name: str) -> None:
        """Raises ValueError if the characters at a token's offsets in the text _PROBE do not spell the token."""
        for token, (begin, end), special in zip(
            encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True
        ):
            if special or token == self.tokenizer.unk_token:
                continue
            spelled = self.tokenizer.convert_tokens_to_string([token]).removeprefix("##").strip()
            if spelled.casefold() != _PROBE[begin:end].strip().casefold():
                raise ValueError(
                    f"{name}: the offsets of token {token!r} wrongly point at {_PROBE[begin:end]!r} in {_PROBE!r}; "
                    "upgrade the library tokenizers, or rebuild tokenizer.json"
                )

    def encode_batch(self, examples: Sequence[dict[str, Any]]) -> list[Encoded]:
        table = self.encode_table(examples)
        return [table.encoded(row) for row in range(len(table))]

    def encode_table(self, examples: Sequence[dict[str, Any]]) -> TokenTable:
        encodings, paired = self._encodings(examples)
        bounds = bounds_of([len(encoding) for encoding in encodings])
        size = int(bounds[-1])
        input_ids = joined((encoding.ids for encoding in encodings), size)  # [N]
        special = joined((encoding.special_tokens_mask for encoding in encodings), size).astype(bool)
        special |= np.isin(input_ids, self._structural_ids)
        second = np.zeros(size, dtype=bool)
        for row in paired:
            second[bounds[row] : bounds[row + 1]] = joined_or_none([encodings[row].sequence_ids]) == 1
        offsets = joined((chain.from_iterable(e.offsets for e in encodings)), 2 * size).reshape(-1, 2)
        texts = [text for example in examples for text in (example["text"], example.get("text_pair") or "")]
        in_text = 2 * np.repeat(np.arange(len(examples)), np.diff(bounds)) + second
        offsets, words = clean_offsets(texts, in_text, offsets, count_words=self._words_by_space)
        words = joined_or_none(encoding.word_ids for encoding in encodings) if words is None else words
        offsets[special], words[special] = 0, -1
        second &= ~special
        has_types = "token_type_ids" in self.tokenizer.model_input_names
        types = joined((encoding.type_ids for encoding in encodings), size) if has_types else np.zeros_like(input_ids)
        truncated = np.array([bool(encoding.overflowing) for encoding in encodings], dtype=bool)
        lost = [
            lost_offsets(encoding.overflowing, example["text"])
            if encoding.overflowing and example.get("rationales")
            else _NO_OFFSETS
            for encoding, example in zip(encodings, examples, strict=True)
        ]
        return TokenTable(
            bounds=bounds,
            input_ids=input_ids,
            word_ids=number_pairs(words, bounds, second, paired).astype(np.int32),
            flags=pack_flags(special, ~special if self.explain_pair else ~special & ~second, second, types),
            offsets=offsets.astype(np.int32),
            **evidence_columns(examples, bounds, offsets, ~special & ~second, truncated, lost),
            truncated=truncated,
            fill_token_id=self.fill_token_id,
            has_types=has_types,
        )

    def _encodings(self, examples: Sequence[dict[str, Any]]) -> tuple[list[Any], list[int]]:
        """Returns the tokenizer's encoding of each example, and the indices of the examples with a second text."""
        pairs = [example.get("text_pair") for example in examples]
        paired = [i for i, pair in enumerate(pairs) if pair is not None]
        single = [i for i, pair in enumerate(pairs) if pair is None]
        encodings: list[Any] = [None] * len(examples)
        for rows, second in ((single, None), (paired, [pairs[i] for i in paired])):
            if rows:
                batch = self.tokenizer(
                    [examples[i]["text"] for i in rows], second, truncation="longest_first",
                    max_length=self.max_length, padding=False,
                )  # fmt: skip
                for i, encoding in zip(rows, batch.encodings, strict=True):
                    empty = OneSpecialToken([self._empty_id], encoding.overflowing)
                    encodings[i] = encoding if len(encoding) else empty
        return encodings, paired

    def tokens(self, encoded: Encoded) -> list[str]:
        return [str(self.tokenizer.convert_ids_to_tokens(token_id)) for token_id in encoded.input_ids.tolist()]


class TokenizerEncoder(FastTokenizerEncoder):
    """Encodes texts with the tokenizer of a pretrained model.

    Args:
        path: a folder, a Hugging Face hub id, or "package:NAME/FOLDER" for a folder in an installed package. The
            command line replaces None by the path of the network's tokenizer.
        max_length: as in FastTokenizerEncoder. The command line replaces None by the length with which the network was
            trained.
        fill, explain_pair: as in FastTokenizerEncoder.
        trust_remote_code: whether Python code in the folder at `path` may run.

    Raises:
        ValueError: `path` or `max_length` is None, for example in Python code, where no command line replaces None; or
            there is no tokenizer at `path`.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = word_tokenizer(["good", "film"], split="whitespace", lowercase=False).save_pretrained(folder)
        ...     TokenizerEncoder(folder).encode({"text": "good film"}).input_ids.tolist()
        [1, 5, 6, 2]
    """

    def __init__(
        self,
        path: str | None = None,
        max_length: int | None = 512,
        fill: str = "mask",
        explain_pair: bool = True,
        trust_remote_code: bool = False,
    ) -> None:
        if path is None:
            raise ValueError("TokenizerEncoder has no path: give the folder or hub id of the network's tokenizer")
        if max_length is None:
            raise ValueError("TokenizerEncoder has no max_length: give a number of tokens")
        super().__init__(load_tokenizer(path, trust_remote_code=trust_remote_code), max_length, fill, explain_pair)
