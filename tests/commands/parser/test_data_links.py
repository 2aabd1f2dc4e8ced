"""Ids and class counts of a network follow the data; a configuration that contradicts is refused."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from lightning_xai.commands.cli import XAICLI
from lightning_xai.models.bilstm import BiLSTMAttention
from tests.commands.conftest import refusal, save, tiny_config
from tests.conftest import tiny_classifier

pytestmark = pytest.mark.slow

WORDS = [f"w{number}" for number in range(95)]
LSTM = {"embedding_size": 4, "hidden_size": 3}


@pytest.fixture
def arguments(tmp_path):
    """Returns a function that gives the arguments of a fit of a BiLSTM, whose special tokens come after the words."""
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "mask", "pad")}
    vocabulary = {token: number for number, token in enumerate([*WORDS, *special.values()])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(tmp_path / "tokenizer")

    def fit(**network):
        config = tiny_config(callbacks=[], fast_dev_run=True)
        config["model"]["init_args"]["network"] = {
            "class_path": "lightning_xai.models.bilstm.BiLSTMAttention", "init_args": LSTM | network,
        }  # fmt: skip
        config["data"]["init_args"]["encoder"] = {
            "class_path": "lightning_xai.data.encoding.TokenizerEncoder",
            "init_args": {"path": str(tmp_path / "tokenizer"), "max_length": 32},
        }
        return ["fit", "--config", save(config, tmp_path / "lstm.yaml"), "--runs_dir", str(tmp_path / "runs")]

    return fit


@pytest.mark.parametrize("given", [{}, {"mask_id": 96, "pad_id": 97}], ids=["left out", "given"])
def test_ids_of_a_network_are_those_of_the_encoder(arguments, given, capsys):
    network = XAICLI(arguments(**given)).model.network
    assert isinstance(network, BiLSTMAttention)
    assert (network.pad_id, network.init_args["mask_id"], network.embedding.padding_idx) == (97, 96, 97)
    lines = capsys.readouterr().out
    assert ("the network's mask_id is set to 96, as in the encoder" in lines) == (not given)


@pytest.mark.parametrize(
    ("name", "given", "linked"),
    [("pad_id", 5, 97), ("mask_id", 97, 96), ("num_classes", 5, 2), ("multilabel", True, False)],
)
def test_a_value_that_contradicts_the_data_is_refused(arguments, name, given, linked):
    message = refusal(*arguments(**{name: given}))
    assert message.startswith(f"error: the network's {name} is {given}, but the data's is {linked}: leave {name} out;")


def test_a_vocabulary_without_a_mask_token_gives_no_mask_id():
    assert BiLSTMAttention(9, mask_id=None).embedding_matrix[1:].abs().sum(dim=1).min() > 0


def test_a_vocabulary_larger_than_the_table_is_refused_before_training(tmp_path):
    config = tiny_config(callbacks=[])
    config["data"]["init_args"]["encoder"]["init_args"]["words"] = 96  # and 5 special tokens
    message = refusal("fit", "--config", save(config, tmp_path / "small.yaml"), "--runs_dir", tmp_path / "runs")
    assert "the data's encoder has 101 token ids, but the embedding table has only 100 rows" in message
    assert not list(tmp_path.rglob("*.ckpt"))


@pytest.mark.parametrize("num_ids", [5, 99, 100])
def test_a_vocabulary_that_fits_into_the_table_is_taken(num_ids):
    tiny_classifier("bert").check_vocabulary(num_ids)
