"""Tiny random networks and inputs for the whole suite; nothing is downloaded."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import functools  # noqa: E402
import gc  # noqa: E402
import logging  # noqa: E402
import random  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Callable  # noqa: E402
from importlib.metadata import entry_points  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from lightning.fabric.utilities import registry  # noqa: E402

from lightning_xai.functional.laws import CLS, MASK, PAD, SEP, VOCAB_SIZE, random_texts  # noqa: E402
from lightning_xai.functional.model_files.cache_folder import CACHE_VARIABLE, cache_folder  # noqa: E402
from lightning_xai.models.tiny import with_large_weights  # noqa: E402
from tests.network_copies import copies_of  # noqa: E402

torch.set_num_threads(1)

# every Trainer asks for the entry points of all installed packages, which do not change during the tests
vars(registry)["entry_points"] = functools.cache(entry_points)

# in every test, pytest adds handlers to each logger that does not propagate; torch has 60 such loggers
for _name, _logger in logging.root.manager.loggerDict.items():
    if _name.split(".")[0] == "torch" and isinstance(_logger, logging.Logger):
        _logger.propagate = True

# encoded corpora of the tests go into a folder of their own; downloaded data are read from the user's folder
_cache = tempfile.TemporaryDirectory(prefix="lightning_xai-tests-")
for _downloaded in cache_folder(None).glob("vader-*"):
    Path(_cache.name, _downloaded.name).symlink_to(_downloaded)
os.environ[CACHE_VARIABLE] = _cache.name

SHARED = Path(os.environ.get("LIGHTNING_XAI_SHARED", Path(__file__).parents[2] / "shared"))

UNK = 4
__all__ = ["CLS", "MASK", "PAD", "SEP", "UNK", "VOCAB_SIZE", "text_inputs", "tiny_classifier"]
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


def pytest_collection_finish() -> None:
    """Excludes all objects that the imports made from garbage collection, which would take an eighth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def later_collections_are_short():
    """Excludes what earlier modules' tests left from garbage collection, since loading a corpus collects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded():
    """Starts every test with the same seed, so that no test depends on those before it.

    It does what `seed_everything` does, without torch.manual_seed, which formats a stack for each kind of accelerator.
    """
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)
    os.environ |= {"PL_GLOBAL_SEED": "0", "PL_SEED_WORKERS": "0"}


@pytest.fixture
def shared() -> Path:
    """The folder with golden files and corpora outside the project; without it, tests that need it are skipped."""
    if not SHARED.is_dir():
        pytest.skip("needs the golden files and corpora, whose folder LIGHTNING_XAI_SHARED may name")
    return SHARED


text_inputs = random_texts


def tiny_classifier(kind: str, *, seed: int = 0, **arguments: Any) -> Any:
    """Returns a random network in eval mode: HFClassifier on TINY_CONFIGS[kind] with 3 classes, or kind "plm_ca".

    Args:
        kind: model type of a TINY_CONFIGS entry, or "plm_ca" for a PLMCA on BERT with 5 classes.
        arguments: replace constructor arguments.
    """
    if "path" in arguments:  # whose files may have changed since
        return _built(kind, seed, arguments)
    key = repr((kind, seed, sorted(arguments.items())))
    if key not in _COPIES:
        _COPIES[key] = copies_of(_built(kind, seed, arguments))
    return _COPIES[key]()


_COPIES: dict[str, Callable[[], Any]] = {}  # a copy takes a tenth of the time of a build


def _built(kind: str, seed: int, arguments: dict[str, Any]) -> Any:
    from lightning_xai.models.hf_classifier import HFClassifier
    from lightning_xai.models.plm_ca import PLMCA

    if kind == "plm_ca":
        defaults: dict[str, Any] = {"config": TINY_CONFIGS["bert"], "num_classes": 5, "segment_length": 8}
        return with_large_weights(lambda: PLMCA(**(defaults | arguments)), seed=seed)
    defaults = {"config": TINY_CONFIGS[kind], "num_classes": 3}
    return with_large_weights(lambda: HFClassifier(**(defaults | arguments)), seed=seed)


@pytest.fixture
def tiny_hf():
    return tiny_classifier("bert")


@pytest.fixture
def tiny_plm_ca():
    return tiny_classifier("plm_ca")
