"""HFClassifier accepts these architectures of transformers and refuses those, tested on tiny random networks."""

from typing import Any

import pytest
import torch

from lightning_xai.models.contracts import contract_violations
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.huggingface import Embedding
from tests.conftest import CLS, PAD, SEP, TINY_CONFIGS

IDS = {"vocab_size": 100, "pad_token_id": PAD, "bos_token_id": CLS, "eos_token_id": SEP}
ENCODER = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 160, **IDS,
}  # fmt: skip
DECODER = ENCODER | {"num_key_value_heads": 2}
XLM = {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "n_words": 100, "pad_index": PAD}
WITHOUT_ATTENTION = {key: value for key, value in ENCODER.items() if key != "num_attention_heads"}
OPT = {key: value for key, value in ENCODER.items() if key != "intermediate_size"}
DISENTANGLED = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}

ACCEPTED: dict[str, dict[str, Any]] = {
    **{name: config for name, config in TINY_CONFIGS.items() if name != "llama"},
    "modernbert, mean pooling": TINY_CONFIGS["modernbert"] | {"classifier_pooling": "mean"},
    "big_bird, block_sparse": TINY_CONFIGS["big_bird"] | {"attention_type": "block_sparse"},
    "albert": ENCODER | {"embedding_size": 12},
    "camembert": ENCODER,
    "data2vec-text": ENCODER,
    "deberta": ENCODER | DISENTANGLED | {"position_biased_input": False},
    "ernie": ENCODER,
    "luke": ENCODER | {"entity_vocab_size": 10, "entity_emb_size": 8},
    "megatron-bert": ENCODER,
    "mpnet": ENCODER,
    "rembert": ENCODER | {"input_embedding_size": 12, "output_embedding_size": 12},
    "roberta-prelayernorm": ENCODER,
    "roformer": ENCODER | {"embedding_size": 16},
    "xlm-roberta": ENCODER,
    "xlm-roberta-xl": ENCODER,
}
WORD_EMBEDDING_ONLY: dict[str, dict[str, Any]] = {
    "layoutlm": ENCODER,
    "xlm": XLM,
    "flaubert": XLM,
    "bloom": {"hidden_size": 16, "n_layer": 2, "n_head": 2, **IDS},
    "gemma": DECODER | {"head_dim": 8},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 160, **IDS},
    "gpt_neox": ENCODER,
    "llama": TINY_CONFIGS["llama"],
    "llama, no pad id": TINY_CONFIGS["llama"] | {"pad_token_id": None},
    "mistral": DECODER | {"sliding_window": 3},
    "opt": OPT | {"ffn_dim": 24, "word_embed_proj_dim": 16},
    "phi3": DECODER,
    "qwen2": DECODER,
    "qwen3": DECODER | {"head_dim": 8},
}
# the second value is a part of the error's message
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "eurobert": (DECODER, "at tokens with weight 0"),
    "bart": (
        {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24,
         "encoder_attention_heads": 2, "decoder_attention_heads": 2, **IDS},
        "eos",
    ),
    "convbert": (ENCODER | {"embedding_size": 16, "head_ratio": 1}, "padding on the right"),
    "esm": (ENCODER | {"mask_token_id": 3, "position_embedding_type": "rotary", "token_dropout": True}, "special ids"),
    "fnet": (WITHOUT_ATTENTION, "keeps no weights"),
    "funnel": ({"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 24, "block_sizes": [1, 1], **IDS}, "size"),
    "ibert": (ENCODER, "tuple"),
    "longformer": (ENCODER | {"attention_window": [4, 4]}, "size"),
    "mra": (ENCODER, "keeps no weights"),
    "nystromformer": (ENCODER | {"num_landmarks": 4, "segment_means_seq_len": 8}, "shape"),
    "squeezebert": (
        ENCODER | {"embedding_size": 16} | {f"{part}_groups": 1 for part in (
            "q", "k", "v", "post_attention", "intermediate", "output")},
        "sums of the attentions' rows",
    ),
    "xlnet": ({"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24, **IDS}, "size"),
    "yoso": (ENCODER, "shapes"),
}  # fmt: skip


def build(name: str, config: dict[str, Any], embedding: Embedding) -> HFClassifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HFClassifier(config={"model_type": name.partition(",")[0]} | config, num_classes=3, embedding=embedding)


def spread(model: HFClassifier) -> HFClassifier:
    """Gives `model` weights as large as trained ones; with small weights, noise would hide violations."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("embedding", ["word", "module"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_architecture_stays_accepted_with_weights_of_any_size(name, embedding):
    model = spread(build(name, ACCEPTED[name], embedding))
    assert contract_violations(model.double(), special_ids=model.special_ids) == []


@pytest.mark.parametrize("name", WORD_EMBEDDING_ONLY)
def test_architecture_stays_accepted_with_word_embeddings(name):
    model = spread(build(name, WORD_EMBEDDING_ONLY[name], "word"))
    assert contract_violations(model.double(), special_ids=model.special_ids) == []


@pytest.mark.parametrize("name", REFUSED)
def test_architecture_that_breaks_a_contract_is_refused_by_name(name):
    config, reason = REFUSED[name]
    with pytest.raises(ValueError, match=f"^{name} cannot be explained: .*{reason}"):
        build(name, config, "word")
