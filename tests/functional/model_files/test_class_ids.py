"""The classes in config.json are numbered, and the tokenizer's reader says so as the network's reader does."""

import json

import pytest

from lightning_xai.data.tokenizers.own_tokenizer import load_tokenizer
from lightning_xai.models.pretrained.transformers_config import read_config

SETTINGS = {"model_type": "bert", "id2label": {"zero": "no", "one": "yes"}}


@pytest.mark.parametrize("read", [load_tokenizer, lambda path: read_config(path, None, dropout=None)])
def test_words_in_place_of_class_numbers_are_named(read, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"id2label in config.json is \{'zero': 'no', 'one': 'yes'\}: write it as"):
        read(str(tmp_path))
