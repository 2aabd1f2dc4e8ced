"""Writes folders in the exact layout of the released PLM-CA weights, with random weights."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor, nn
from transformers import RobertaConfig, RobertaModel

# shapes of RoBERTa-base-PM-M3-Voc-hf; tests give it fewer layers
ROBERTA_PM = {
    "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 12,
    "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
}  # fmt: skip
TINY = ROBERTA_PM | {
    "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 300,
}  # fmt: skip
NOTE = "Admission Date:  [**2101-10-20**]\n\nChief Complaint:\nfever, heart failure.\n\nDischarge Disposition: Home\n"
SETTINGS = """\
seed: 0
model:
  name: PLMICD
  configs:
    model_path: models/roberta-base-pm-m3-voc-hf
    chunk_size: {chunk_size}
    cross_attention: true
    scale: 1.0
    mask_input: false
data:
  dataset_name: mimiciii_full
  max_length: 6000
"""


class AuthorsModel(nn.Module):
    """The authors' architecture under their names, with unused parts, for one document at a time."""

    def __init__(self, config: dict[str, Any], num_classes: int, chunk_size: int) -> None:
        super().__init__()
        self.chunk_size = chunk_size
        special: dict[str, Any] = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        self.roberta_encoder = RobertaModel(RobertaConfig(**config, **special), add_pooling_layer=True)
        self.roberta_encoder.set_attn_implementation("eager")  # as in the authors' version of transformers
        size = config["hidden_size"]
        head: Any = nn.Module()
        head.weights_k = nn.Linear(size, size, bias=False)
        head.label_representations = nn.Parameter(0.3 * torch.randn(num_classes, size))
        head.weights_v = nn.Linear(size, size)
        head.output_linear = nn.Linear(size, 1)
        head.layernorm = nn.LayerNorm(size)
        head.layernorm_1 = nn.LayerNorm(size)
        self.label_wise_attention = head

    def forward(self, ids: Tensor) -> Tensor:
        """Returns the logits [C] of token ids [T]: the padding of the last chunk is attended, shifted by a constant."""
        head: Any = self.label_wise_attention
        padding = self.chunk_size - len(ids) % self.chunk_size
        padded = torch.cat([ids, torch.ones(padding, dtype=torch.long)])
        mask = torch.cat([torch.ones(len(ids)), torch.zeros(padding)])
        chunks = padded.view(-1, self.chunk_size), mask.view(-1, self.chunk_size)
        states = self.roberta_encoder(chunks[0], attention_mask=chunks[1]).last_hidden_state.flatten(0, 1)  # [T', D]
        weights = (head.label_representations @ head.weights_k(states).T + 1).softmax(dim=-1)  # [C, T']
        return head.output_linear(head.layernorm(weights @ head.weights_v(states))).squeeze(-1)


def byte_level_tokenizer(folder: Path, vocab_size: int) -> None:
    """Writes vocab.json and merges.txt of a tokenizer trained on NOTE, with <mask> as the last id."""
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([NOTE], vocab_size - 1, special_tokens=["<s>", "<pad>", "</s>", "<unk>"])
    model = json.loads(trained.to_str())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"] | {"<mask>": len(model["vocab"])}))
    merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")


def write_released(
    root: Path,
    *,
    config: dict[str, Any] = TINY,
    codes: list[str] | None = None,
    chunk_size: int = 8,
    settings: dict[str, str] | None = None,
    leave_out: tuple[str, ...] = (),
    **changes: Any,
) -> tuple[Path, AuthorsModel]:
    """Writes models/unsupervised/jdjr2y77 and its encoder's folder, and returns the first folder and the network.

    Args:
        config: shapes of the encoder.
        codes: the classes in the order of the logits, by default five.
        chunk_size: number of tokens in a chunk.
        settings: texts of config.yaml to replace.
        leave_out: entries of best_model.pt to leave out.
        changes: entries of best_model.pt to add or replace.
    """
    codes = ["401.9", "038.9", "99.04", "V10.3", "E849.7"] if codes is None else codes
    model = AuthorsModel(config, len(codes), chunk_size).eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    if config is TINY:
        model(torch.arange(5)).sum().backward()  # so that the optimizer has state
        optimizer.step()
    scaler = {"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000}
    weights = {f"_orig_mod.{name}": value for name, value in model.state_dict().items()}
    weights["_orig_mod.roberta_encoder.embeddings.position_ids"] = torch.arange(514)[None]
    saved = {"model": weights, "optimizer": optimizer.state_dict(), "scaler": scaler, "epoch": 13}
    saved |= {"db": torch.tensor(0.4), "num_classes": len(codes)} | changes
    folder = root / "models" / "unsupervised" / "jdjr2y77"
    folder.mkdir(parents=True)
    torch.save({name: value for name, value in saved.items() if name not in leave_out}, folder / "best_model.pt")
    text = SETTINGS.format(chunk_size=chunk_size)
    for old, new in (settings or {}).items():
        assert old in text
        text = text.replace(old, new)
    (folder / "config.yaml").write_text(text)
    (folder / "target_tokenizer.json").write_text(json.dumps(codes))
    encoder = root / "models" / "roberta-base-pm-m3-voc-hf"
    encoder.mkdir()
    model.roberta_encoder.config.save_pretrained(encoder)
    byte_level_tokenizer(encoder, min(config["vocab_size"], 300))
    return folder, model
