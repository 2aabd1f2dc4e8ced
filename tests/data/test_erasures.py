"""Erasures that are read from stores: the tokens that are left, and the stores that are refused."""

import numpy as np
import pytest
import torch

from lightning_xai.data.corpora.cache import write_corpus
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.data.corpora.token_table import TokenTable
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.removal import remove_tokens
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.runs.encoder_facts import encoder_metadata
from lightning_xai.runs.stores.store import RaggedWriter

PAD, CLS, SEP, MASK, UNK = range(5)
EXAMPLE = {"text": "w0 w1 w2", "rationales": [{"label": 1, "spans": [[3, 8]]}]}  # [CLS] 5 6 7 [SEP]
KEEP = np.array([True, True, False, True, True])


def after_removal(example, keep, removal, **options):
    return remove_tokens(TokenTable.of([example]), keep, removal, **options).encoded(0)


def encoded(**options):
    return VocabularyEncoder(words=95, **options).encode(EXAMPLE)


def write(folder, rows, split="test", **metadata):
    with RaggedWriter(folder / split, metadata=metadata) as writer:
        for index, row in rows.items():
            writer.add(index, 0, np.asarray(row, dtype=np.float32))
    return str(folder)


def data(num_test=3, encoder=None, **options):
    source = Planted(num_train=3, num_validation=3, num_test=num_test)
    return TextDataModule(source, encoder or VocabularyEncoder(words=95), **options)


def first_tokens(module):
    """Returns a row for each test example that erases its first word."""
    return {i: [0, 1, *[0] * (len(e) - 2)] for i, e in enumerate(module.split("test").encoded)}


def test_mask_writes_the_fill_token_over_erased_tokens():
    assert after_removal(encoded(), KEEP, "mask").input_ids.tolist() == [CLS, 5, MASK, 7, SEP]
    assert after_removal(encoded(fill="pad"), KEEP, "mask").input_ids.tolist() == [CLS, 5, PAD, 7, SEP]


def test_masked_tokens_may_still_be_explained_and_erased():
    np.testing.assert_array_equal(after_removal(encoded(), KEEP, "mask").token_mask, encoded().token_mask)


def test_delete_drops_erased_tokens_from_every_array():
    kept = after_removal(encoded(), KEEP, "delete")
    assert kept.input_ids.tolist() == [CLS, 5, 7, SEP]
    assert kept.baseline_ids.tolist() == [CLS, MASK, MASK, SEP]
    assert kept.token_mask.tolist() == [False, True, True, False]
    assert kept.word_ids.tolist() == [-1, 0, 2, -1]
    assert kept.offsets.tolist() == [[0, 0], [0, 2], [6, 8], [0, 0]]
    assert kept.rationales[1].tolist() == [False, False, True, False]
    assert kept.token_type_ids is not None
    assert len(kept) == len(kept.token_type_ids) == len(kept.sequence_ids) == len(kept.special_tokens_mask) == 4


def test_positions_leave_one_word_for_all_that_was_kept():
    positions = after_removal(encoded(), KEEP, "positions", unk_token_id=UNK)
    assert positions.input_ids.tolist() == [CLS, UNK, MASK, UNK, SEP]


def test_positions_keep_the_pair_that_may_not_be_explained():
    pair = VocabularyEncoder(words=95, explain_pair=False).encode({"text": "w0 w1", "text_pair": "w2"})
    keep = np.array([True, False, True, True, True, True])
    positions = after_removal(pair, keep, "positions", unk_token_id=UNK)
    assert positions.input_ids.tolist() == [CLS, MASK, UNK, SEP, 7, SEP]


def test_data_module_erases_by_the_index_of_each_example(tmp_path):
    whole = data()
    folder = write(tmp_path, dict(reversed(first_tokens(whole).items())))
    masked = data(erasures=folder)
    for index in range(3):
        wanted = whole.encoded("test", index).input_ids.copy()
        wanted[1] = MASK
        assert masked.encoded("test", index).input_ids.tolist() == wanted.tolist()


def test_data_module_erases_the_right_examples_of_a_subset(tmp_path):
    folder = write(tmp_path, first_tokens(data(num_test=9)))
    whole, part = data(num_test=9), data(num_test=9, erasures=folder, max_examples={"test": 4})
    for index in part.split("test").index.tolist():
        wanted = whole.encoded("test", index).input_ids.copy()
        wanted[1] = MASK
        assert part.encoded("test", index).input_ids.tolist() == wanted.tolist()


