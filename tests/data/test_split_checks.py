"""Whole splits: unknown tokens are counted, classes without a training row and shared texts are warned of."""

import warnings
from pathlib import Path

import pytest

from lightning_xai.data.corpora.source_table import shared_text_fractions
from lightning_xai.data.encoding import FastTokenizerEncoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource, rows_to_dataset, rows_to_splits
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder, word_tokenizer
from lightning_xai.runs.progress import quiet


class Texts(TextSource):
    """The given texts of each split; rows with an odd number have class 1."""

    class_names = ["no", "yes"]

    def __init__(self, **splits):
        self.splits = {
            name: [text if isinstance(text, dict) else {"text": text} for text in texts]
            for name, texts in splits.items()
        }

    def load(self):
        return rows_to_splits(
            {
                split: [{"labels": i % 2, "id": str(i), **row} for i, row in enumerate(rows)]
                for split, rows in self.splits.items()
            },
            self.multilabel,
        )


def data(encoder=None, **splits):
    return TextDataModule(Texts(**splits), encoder or VocabularyEncoder())


def test_words_come_from_the_training_split_by_default(capsys):
    module = data(train=["a fine plot", "a dull plot"], validation=["a plot", "fine"], test=["a new plot", "plot"])
    module.setup()
    module.train_dataloader(), module.val_dataloader(), module.test_dataloader(), module.train_dataloader()
    assert capsys.readouterr().out == "unknown tokens: train 0.0%, validation 0.0%, test 25.0%\n"


ENCODERS = {
    "synthetic words": lambda: VocabularyEncoder(words=95),
    "words of another case": lambda: VocabularyEncoder(words=["GOOD", "FILM"]),
    "tokenizer": lambda: FastTokenizerEncoder(word_tokenizer(["x"], split="whitespace", lowercase=False)),
}


@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_a_split_of_which_most_is_unknown_is_refused(encoder):
    with pytest.raises(ValueError, match=r"100% of the tokens in split 'train' are unknown .*words: null"):
        data(encoder(), train=["good film"] * 2, validation=["good"], test=["film"]).train_dataloader()


def test_special_tokens_do_not_count_as_known():
    module = data(VocabularyEncoder(words=["a"]), train=["a b", "a c b"])
    with pytest.raises(ValueError, match="60% of the tokens in split 'train'"):
        module.train_dataloader()


def test_words_of_a_checkpoint_are_counted_in_place_of_those_of_the_training_split(capsys):
    module = data(train=["new words"], validation=["a plot"])
    module.setup("fit")
    module.load_state_dict({"encoder": {"words": ["a", "plot"]}})
    module.val_dataloader()
    assert capsys.readouterr().out == "unknown tokens: validation 0.0%\n"


def test_a_test_split_that_is_loaded_before_training_is_refused_then():
    module = data(train=["a"], validation=["a"], test=["b"])
    module.setup("test")
    with pytest.raises(ValueError, match="100% of the tokens in split 'test'"):
        module.train_dataloader()


@pytest.mark.parametrize("texts", [["a", "b"], ["", ""]])
def test_half_and_none_unknown_are_accepted(texts):
    assert len(data(VocabularyEncoder(words=["a"]), train=texts).train_dataloader()) == 1


@pytest.mark.parametrize(
    "splits, expected",
    [
        ({"train": ["a", "b"], "test": ["a", "b"]}, [("train", "test", 1.0)]),
        (
            {"train": ["a", "b"], "validation": ["c"], "test": ["d", "b", "e", "c"]},
            [("train", "test", 0.25), ("validation", "test", 0.25)],
        ),
        ({"train": ["a"], "test": ["A"]}, []),
        ({"train": [{"text": "a", "text_pair": "b"}], "test": [{"text": "a", "text_pair": "c"}]}, []),
        (
            {"train": [{"text": "a", "text_pair": "b"}], "test": [{"text": "a", "text_pair": "b"}]},
            [("train", "test", 1.0)],
        ),
    ],
)
def test_fraction_of_shared_texts(splits, expected):
    rows = {
        name: rows_to_dataset([row if isinstance(row, dict) else {"text": row} for row in texts])
        for name, texts in splits.items()
    }
    assert list(shared_text_fractions(rows)) == expected


def test_shared_texts_are_warned_of_with_their_share_before_anything_is_encoded():
    module = data(train=["a", "b"], validation=["c", "c d"], test=["a", "e", "f", "b"])
    with pytest.warns(
        UserWarning, match="results on split 'test' .* 50.0% of its texts are also in split 'train'"
    ) as warned:
        module.split_names  # noqa: B018
    assert Path(warned[0].filename).name == "encoded_source.py"  # of another file, the line would name the place


@pytest.mark.parametrize("multilabel", [False, True])
def test_class_without_a_training_row_is_warned_of(multilabel):
    source = Planted(
        num_classes=12, num_train=2, class_probability=0.1, words_per_document=(24, 24), multilabel=multilabel
    )
    with pytest.warns(UserWarning, match=r"no training row has any of the classes \['class0'.*cannot learn these"):
        TextDataModule(source, VocabularyEncoder(words=95)).split("train")


def test_class_names_that_differ_only_in_case_or_spaces_are_warned_of():
    source = Texts(train=[{"text": f"w{number}", "labels": number} for number in range(3)])
    source.class_names = ["Negative ", "negative", "positive"]
    with pytest.warns(UserWarning, match="classes 'Negative ' and 'negative' differ only in case or spaces"):
        TextDataModule(source, VocabularyEncoder()).split("train")


@pytest.mark.parametrize("multilabel", [False, True])
def test_rationales_of_a_class_that_their_row_lacks_are_warned_of(multilabel):
    def row(number: int, label: int, of_class: int | None) -> dict:
        rationales = [] if of_class is None else [{"label": of_class, "spans": [[0, 2]]}]
        return {"text": f"w{number}", "labels": [label] if multilabel else label, "rationales": rationales}

    rows = [row(0, 0, 0), row(1, 1, None), row(2, 0, 1), row(3, 1, 0)]
    source = Texts(train=rows)
    source.multilabel = multilabel
    with pytest.warns(UserWarning) as shown:
        TextDataModule(source, VocabularyEncoder()).split("train")
    line = (
        "split 'train' has 2 rationales of a class that its row lacks (the first in row 2): correct label or rationale"
    )
    assert [str(warning.message) for warning in shown] == [line]


def test_the_stages_of_a_command_warn_once():
    with pytest.warns(UserWarning) as shown, quiet():
        for _ in range(2):
            data(train=["a", "b"], test=["a", "c"]).split("test")
            data(train=["a"]).split("train")
    texts = [str(warning.message) for warning in shown]
    assert [text.partition(": ")[2] for text in texts] == [
        "check data_files or remove the duplicates",
        "the network cannot learn these classes",
    ]


@pytest.mark.slow
def test_nothing_is_warned_of_in_proper_data():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TextDataModule(Planted(), VocabularyEncoder(words=95)).setup()
