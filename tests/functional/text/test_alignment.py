"""Scores cross from WordPiece to byte-level BPE and back, by characters; a twin does it one token at a time."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.encoding import FastTokenizerEncoder
from lightning_xai.functional.text.alignment import carry, overlaps, shared_end, without_overlap

TEXTS = [
    "A na\u00efve caf\u00e9, unbelievably good.",
    "I \U0001f600 this \U0001f469\u200d\U0001f4bb film \u2764\ufe0f!",
    "\u4f60\u597d\u4e16\u754c is \u65e5\u672c\u8a9e",
    "cafe\u0301  two   spaces\tand a tab\n end  ",
    "",
    "\U0001f600",
]
SPECIAL = ["[PAD]", "[UNK]", "[MASK]"]


def byte_level() -> FastTokenizerEncoder:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["the cat and the film, unbelievably good. A naive cafe"] * 9, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    return FastTokenizerEncoder(fast, fill="pad")


def word_piece() -> FastTokenizerEncoder:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=SPECIAL)
    words = "a naive cafe unbelievably good i this film is two spaces and tab end the cat 2 other animals walked,."
    tokenizer.train_from_iterator([words] * 9, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    return FastTokenizerEncoder(fast, fill="pad")


def sources_of(begin: int, end: int, source: list[list[int]]) -> list[int]:
    """The brute-force twin: the source tokens of one target token, by sets of characters."""
    common = [s for s, (b, e) in enumerate(source) if set(range(begin, end)) & set(range(b, e))]
    if common:
        return common
    distances = {}
    for s, (b, e) in enumerate(source):
        if e > b:
            distances[s] = b - end if b >= end else begin - e if e <= begin else 0
    smallest = min(distances.values(), default=0)
    return [s for s in distances if distances[s] == smallest][-1:]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("swapped", [False, True], ids=["to byte-level", "to WordPiece"])
def test_equals_a_twin_that_compares_sets_of_characters(text, pool, swapped):
    encoders = (word_piece(), byte_level())
    to, of = (encoder.encode({"text": text}) for encoder in (encoders if swapped else encoders[::-1]))
    target, source = torch.from_numpy(to.offsets), torch.from_numpy(of.offsets)
    inside, has = torch.from_numpy(to.token_mask), torch.from_numpy(of.token_mask)
    scores = torch.rand(1, len(source), dtype=torch.float64, requires_grad=True)
    carried = carry(scores, overlaps(target, source, inside, has).unsqueeze(0), pool)[0]
    expected = []
    known = [span if mask else [0, 0] for span, mask in zip(of.offsets.tolist(), of.token_mask, strict=True)]
    for (begin, end), mask in zip(to.offsets.tolist(), to.token_mask, strict=True):
        found = sources_of(begin, end, known) if mask else []
        values = [scores[0, s].item() for s in found]
        expected.append((max(values) if pool == "max" else sum(values) / len(values)) if values else 0.0)
    assert carried.tolist() == pytest.approx(expected, abs=1e-12)
    if text == TEXTS[0]:
        (gradient,) = torch.autograd.grad(carried.sum(), scores)
        assert float(gradient.sum()) == pytest.approx(int(inside.sum()))  # every target token takes a weight of 1


def test_both_halves_of_an_emoji_take_the_score_of_its_one_token():
    to, of = byte_level().encode({"text": "I \U0001f600"}), word_piece().encode({"text": "I \U0001f600"})
    halves = [i for i, span in enumerate(to.offsets.tolist()) if span == [2, 3]]
    assert len(halves) > 1
    source_tokens = overlaps(torch.from_numpy(to.offsets), torch.from_numpy(of.offsets))
    assert {tuple(source_tokens[i].tolist()) for i in halves} == {(1, -1)[: source_tokens.shape[1]]}


def test_white_space_takes_the_nearest_token_and_is_counted():
    target, source = torch.tensor([[0, 1], [3, 3], [6, 6]]), torch.tensor([[0, 1], [5, 6], [6, 6]])
    assert overlaps(target, source).tolist() == [[0], [1], [1]]  # 3 is two characters from both: the later one
    assert without_overlap(target, source).tolist() == [False, True, True]
    assert without_overlap(target, source, torch.tensor([True, True, False])).tolist() == [False, True, False]


def test_without_any_source_token_all_scores_are_zero():
    target, empty = torch.tensor([[0, 1], [1, 2]]), torch.zeros(0, 2, dtype=torch.long)
    assert overlaps(target, empty).tolist() == [[-1], [-1]]
    assert carry(torch.zeros(1, 0), overlaps(target, empty).unsqueeze(0), "mean").tolist() == [[0.0, 0.0]]
    spaces = torch.tensor([[2, 2]])
    assert overlaps(target, spaces).tolist() == [[-1], [-1]]


def test_encodings_end_where_the_first_runs_out():
    long, short = torch.tensor([[0, 3], [4, 9], [10, 12]]), torch.tensor([[0, 3], [4, 8]])
    assert shared_end(long, short) == shared_end(short, long) == 8
    assert shared_end(long, short[:0]) == 0


def test_another_pooling_is_refused():
    with pytest.raises(ValueError, match="pool is 'sum'"):
        carry(torch.zeros(1, 1), torch.zeros(1, 1, 1, dtype=torch.long), "sum")  # type: ignore[arg-type]