def test_deleted_tokens_shorten_the_batches(tmp_path):
    folder = write(tmp_path, first_tokens(data()))
    whole, short = (next(iter(m.ordered_dataloader("test"))) for m in (data(), data(erasures=folder, erasure="delete")))
    lengths = whole.inputs.attention_mask.sum(1)[whole.index.argsort()]
    assert torch.equal(short.inputs.attention_mask.sum(1)[short.index.argsort()], lengths - 1)


@pytest.mark.parametrize(
    "row, erasure, message",
    [
        (None, "mask", "has no row for the example with index 1: wait until the run that writes the store"),
        (lambda length: [0, 1, 0], "mask", "a row of 3 numbers for the example with index 1, which has .*: use"),
        (lambda length: [1] + [0] * (length - 1), "mask", "erases tokens that must not be erased in the example"),
    ],
)
def test_store_that_does_not_fit_is_refused_with_the_example(row, erasure, message, tmp_path):
    rows = first_tokens(data())
    if row is None:
        del rows[1]
    else:
        rows[1] = row(len(rows[1]))
    with pytest.raises(ValueError, match=message):
        data(erasures=write(tmp_path, rows), erasure=erasure).split("test")


def test_split_without_erasures_is_refused(tmp_path):
    folder = write(tmp_path, first_tokens(data()))
    with pytest.raises(ValueError, match=r"no erasures for split 'train' \(splits with erasures: test\)"):
        data(erasures=folder).split("train")


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no folder .*missing of erasures: run the stage that writes it"):
        data(erasures=str(tmp_path / "missing")).split("test")


def test_erasures_of_the_same_examples_in_another_order_are_refused(tmp_path):
    whole = data().unerased_split("test")
    swapped = write_corpus(tmp_path / "swapped", list(whole.examples)[::-1], VocabularyEncoder(words=95))
    folder = write(tmp_path, first_tokens(data()), examples=EncodedSplit(swapped).hash())
    with pytest.raises(ValueError, match="for other examples, or for the same examples in another order"):
        data(erasures=folder).split("test")


def test_erasures_that_name_their_examples_are_applied_to_them(tmp_path):
    folder = write(tmp_path, first_tokens(data()), examples=data().unerased_split("test").hash())
    assert {int(e.input_ids[1]) for e in data(erasures=folder).split("test").encoded} == {MASK}


def test_unerased_split_keeps_all_tokens(tmp_path):
    module = data(erasures=write(tmp_path, first_tokens(data())))
    module.split("test")
    assert module.unerased_split("test").hash() == data().unerased_split("test").hash()


def test_positions_are_refused_where_the_fill_token_is_the_unknown_token(tmp_path):
    with pytest.raises(ValueError, match="set the encoder's `fill` to another token"):
        data(encoder=VocabularyEncoder(words=95, fill="unk"), erasures=str(tmp_path), erasure="positions")


def test_unknown_erasure_is_refused_at_construction():
    with pytest.raises(ValueError, match="erasure"):
        data(erasure="blank")


OTHER_ENCODERS = {
    "fewer words": (VocabularyEncoder(words=94), r"\(100 ids, fingerprint \w+\), now VocabularyEncoder \(99 ids"),
    "another order": (VocabularyEncoder(words=[f"w{i}" for i in range(95)][::-1]), "ids, fingerprint"),
    "max_length": (VocabularyEncoder(words=95, max_length=256), "max_length was 512, now 256"),
    "fill": (VocabularyEncoder(words=95, fill="pad"), "fill was mask, now pad"),
    "explain_pair": (VocabularyEncoder(words=95, explain_pair=False), "explain_pair was True, now False"),
}


@pytest.mark.parametrize("other", OTHER_ENCODERS)
def test_erasures_of_another_encoder_are_refused_with_both(tmp_path, other):
    first = data()
    folder = write(tmp_path, first_tokens(first), **encoder_metadata(tmp_path / "test", first.encoder_facts()))
    assert MASK in data(erasures=folder).split("test").encoded[0].input_ids
    encoder, message = OTHER_ENCODERS[other]
    with pytest.raises(ValueError, match=f"has token positions of another encoder: .*{message}.*write it again$"):
        data(encoder=encoder, erasures=folder).split("test")


def test_erasures_of_an_older_version_name_no_encoder_and_are_compared_by_their_examples(tmp_path):
    folder = write(tmp_path, first_tokens(data()), examples=data().split("test").hash())
    assert encoder_metadata(tmp_path / "test", data().encoder_facts()) == {}
    data(erasures=folder, encoder=VocabularyEncoder(words=95, max_length=256)).split("test")
    with pytest.raises(ValueError, match="was written for other examples"):
        data(erasures=folder, encoder=VocabularyEncoder(words=[f"w{i}" for i in range(95)][::-1])).split("test")
