"""Networks from checkpoints of any objective, Hugging Face folders and released PLM-CA weights, never from pickles."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor
from transformers import AutoConfig
from transformers.utils import cached_file

from lightning_xai.functional.paths import resolve_model_path
from lightning_xai.models.base import Classifier

_HF_CLASSIFIER = "lightning_xai.models.hf_classifier.HFClassifier"
_PLM_CA = "lightning_xai.models.plm_ca.PLMCA"
# names in released weights -> ours
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


def load_network(path: str) -> Classifier:
    """Returns the trained network at `path`, in eval mode, on the CPU; the RNG stays untouched.

    Args:
        path: a .ckpt of any objective, a run folder with checkpoints/best.ckpt (else last.ckpt), a Hugging Face folder,
            hub id or "package:NAME/FOLDER" with a classification head, or a folder of released PLM-CA weights
            (best_model.pt, config.yaml, target_tokenizer.json).

    Raises:
        ValueError: nothing is there, it needs pickled code, or weights and architecture do not fit.
    """
    with torch.random.fork_rng(devices=[]):
        if _is_released(path):
            return _load_released(Path(path)).eval()
        if checkpoint_path(path) is None:
            return _load_huggingface(path).eval()
        checkpoint = read_checkpoint(path)
        network = build_network(checkpoint["network"])
        weights = {
            key.removeprefix("network."): value
            for key, value in checkpoint["state_dict"].items()
            if key.startswith("network.")
        }
        load_weights(network, weights, path)
        return network.eval()


def checkpoint_path(path: str) -> Path | None:
    """Returns the checkpoint file that `path` is, or that the run folder `path` has; None if it is neither.

    Raises:
        ValueError: `path` names a .ckpt or .pt file that does not exist.
    """
    found = Path(path)
    if found.is_file():
        return found
    if found.suffix in (".ckpt", ".pt"):
        raise ValueError(f"{path}: no such checkpoint")
    for name in ("best.ckpt", "last.ckpt"):
        if (found / "checkpoints" / name).is_file():
            return found / "checkpoints" / name
    return None


def read_checkpoint(path: str) -> dict[str, Any]:
    """Returns what a checkpoint file or a run folder's best checkpoint holds.

    Raises:
        ValueError: there is no checkpoint, it needs pickled code, or no objective of this package wrote it.
    """
    found = checkpoint_path(path)
    if found is None:
        raise ValueError(f"{path}: neither a checkpoint nor a run folder with checkpoints/best.ckpt or last.ckpt")
    checkpoint = _read_tensors(found)
    if "network" not in checkpoint or "state_dict" not in checkpoint:
        raise ValueError(
            f"{found}: does not say which network it holds; it was not written by an objective of this suite"
        )
    return checkpoint


def build_network(spec: dict[str, Any]) -> Classifier:
    """Returns a randomly initialized network from {"class_path", "init_args"}.

    Raises:
        ValueError: class_path names no Classifier.
    """
    module_name, _, class_name = spec["class_path"].rpartition(".")
    if not module_name or importlib.util.find_spec(module_name.partition(".")[0]) is None:
        raise ValueError(f"class_path {spec['class_path']!r}: no package of that name is installed")
    network_class = getattr(importlib.import_module(module_name), class_name, None)
    if not (isinstance(network_class, type) and issubclass(network_class, Classifier)):
        raise ValueError(f"class_path {spec['class_path']!r} is not a subclass of Classifier")
    return network_class(**spec["init_args"])


def load_weights(network: Classifier, weights: dict[str, Tensor], path: str | Path) -> None:
    """Copies `weights` into `network`, all of them and nothing missing; compiled networks' names are understood.

    Raises:
        ValueError: a weight is missing, unknown or of another shape (it is named).
    """
    weights = {key.replace("_orig_mod.", ""): value for key, value in weights.items()}
    own = network.state_dict()
    for message, keys in (
        ("has no weights", own.keys() - weights.keys()),
        ("has unknown weights", weights.keys() - own.keys()),
    ):
        if keys:
            raise ValueError(f"{path}: {message} {sorted(keys)[0]} ({len(keys)} in all) for {type(network).__name__}")
    for key, value in weights.items():
        if value.shape != own[key].shape:
            raise ValueError(
                f"{path}: {key} has shape {list(value.shape)}, {type(network).__name__} needs {list(own[key].shape)}"
            )
    network.load_state_dict(weights)


def decision_threshold(path: str) -> float:
    """Returns the probability above which a class is predicted: tuned in training if multi-label, else 0.5."""
    if _is_released(path):
        return float(_read_tensors(Path(path) / "best_model.pt")["db"])
    if checkpoint_path(path) is None:
        return 0.5
    return float(read_checkpoint(path)["state_dict"].get("decision_threshold", 0.5))


def class_names(path: str) -> list[str] | None:
    """Returns the classes in the order of the logits where the files at `path` name them, else None.

    A checkpoint names them if it was trained with a data module.
    """
    if _is_released(path):
        return json.loads((Path(path) / "target_tokenizer.json").read_text())
    if checkpoint_path(path) is not None:
        return read_checkpoint(path).get("class_names")
    names = AutoConfig.from_pretrained(resolve_model_path(path)).id2label
    return [names[i] for i in range(len(names))]


def data_state(path: str) -> dict[str, Any]:
    """Returns what the data module left in the checkpoint at `path`, {} if nothing or if there is none."""
    if _is_released(path) or checkpoint_path(path) is None:
        return {}
    return read_checkpoint(path).get("TextDataModule", {})


def check_class_order(path: str, data_names: list[str]) -> None:
    """Raises a ValueError if the network at `path` has the classes `data_names`, but in another order."""
    names = class_names(path)
    # other names may be other words for the same classes (LABEL_0), but the same names elsewhere are a mistake
    if names is None or sorted(names) != sorted(data_names):
        return
    for place, (one, other) in enumerate(zip(names, data_names, strict=True)):
        if one != other:
            raise ValueError(
                f"class {place} is {one!r} in {path} and {other!r} in the data: give the data's source class_names in "
                "the network's order"
            )


def checkpoint_hash(path: str) -> str:
    """Returns 12 hex digits of the SHA-256 of the checkpoint, or of the weight files of a folder or hub model.

    Raises:
        ValueError: there are no weights.
    """
    file = checkpoint_path(path)
    folder = Path(resolve_model_path(path))
    files = [file] if file else []
    for pattern in ("best_model.pt", "*.safetensors", "*.bin"):
        files = files or sorted(folder.glob(pattern))
    if not files:
        try:
            files = [Path(cached_file(path, "model.safetensors"))]
        except OSError as error:
            raise ValueError(f"{path}: no weights there, nor a model.safetensors on the Hugging Face hub") from error
    digest = hashlib.sha256()
    for name in files:
        with open(name, "rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:12]


def _read_tensors(path: Path) -> dict[str, Any]:
    """Returns a file's tensors and primitives; anything that would run code on loading is an error."""
    try:
        # defaultdict holds optimizer state in files of older torch versions
        with torch.serialization.safe_globals([defaultdict]):
            return torch.load(path, map_location="cpu", weights_only=True)
    # torch raises whatever its unpickler stumbles over, even a KeyError for a text file
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"{path}: not a file of tensors and primitives alone, so it is not loaded ({reason})"
        ) from error


