"""Encodes texts with a scorer's own tokenizer, and aligns the resulting tokens with those of the explained network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_xai.functional.text.alignment import Pool, overlaps, shared_end, without_overlap
from lightning_xai.functional.text.scorer_inputs import ScorerInputs, pad_source_tokens
from lightning_xai.models.text_generator import tokenizer_of
from lightning_xai.types import TextInputs


class RowText(NamedTuple):
    """A text and its explainable tokens, from the tokenizer of the explained network.

    Example:
        >>> RowText("a film", torch.tensor([5, 6]), torch.tensor([[0, 1], [2, 6]])).text
        'a film'
    """

    text: str
    ids: Tensor  # [N] token ids
    offsets: Tensor  # [N, 2] start and exclusive end in the text, excluding white space at either end of a token


TextRows = Callable[[str | None, int], RowText]  # (split, row) -> text; the split is None for texts given by the user


def row_text(example: Mapping[str, Any], encoded: Any) -> RowText:
    """Returns the text of an example with its explainable tokens.

    Args:
        example: an example with the entry "text" and, if it is a pair of texts, "text_pair".
        encoded: the encoded example, with the arrays input_ids [T], token_mask [T] and offsets [T, 2].

    Raises:
        ValueError: the example is a pair of texts.
    """
    if example.get("text_pair") is not None:
        raise ValueError("a scorer with its own tokenizer reads single texts, but this is a pair: set `align: none`")
    mask = encoded.token_mask
    ids, offsets = (torch.from_numpy(part[mask]).long() for part in (encoded.input_ids, encoded.offsets))
    return RowText(example["text"], ids, offsets)


def text_rows(data: Any) -> TextRows | None:
    """Returns a function that looks up texts by split and row; None if the data module has no method for this.

    The tokens are those of the whole texts, before the data module erases any, so that inputs with erased tokens are
    noticed.
    """
    if not hasattr(data, "unerased_split"):
        return None

    def look_up(split: str | None, index: int) -> RowText:
        rows = data.unerased_split(str(split))
        position = rows.position(index)
        return row_text(rows.examples[position], rows.encoded[position])

    return look_up


class ScorerTokenizer:
    """Encodes texts with the tokenizer of a scorer.

    If the scorer's tokenizer truncates a text, the explained network's tokens after the cut get no score. Any other
    token that shares no character with a token of the scorer gets the score of the scorer's nearest token.

    Args:
        path: folder, hub id or "package:NAME/FOLDER" of the tokenizer.
        max_length: largest number of tokens of a text; None if there is no limit.
        pool: "max" or "mean". Each token of the explained network gets the maximum or mean score of the tokens of the
            scorer with which it shares characters.

    Raises:
        ValueError: there is no tokenizer, or it gives no character offsets.
    """

    def __init__(self, path: str, max_length: int | None, pool: Pool) -> None:
        self.tokenizer = tokenizer_of(path)
        if not self.tokenizer.is_fast:
            raise ValueError(f"{path} has a tokenizer without character offsets: use a tokenizer with tokenizer.json")
        self.max_length, self.pool = max_length, pool

    def scorer_inputs(self, inputs: TextInputs, rows: Sequence[RowText]) -> ScorerInputs:
        """Returns the scorer's inputs for B texts (or windows of texts) given as inputs of the explained network.

        Args:
            inputs: [B, T], the inputs of the explained network.
            rows: for each input, its text, or the whole text if the input is a window.

        Raises:
            ValueError: the tokens of an input are not those of its text, for example because some are erased.
        """
        ids, masks, special, source_tokens, columns, alone = [], [], [], [], [], []
        for row, source in enumerate(rows):
            positions = inputs.token_mask[row].nonzero().flatten().cpu()
            offsets = _window(source, inputs.input_ids[row, inputs.token_mask[row]].cpu(), row, inputs)
            begin, end = _characters(offsets, source.text)
            encoded, is_cut = self._encode(source.text[begin:end])
            theirs = torch.tensor(encoded["offset_mapping"]).view(-1, 2) + begin
            in_text = ~torch.tensor(encoded["special_tokens_mask"], dtype=torch.bool)
            theirs = _bare(theirs, source.text)
            scored = offsets[:, 0] < (shared_end(offsets, theirs[in_text]) if is_cut else len(source.text) + 1)
            alone.append(without_overlap(offsets, theirs, scored, in_text))
            source_tokens.append(overlaps(offsets, theirs, scored, in_text))
            columns.append(positions)
            ids.append(encoded["input_ids"])
            special.append(~in_text)
            masks.append(scored)
        token_mask = torch.zeros(inputs.token_mask.shape, dtype=torch.bool)
        nearest = torch.zeros_like(token_mask)
        for row, (positions, scored) in enumerate(zip(columns, masks, strict=True)):
            token_mask[row, positions[scored]] = True
            nearest[row, positions[alone[row]]] = True
        own_inputs = self._inputs(ids, special, inputs.index)
        aligned = pad_source_tokens(source_tokens, columns, inputs.input_ids.shape[1])
        return ScorerInputs(own_inputs, token_mask, aligned, self.pool, nearest).to(inputs.device)

    def _encode(self, text: str) -> tuple[Any, bool]:
        """Returns the tokens of a text, and whether it was truncated."""
        limit = {} if self.max_length is None else {"truncation": True, "max_length": self.max_length}
        encoded = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, **limit)
        is_cut = bool(encoded.encodings[0].overflowing)
        if not encoded["input_ids"]:  # the text has no tokens, and the tokenizer adds no special tokens
            encoded = {
                "input_ids": [self.tokenizer.eos_token_id or 0],
                "offset_mapping": [(0, 0)],
                "special_tokens_mask": [1],
            }
        return encoded, is_cut

    def _inputs(self, ids: Sequence[list[int]], special: Sequence[Tensor], index: Tensor | None) -> TextInputs:
        pad = self.tokenizer.pad_token_id or 0
        plain = TextInputs.of_ids(ids, pad_id=pad)
        mask = torch.ones_like(plain.attention_mask)
        for row, part in enumerate(special):
            mask[row, : len(part)] = part
        types = torch.zeros_like(plain.input_ids)
        return TextInputs(
            plain.input_ids, plain.attention_mask, ~mask, mask, plain.input_ids, token_type_ids=types,
            index=None if index is None else index.cpu(),
        )  # fmt: skip


def scorer_inputs_of(
    tokenizer: ScorerTokenizer | None, inputs: TextInputs, split: str | None, texts: TextRows | None
) -> ScorerInputs:
    """Returns a scorer's inputs for B texts given as inputs of the explained network.

    Args:
        tokenizer: the scorer's own tokenizer; None if the scorer has the explained network's tokenizer.
        inputs: B texts, as inputs of the explained network.
        split: the split to which `inputs.index` refers.
        texts: function that looks up the texts; needed if `tokenizer` is given.

    Raises:
        ValueError: there is a tokenizer, but no `texts`, or the tokens of an input are not those of its text.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 2]])
        >>> scorer_inputs_of(None, inputs, None, None).inputs is inputs
        True
    """
    if tokenizer is None:
        return ScorerInputs.same(inputs)
    if texts is None or inputs.index is None:
        raise ValueError(
            "the scorer has its own tokenizer, so it needs the texts, which are not known here: explain texts of a "
            "TextDataModule, or use run.py explain"
        )
    return tokenizer.scorer_inputs(inputs, [texts(split, index) for index in inputs.index.tolist()])


def _window(source: RowText, ids: Tensor, row: int, inputs: TextInputs) -> Tensor:
    """Returns the character offsets [N, 2] of an input's tokens, counted from the start of the text `source`.

    Args:
        source: the whole text of the input.
        ids: [N] ids of the input's explainable tokens, which are those of the whole text or of one window of it.
        row: the input's row in `inputs`, for the error message.
        inputs: the batch of the input, for the error message.
    """
    starts = [0] if len(ids) == len(source.ids) else range(len(source.ids) - len(ids) + 1)
    for start in starts:
        if torch.equal(source.ids[start : start + len(ids)], ids):
            return source.offsets[start : start + len(ids)]
    number = row if inputs.index is None else int(inputs.index[row])
    raise ValueError(
        f"the tokens of the example with index {number} are not those of its text, so a scorer with its own tokenizer "
        "cannot read the example: explain texts without erasures, or pretrain a scorer with `align: none`"
    )


def _characters(offsets: Tensor, text: str) -> tuple[int, int]:
    """Returns the character positions in `text` where the first token begins, and where the last token ends.

    If only white space precedes the tokens, the first position is 0. If only white space follows the tokens, the second
    position is the end of the text.
    """
    begin, end = (int(offsets[0, 0]), int(offsets[:, 1].max())) if len(offsets) else (0, 0)
    return begin if text[:begin].strip() else 0, end if text[end:].strip() else len(text)


def _bare(offsets: Tensor, text: str) -> Tensor:
    """Returns offsets [S, 2] without the white space that some tokenizers include at the start or end of a token."""
    bare = offsets.clone()
    for token, (begin, end) in enumerate(offsets.tolist()):
        piece = text[begin:end]
        stripped = piece.strip()
        first = begin + len(piece) - len(piece.lstrip()) if stripped else begin
        bare[token, 0], bare[token, 1] = first, first + len(stripped)
    return bare
