"""The classes in config.json are numbered; a network with other names is refused, and its tokenizer needs no names."""

import json

import pytest

from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.data.vocabulary import numbered_words, word_tokenizer
from lightning_xai.models.pretrained.transformers_config import read_config

ODD = [{"zero": "no", "one": "yes"}, {"1.5": "no"}, ["no", "yes"], 3]


@pytest.fixture(params=ODD, ids=str)
def folder(request, tmp_path):
    word_tokenizer(numbered_words(9), split="whitespace", lowercase=False).save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "id2label": request.param}))
    return tmp_path


def test_network_without_numbered_classes_is_refused(folder):
    with pytest.raises(ValueError, match=r"id2label in config.json is .*: write it as"):
        read_config(str(folder), None, dropout=None)


def test_tokenizer_beside_names_that_are_not_numbered_is_loaded(folder):
    ids = TokenizerEncoder(str(folder)).encode({"text": "w1 w2"}).input_ids.tolist()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert ids == TokenizerEncoder(str(folder)).encode({"text": "w1 w2"}).input_ids.tolist() and len(ids) == 4
