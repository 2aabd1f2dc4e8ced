"""Configs of transformers from folders and dictionaries."""

import pytest

from lightning_xai.models.pretrained.transformers_config import architecture_config, read_config
from tests.conftest import TINY_CONFIGS, tiny_classifier

BERT = TINY_CONFIGS["bert"]


def test_a_config_comes_back_from_its_architecture():
    config = read_config(None, {**BERT, "hidden_dropout_prob": 0.3}, dropout=None)
    again = read_config(None, architecture_config(config), dropout=None)
    assert again.to_dict() == config.to_dict()


def test_an_architecture_holds_no_facts_about_a_file_or_a_run(tmp_path):
    tiny_classifier("bert").transformer.save_pretrained(tmp_path)
    values = architecture_config(read_config(str(tmp_path), None, dropout=None))
    assert values["model_type"] == "bert"
    assert not {"_name_or_path", "architectures", "dtype", "id2label", "transformers_version"} & set(values)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
def test_dropout_replaces_every_probability(kind):
    config = read_config(None, TINY_CONFIGS[kind], dropout=0.25)
    changed = {name: value for name, value in config.to_dict().items() if "dropout" in name and value is not None}
    assert changed and set(changed.values()) == {0.25}


def test_a_switch_of_dropout_is_no_probability():
    config = read_config(None, {"model_type": "esm", "token_dropout": True}, dropout=0.25)
    assert config.token_dropout is True and config.hidden_dropout_prob == 0.25


def test_block_sparse_attention_becomes_full_attention():
    config = read_config(None, {**TINY_CONFIGS["big_bird"], "attention_type": "block_sparse"}, dropout=None)
    assert config.attention_type == "original_full"


@pytest.mark.parametrize("arguments", [(None, None), ("folder", BERT)], ids=["none", "both"])
def test_exactly_one_of_path_and_config_is_needed(arguments):
    with pytest.raises(ValueError, match="give exactly one of them"):
        read_config(*arguments, dropout=None)
