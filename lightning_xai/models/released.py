"""PLM-CA weights as its authors released them: best_model.pt, config.yaml and target_tokenizer.json in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from omegaconf import OmegaConf
from torch import Tensor

from lightning_xai.models.base import Classifier
from lightning_xai.models.loading import build_network, load_weights, read_tensors

_PLM_CA = "lightning_xai.models.plm_ca.PLMCA"
# names in released weights -> names in this package
_RELEASED_NAMES = {
    "roberta_encoder.": "transformer.",
    "label_wise_attention.label_representations": "class_queries",
    "label_wise_attention.weights_k.": "key.",
    "label_wise_attention.weights_v.": "value.",
    "label_wise_attention.layernorm.": "norm.",
    "label_wise_attention.output_linear.": "output.",
}
# left over from the authors' experiments, used by no forward pass
_RELEASED_UNUSED = (
    "label_wise_attention.layernorm_1.",
    "roberta_encoder.pooler.",
    "roberta_encoder.embeddings.position_ids",
)


class Released(NamedTuple):
    """The content of a folder of released weights."""

    network: Classifier
    class_names: list[str]
    decision_threshold: float
    encoder_folder: str  # holds the encoder's config, and may hold a tokenizer


def is_released(path: str | Path) -> bool:
    """Returns whether `path` is a folder of released weights.

    Example:
        >>> is_released("no/such/folder")
        False
    """
    return (Path(path) / "best_model.pt").is_file()


def renamed_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns released PLM-CA weights under this package's names.

    Raises:
        ValueError: the weights belong to PLM-ICD, the authors' model without cross-attention.

    Example:
        >>> import torch
        >>> list(renamed_weights({"_orig_mod.label_wise_attention.weights_k.weight": torch.zeros(2, 2)}))
        ['key.weight']
    """
    renamed = {}
    for key, value in weights.items():
        key = key.replace("_orig_mod.", "")
        if key.startswith(_RELEASED_UNUSED):
            continue
        if "first_linear." in key:
            raise ValueError(
                f"{key}: these are weights of PLM-ICD, which has no cross-attention; only PLM-CA is supported"
            )
        for theirs, ours in _RELEASED_NAMES.items():
            if key.startswith(theirs):
                key = ours + key.removeprefix(theirs)
                break
        renamed[key] = value
    return renamed


def load_released(folder: Path) -> Released:
    """Returns PLM-CA with released weights, its classes and its decision threshold.

    The encoder's config may be in `folder` or in a parent of `folder`.

    Raises:
        ValueError: the encoder's config is missing, weights do not fit, or the number of class names is wrong.
    """
    settings = OmegaConf.load(folder / "config.yaml").model.configs
    saved = read_tensors(folder / "best_model.pt")
    weights = renamed_weights(saved["model"])
    names = json.loads((folder / "target_tokenizer.json").read_text())
    num_classes = weights["class_queries"].shape[0]
    if len(names) != num_classes:
        raise ValueError(f"{folder}: target_tokenizer.json names {len(names)} classes, best_model.pt has {num_classes}")
    encoder = encoder_folder(folder)
    arguments = {
        "path": encoder,
        "num_classes": num_classes,
        "multilabel": True,
        "pretrained": False,
        "segment_length": int(settings.get("chunk_size", 128)),
        "mask_mode": "legacy",
    }
    network = build_network({"class_path": _PLM_CA, "init_args": arguments})
    load_weights(network, weights, folder / "best_model.pt")
    return Released(network, names, float(saved["db"]), encoder)


def encoder_folder(folder: Path) -> str:
    """Returns the folder of the encoder's config: the `model_path` that released weights name.

    The `model_path` is relative to the working directory, to `folder`, or to a parent of `folder`.

    Raises:
        ValueError: the encoder's config is missing.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "config.yaml").write_text("model: {configs: {model_path: .}}")
        >>> _ = (folder / "config.json").write_text("{}")
        >>> Path(encoder_folder(folder)) == folder
        True
    """
    model_path = str(OmegaConf.load(folder / "config.yaml").model.configs.model_path)
    for candidate in [Path(model_path), *(parent / model_path for parent in [folder, *folder.resolve().parents])]:
        if (candidate / "config.json").is_file():
            return str(candidate)
    raise ValueError(
        f"{folder}: the encoder's config is missing: put {model_path}/config.json into this folder or a parent folder"
    )
