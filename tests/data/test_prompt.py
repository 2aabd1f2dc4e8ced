"""Prompts around texts: which tokens may be explained, what max_length cuts, and what is refused."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.base import Encoded
from lightning_xai.data.batches.collate import Item, collate
from lightning_xai.data.prompt import PromptEncoder
from lightning_xai.data.prompt_parts import draw_shots
from tests.data.prompts import CLASSES, byte_level_folder, prompt_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return byte_level_folder(tmp_path_factory.mktemp("tokenizer"))


def words(encoder: PromptEncoder, encoded: Encoded) -> str:
    return str(encoder.tokenizer.decode(encoded.input_ids.tolist()))


def test_the_prompt_reads_as_written(folder):
    encoder = prompt_encoder(folder)
    assert words(encoder, encoder.encode({"text": "a dull film"})) == (
        "Is the film good or bad?\n\nText: a fine film\nLabel: positive\n\nText: so dull\nLabel: negative\n\n"
        "Text: a dull film\nLabel:"
    )


def test_only_the_text_is_explained_and_the_prompt_is_not_special(folder):
    encoder = prompt_encoder(folder)
    encoded = encoder.encode({"text": "na\u00efve film", "rationales": [{"label": 1, "spans": [[6, 10]]}]})
    inside = encoded.token_mask
    assert encoder.tokenizer.decode(encoded.input_ids[inside].tolist()) == " na\u00efve film"
    assert not encoded.special_tokens_mask.any()
    assert (encoded.baseline_ids != encoded.input_ids).tolist() == inside.tolist()
    assert (encoded.sequence_ids == 0).tolist() == inside.tolist()
    assert set(encoded.word_ids[~inside].tolist()) == {-1} and encoded.word_ids[inside].min() == 0
    pieces = ["na\u00efve film"[begin:end] for begin, end in encoded.offsets[encoded.rationales[1]].tolist()]
    assert "".join(pieces) == "film" and encoded.evidence_kept == 1
    assert encoded.offsets[inside][0].tolist()[0] == 0 and not encoded.offsets[~inside].any()


def test_every_part_is_tokenized_alone_so_the_prompt_is_the_same_around_every_text(folder):
    encoder = prompt_encoder(folder)
    examples = [{"text": text} for text in ("a film", "  spaces", "\U0001f600", "Label: positive", "")]
    alone = [encoder.encode(example) for example in examples]
    prompts = {tuple(e.input_ids[~e.token_mask].tolist()) for e in alone}
    assert len(prompts) == 1
    assert not alone[-1].token_mask.any() and len(alone[-1]) == len(prompts.pop())
    for one, batched in zip(alone, encoder.encode_batch(examples), strict=True):
        assert np.array_equal(one.input_ids, batched.input_ids)


def test_max_length_cuts_the_text_alone(folder):
    encoder = prompt_encoder(folder)
    whole = encoder.encode({"text": "a fine dull film " * 3})
    cut = prompt_encoder(folder, max_length=len(whole) - 5).encode({"text": "a fine dull film " * 3})
    assert cut.truncated and len(cut) == len(whole) - 5
    assert np.array_equal(cut.input_ids[~cut.token_mask], whole.input_ids[~whole.token_mask])
    kept = whole.input_ids[whole.token_mask][: cut.token_mask.sum()]
    assert np.array_equal(cut.input_ids[cut.token_mask], kept)


def test_a_batch_knows_its_prompt(folder):
    encoder = prompt_encoder(folder)
    encoded = encoder.encode_batch([{"text": "a film"}, {"text": "so very dull"}])
    items = [Item(i, e, 0) for i, e in enumerate(encoded)]
    inputs = collate(items, pad_token_id=1, num_classes=2, multilabel=False, has_rationales=False).inputs
    assert inputs.prompt_mask is not None
    assert inputs.prompt_mask.tolist() == (inputs.attention_mask & ~inputs.token_mask).tolist()


def test_answers_are_the_tokens_that_they_add(folder):
    encoder = prompt_encoder(folder)
    assert encoder.tokenizer.convert_ids_to_tokens(encoder.verbalizer_ids) == ["\u0120negative", "\u0120positive"]


def test_a_chat_template_goes_around_the_prompt(folder):
    answers = {"bad": "negative", "good": "positive"}
    encoder = prompt_encoder(folder, chat=True, shots=0, verbalizers={"bad": "n", "good": "p"})
    text = words(encoder, encoder.encode({"text": "a film"}))
    assert text.startswith("<|start|>user\nIs the film") and text.endswith(
        "a film\nLabel:<|end|>\n<|start|>assistant\n"
    )
    with pytest.raises(ValueError, match="adds the tokens .* give an answer that adds exactly one token"):
        prompt_encoder(folder, chat=True, verbalizers={"bad": "zebra", "good": answers["good"]})
    encoder.tokenizer.chat_template = None
    with pytest.raises(ValueError, match="has no chat template: set `chat: false`"):
        encoder.take_classes(CLASSES)


def sentence_piece_like(folder: str) -> str:
    words = "The cat and 2 other animals walked, unbelievably. Text: a film Label: P N x".split()
    pieces = dict.fromkeys(["<unk>", "<s>", "</s>", *(f"\u2581{word}" for word in words)])
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", pad_token="</s>")
    fast.save_pretrained(folder)
    return folder


def test_a_tokenizer_that_adds_the_space_itself_gets_no_second_one(tmp_path):
    encoder = prompt_encoder(
        sentence_piece_like(str(tmp_path)), shots=0, task="", template="Text: {text} Label:", fill="unk",
        verbalizers={"bad": " N", "good": " P"},
    )  # fmt: skip
    encoded = encoder.encode({"text": "a film"})
    assert encoded.special_tokens_mask.tolist() == [True, *[False] * (len(encoded) - 1)]  # <s> opens the prompt
    assert encoder.tokens(encoded)[2:4] == ["\u2581a", "\u2581film"]
    assert encoded.offsets[encoded.token_mask].tolist() == [[0, 1], [2, 6]]


def test_drawn_shots_are_balanced_seeded_and_not_in_an_evaluated_split(folder):
    rows = [{"text": f"film {i}", "labels": i % 2} for i in range(40)]
    evaluated = [f"film {i}" for i in range(30)]
    encoders = [prompt_encoder(folder, shots=4, max_length=300, seed=seed) for seed in (0, 0, 1)]
    for encoder in encoders:
        assert encoder.needs_fit
        encoder.take_classes(CLASSES, evaluated)
        encoder.fit(rows)
    drawn = encoders[0].shots
    assert sorted(shot["label"] for shot in drawn) == ["bad", "bad", "good", "good"]
    assert not {shot["text"] for shot in drawn} & set(evaluated)
    assert drawn == encoders[1].shots != encoders[2].shots
    copy = prompt_encoder(folder, shots=4, max_length=300)
    copy.load_state_dict(encoders[2].state_dict())
    assert copy.facts()["prompt"] == encoders[2].facts()["prompt"] != encoders[0].facts()["prompt"]
    with pytest.raises(ValueError, match="`shots` is 2, but only 1 training rows can be drawn: lower `shots`"):
        draw_shots(["a"], ["bad"], 2, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"verbalizers": {"bad": " negative", "good": " neutral"}}, "' neutral' of class 'good' adds the tokens"),
        ({"verbalizers": {"bad": " negative", "good": " negative"}}, "classes 'bad' and 'good' the same answer"),
        ({"verbalizers": {"bad": " negative"}}, "no answer for class 'good'"),
        ({"verbalizers": {"bad": " negative", "good": " positive", "so": " a"}}, "for 'so', which is not a class"),
        ({"verbalizers": {"bad": "<|unk|>", "good": " positive"}}, "'<|unk|>' of class 'bad' is an unknown token"),
        ({"verbalizers": None}, "has no verbalizers"),
        ({"template": "Text:"}, "has 0 places for the text"),
        ({"template": "{text} {text}"}, "has 2 places for the text"),
        ({"max_length": 30}, "leaves no room for a text in max_length=30"),
        ({"shots": [{"text": "so so", "label": "fair"}]}, "'so so' has label 'fair'"),
        ({"shots": [{"text": "so so"}]}, "is not a dict with exactly the keys text and label"),
        ({"shots": -1}, "shots is -1"),
        ({"fill": "several tokens"}, "fill 'several tokens' becomes the tokens"),
    ],
)
def test_a_wrong_prompt_is_refused(folder, arguments, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")) as caught:
        prompt_encoder(folder, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["so dull", " so  dull\n", "So Dull"])
def test_a_shot_from_an_evaluated_split_is_refused(text, folder):
    with pytest.raises(ValueError, match="is also in a validation or test split"):
        prompt_encoder(folder).take_classes(CLASSES, ["fine", text])


def test_pairs_and_texts_before_the_prompt_is_known_are_refused(folder):
    with pytest.raises(ValueError, match="encodes a single text"):
        prompt_encoder(folder).encode({"text": "a", "text_pair": "b"})
    with pytest.raises(ValueError, match="not built yet"):
        PromptEncoder(folder, {"bad": " negative"}, fill="unk").encode({"text": "a"})


def test_any_token_may_be_the_fill(folder):
    encoder = prompt_encoder(folder, fill=" film")
    encoded = encoder.encode({"text": "a dull"})
    assert (
        encoder.tokenizer.decode(encoded.baseline_ids[encoded.token_mask].tolist())
        == " film" * encoded.token_mask.sum()
    )
