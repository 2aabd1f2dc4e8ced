"""Unknown keys of a config dictionary are named; keys that networks read, and those of checkpoints, are taken."""

from typing import Any

import pytest
import transformers

from lightning_xai.models.checkpoints.checkpoint import load_trained
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.models.pretrained.config_keys import check_config_keys
from lightning_xai.models.pretrained.transformers_config import architecture_config
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.models.checkpoints.test_checkpoint import save_checkpoint


@pytest.mark.parametrize("network_class", [HFClassifier, PLMCA])
@pytest.mark.parametrize(
    ("kind", "key", "nearest"),
    [
        ("bert", "hiden_size", "hidden_size"),
        ("roberta", "num_attention_head", "num_attention_heads"),
        ("distilbert", "hidden_dims", "hidden_dim"),
        ("deberta-v2", "pos_att_typ", "pos_att_type"),
        ("modernbert", "local_attentions", "local_attention"),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest_known_key(network_class, kind, key, nearest):
    message = f"key '{key}', which {kind} does not read: the nearest known key is '{nearest}'"
    with pytest.raises(ValueError, match=message):
        network_class(config=TINY_CONFIGS[kind] | {key: 32})


def test_a_key_of_another_architecture_is_named():
    with pytest.raises(ValueError, match="'d_model', which bert does not read"):
        HFClassifier(config=TINY_CONFIGS["bert"] | {"d_model": 32})


@pytest.mark.parametrize("kind", TINY_CONFIGS)
def test_all_keys_that_transformers_writes_are_known(kind):
    config = tiny_classifier(kind).transformer.config
    check_config_keys(type(config), architecture_config(config))
    check_config_keys(type(config), config.to_dict().keys() - {"_name_or_path"})


@pytest.mark.parametrize(
    ("config_class", "keys"),
    [
        (transformers.DebertaV2Config, ["share_att_key", "position_buckets", "norm_rel_ebd"]),
        (transformers.LlamaConfig, ["rope_theta", "rope_scaling", "num_labels", "torch_dtype"]),
        (transformers.DistilBertConfig, ["hidden_size", "num_hidden_layers", "tokenizer_class"]),
        (transformers.GPTNeoXConfig, ["rotary_pct", "rotary_emb_base"]),
    ],
)
def test_a_key_that_a_network_reads_without_declaring_it_is_known(config_class, keys):
    check_config_keys(config_class, keys)


def test_a_checkpoint_with_a_key_of_another_version_is_loaded(tmp_path):
    network = tiny_classifier("bert")
    network.transformer.config.key_of_an_older_version = 3
    loaded: Any = load_trained(save_checkpoint(network, tmp_path / "best.ckpt")).network
    assert loaded.transformer.config.key_of_an_older_version == 3