def _load_huggingface(path: str) -> Classifier:
    try:
        config = AutoConfig.from_pretrained(resolve_model_path(path))
    except OSError as error:
        raise ValueError(
            f"{path}: no checkpoint, no run folder with checkpoints, no Hugging Face folder and no hub id"
        ) from error
    if not any(name.endswith("ForSequenceClassification") for name in config.architectures or []):
        raise ValueError(
            f"{path}: no classification head ({config.architectures}): fine-tune it as HFClassifier's path"
        )
    multilabel = config.problem_type == "multi_label_classification"
    arguments = {"path": path, "num_classes": config.num_labels, "multilabel": multilabel}
    return build_network({"class_path": _HF_CLASSIFIER, "init_args": arguments})


def _is_released(path: str) -> bool:
    return (Path(path) / "best_model.pt").is_file()


def released_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns released PLM-CA weights under this package's names.

    Raises:
        ValueError: they are of the authors' other model, without cross-attention.
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


def _load_released(folder: Path) -> Classifier:
    """Returns PLM-CA with released weights; the encoder's config is looked for beside the folder and above it."""
    settings = OmegaConf.load(folder / "config.yaml")
    saved = _read_tensors(folder / "best_model.pt")
    weights = released_weights(saved["model"])
    names = json.loads((folder / "target_tokenizer.json").read_text())
    num_classes = weights["class_queries"].shape[0]
    if len(names) != num_classes:
        raise ValueError(f"{folder}: target_tokenizer.json names {len(names)} classes, best_model.pt has {num_classes}")
    model_path = str(settings.model.configs.model_path)
    places = [Path(model_path), *(parent / model_path for parent in [folder, *folder.resolve().parents])]
    found = next((place for place in places if (place / "config.json").is_file()), None)
    if found is None:
        raise ValueError(
            f"{folder}: its encoder's config is needed: put {model_path}/config.json into this folder or one above it"
        )
    network = build_network(
        {
            "class_path": _PLM_CA,
            "init_args": {
                "path": str(found),
                "num_classes": num_classes,
                "multilabel": True,
                "pretrained": False,
                "segment_length": int(settings.model.configs.get("chunk_size", 128)),
                "mask_mode": "legacy",
            },
        }
    )
    load_weights(network, weights, folder / "best_model.pt")
    return network
