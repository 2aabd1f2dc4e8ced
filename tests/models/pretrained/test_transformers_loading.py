"""Networks of transformers from folders and configs."""

from typing import Any

import torch
import transformers
from transformers import AutoModel, PreTrainedModel

from lightning_xai.models.pretrained.transformers_config import read_config
from lightning_xai.models.pretrained.transformers_loading import load_transformer, quiet_loading
from tests.conftest import TINY_CONFIGS, tiny_classifier

BERT = TINY_CONFIGS["bert"]


def embedding_table(network: PreTrainedModel) -> torch.Tensor:
    table: Any = network.get_input_embeddings()
    return table.weight


def test_a_network_without_a_path_is_random_in_float32():
    config = read_config(None, BERT, dropout=None)
    one, two = (load_transformer(AutoModel, None, config).network for _ in range(2))
    assert not torch.equal(embedding_table(one), embedding_table(two))
    assert {parameter.dtype for parameter in one.parameters()} == {torch.float32}


def test_weights_of_a_folder_are_loaded(tmp_path):
    source = tiny_classifier("bert").transformer.base_model
    source.save_pretrained(tmp_path)
    loaded = load_transformer(AutoModel, str(tmp_path), read_config(str(tmp_path), None, dropout=None)).network
    assert torch.equal(embedding_table(loaded), embedding_table(source))


def test_loading_is_quiet_only_inside_the_context():
    before = transformers.logging.get_verbosity()
    with quiet_loading():
        assert transformers.logging.get_verbosity() == transformers.logging.ERROR
    assert transformers.logging.get_verbosity() == before
