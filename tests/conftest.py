"""Tiny random networks and inputs for the whole suite; nothing is downloaded."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import pytest  # noqa: E402
import torch  # noqa: E402
from lightning import seed_everything  # noqa: E402
from torch import nn  # noqa: E402

from lightning_xai.types import TextInputs  # noqa: E402

torch.set_num_threads(1)

SHARED = Path(os.environ.get("LIGHTNING_XAI_SHARED", Path(__file__).parents[2] / "shared"))

PAD, CLS, SEP, MASK, UNK = 0, 1, 2, 3, 4
VOCAB_SIZE = 100
_SIZES = {"vocab_size": VOCAB_SIZE, "pad_token_id": PAD, "bos_token_id": CLS, "eos_token_id": SEP}
_ENCODER = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 160, **_SIZES,
}  # fmt: skip
TINY_CONFIGS = {
    "bert": {"model_type": "bert", **_ENCODER},
    "roberta": {"model_type": "roberta", **_ENCODER, "type_vocab_size": 1},
    "distilbert": {
        "model_type": "distilbert", "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24,
        "max_position_embeddings": 160, **_SIZES,
    },
    "electra": {"model_type": "electra", "embedding_size": 12, **_ENCODER},
    "big_bird": {"model_type": "big_bird", "attention_type": "original_full", **_ENCODER},
    "deberta-v2": {
        "model_type": "deberta-v2", **_ENCODER, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
        "type_vocab_size": 0, "position_biased_input": False,
    },
    "modernbert": {
        "model_type": "modernbert", **_ENCODER, "cls_token_id": CLS, "sep_token_id": SEP, "local_attention": 8,
        "global_attn_every_n_layers": 2,
    },
    "llama": {"model_type": "llama", **_ENCODER, "num_key_value_heads": 1},
}  # fmt: skip


@pytest.fixture(autouse=True)
def seeded():
    """Starts every test with the same seed, so that no test depends on those before it."""
    seed_everything(0, verbose=False)


@pytest.fixture
def shared() -> Path:
    """The folder with golden files and corpora outside the project; without it, tests that need it are skipped."""
    if not SHARED.is_dir():
        pytest.skip("needs the golden files and corpora, whose folder LIGHTNING_XAI_SHARED may name")
    return SHARED


def text_inputs(lengths: list[int], *, seed: int = 0, pad_to: int | None = None) -> TextInputs:
    """Returns random inputs, [CLS] words [SEP] padded on the right, one row for each length (special tokens included).

    A row depends only on the seed, its position and its length, so `text_inputs([5, 9])[:1]` is `text_inputs([5])` with
    padding. Every word has one or two tokens.
    """
    width = max([pad_to or 0, *lengths])
    shape = (len(lengths), width)
    input_ids = torch.full(shape, PAD)
    attention_mask = torch.zeros(shape, dtype=torch.bool)
    special = torch.ones(shape, dtype=torch.bool)
    word_ids = torch.full(shape, -1)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(1000 * seed + row)
        body = torch.randint(5, VOCAB_SIZE, (length - 2,), generator=generator)
        input_ids[row, :length] = torch.cat([torch.tensor([CLS]), body, torch.tensor([SEP])])
        attention_mask[row, :length] = True
        special[row, 1 : length - 1] = False
        starts = torch.randint(0, 2, (length - 2,), generator=generator)
        starts[1:] |= 1 - starts[:-1]
        starts[:1] = 1
        word_ids[row, 1 : length - 1] = starts.cumsum(0) - 1
    token_mask = attention_mask & ~special
    return TextInputs(
        input_ids=input_ids,
        attention_mask=attention_mask,
        token_mask=token_mask,
        special_tokens_mask=special,
        baseline_ids=input_ids.masked_fill(token_mask, MASK),
        token_type_ids=torch.zeros(shape, dtype=torch.long),
        word_ids=word_ids,
        index=torch.arange(len(lengths)),
    )


def tiny_classifier(kind: str, *, seed: int = 0, **arguments: Any) -> Any:
    """Returns a random network in eval mode: HFClassifier on TINY_CONFIGS[kind] with 3 classes, or kind "plm_ca".

    Args:
        kind: model type of a TINY_CONFIGS entry, or "plm_ca" for a PLMCA on BERT with 5 classes.
        arguments: replace constructor arguments.
    """
    from lightning_xai.models.hf_classifier import HFClassifier
    from lightning_xai.models.plm_ca import PLMCA

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "plm_ca":
            defaults: dict[str, Any] = {"config": TINY_CONFIGS["bert"], "num_classes": 5, "segment_length": 8}
            model: nn.Module = PLMCA(**(defaults | arguments))
        else:
            defaults = {"config": TINY_CONFIGS[kind], "num_classes": 3}
            model = HFClassifier(**(defaults | arguments))
        with torch.no_grad():
            for parameter in model.parameters():  # as large as trained weights, or every score would be near 0
                if parameter.dim() > 1:
                    parameter.normal_(std=0.3)
                else:
                    parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.fixture
def tiny_hf():
    return tiny_classifier("bert")


@pytest.fixture
def tiny_plm_ca():
    return tiny_classifier("plm_ca")
