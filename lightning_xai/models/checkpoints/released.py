"""PLM-CA weights in the form in which the authors released them: best_model.pt, config.yaml, target_tokenizer.json."""

from __future__ import annotations

import codecs
import json
import string
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from lightning_xai.functional.classes.class_names import listed
from lightning_xai.functional.model_files.downloads import download_of
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.loading import build_network, load_weights, read_tensors
from lightning_xai.models.checkpoints.released_settings import ARCHIVE, CLASSES, WEIGHTS, released_settings
from lightning_xai.runs.encoder_facts import tokenizer_at

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
# weights that no forward pass uses; they are left over from the authors' experiments
_RELEASED_UNUSED = (
    "label_wise_attention.layernorm_1.",
    "roberta_encoder.pooler.",
    "roberta_encoder.embeddings.position_ids",
)
# bytes before the first character of a text: white space and the marks of UTF-8 and UTF-16
_BEFORE_TEXT = codecs.BOM_UTF8 + codecs.BOM_UTF16 + b"\x00" + string.whitespace.encode()


class Released(NamedTuple):
    """The content of a folder of released PLM-CA weights.

    Differs: in the authors' code, classes also attend to all padding of a batch. Here they attend only to the padding
    of the text's last segment, as in the authors' code with a batch of one document.
    """

    network: Classifier
    class_names: list[str]
    decision_threshold: float


def is_released(path: str | Path) -> bool:
    """Returns whether `path` is a folder of released weights.

    Example:
        >>> is_released("no/such/folder")
        False
    """
    return (Path(path) / WEIGHTS).is_file()


def renamed_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns released PLM-CA weights under their names in this package. Weights that are never used are left out.

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
                f"{key} belongs to PLM-ICD, which has no cross-attention: only weights of PLM-CA are supported"
            )
        for theirs, ours in _RELEASED_NAMES.items():
            if key.startswith(theirs):
                key = ours + key.removeprefix(theirs)
                break
        renamed[key] = value
    return renamed


def load_released(folder: Path) -> Released:
    """Returns PLM-CA with released weights, its classes and its decision threshold.

    The encoder's config may be in one of several folders, see `encoder_folder`.

    Raises:
        ValueError: a file is missing or damaged, the weights do not match the architecture, or the classes or the
            threshold are invalid.
    """
    saved = _read_weights(folder / WEIGHTS)
    weights = renamed_weights(saved["model"])
    if "class_queries" not in weights:
        raise ValueError(f"{folder / WEIGHTS} has no label_wise_attention.label_representations: give PLM-CA weights")
    names = read_classes(folder / CLASSES)
    num_classes = weights["class_queries"].shape[0]
    if len(names) != num_classes:
        raise ValueError(f"{folder}: {CLASSES} names {quantity(len(names), 'class')}, but {WEIGHTS} has {num_classes}")
    arguments = {
        "path": encoder_folder(folder),
        "num_classes": num_classes,
        "multilabel": True,
        "pretrained": False,
        "segment_length": released_settings(folder).segment_length,
        "mask_mode": "legacy",
    }
    network = build_network({"class_path": _PLM_CA, "init_args": arguments})
    load_weights(network, weights, folder / WEIGHTS)
    return Released(network, names, _threshold(saved, folder / WEIGHTS))


def read_classes(file: Path) -> list[str]:
    """Returns the class names of released weights, in the order of the logits.

    Raises:
        ValueError: the file is missing, is not a list of strings, or names a class twice.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), CLASSES)
        >>> _ = file.write_text('["401.9", "038.9", "401.9"]')
        >>> read_classes(file)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: .../target_tokenizer.json names ['401.9'] twice: each class needs a name of its own
    """
    if not file.is_file():
        raise ValueError(f"{file}, which has the order of the classes, is missing: copy it from {ARCHIVE}")
    try:
        names = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not a JSON file: copy it again from {ARCHIVE}") from error
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"{file} is not a list of class names: copy it again from {ARCHIVE}")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"{file} names {listed(repeated)} twice: each class needs a name of its own")
    return names


def _read_weights(file: Path) -> dict[str, Any]:
    """Returns the content of best_model.pt."""
    with file.open("rb") as stream:
        head = stream.read(512)
    if head.lstrip(_BEFORE_TEXT).startswith(b"<"):
        raise ValueError(
            f"{file} is a web page instead of weights: open it in a browser, confirm the download there, and replace it"
        )
    if head.startswith(b"PK") and not zipfile.is_zipfile(file) or not head:
        raise ValueError(f"{file} is cut off after {file.stat().st_size:,} bytes: download it again")
    saved = read_tensors(file)
    weights = saved.get("model") if isinstance(saved, dict) else None
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(weight, Tensor) for name, weight in weights.items()
    ):
        raise ValueError(
            f"{file} has no entry 'model' with the names and tensors of weights: use the file from {ARCHIVE}"
        )
    return saved


def _threshold(saved: dict[str, Any], file: Path) -> float:
    """Returns the decision threshold of released weights."""
    if "db" not in saved:
        raise ValueError(f"{file} has no entry 'db', the threshold for codes: give a file with a tuned threshold")
    given = saved["db"]
    if isinstance(given, Tensor) and given.numel() == 1 and not given.is_complex():
        given = given.item()
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise ValueError(f"{file}: the threshold 'db' for codes is not a number: use the file from {ARCHIVE}")
    threshold = float(given)
    if not 0 <= threshold <= 1:  # also refuses NaN
        raise ValueError(f"{file}: the threshold 'db' for codes is {threshold}, not in [0, 1]: tune it again")
    return threshold


def released_encoder(folder: Path) -> dict[str, Any]:
    """Returns facts about the text encoder of released weights: its tokenizer, and the length to which it cuts texts.

    Raises:
        ValueError: config.yaml is invalid, or the encoder's config is missing.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "config.yaml").write_text("{model: {configs: {model_path: .}}, data: {max_length: 4000}}")
        >>> _ = (folder / "config.json").write_text("{}")
        >>> released_encoder(folder)["init_args"]["max_length"]
        4000
    """
    facts = tokenizer_at(encoder_folder(folder))
    return facts | {"init_args": {**facts["init_args"], "max_length": released_settings(folder).max_length}}


def encoder_folder(folder: Path) -> str:
    """Returns the folder that holds the encoder's config, for released weights in `folder`.

    The setting `model_path` in config.yaml is the path of the encoder's folder. It may be relative to the working
    directory, to `folder`, or to a parent of `folder`.

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
    model_path = released_settings(folder).model_path
    for candidate in [Path(model_path), *(parent / model_path for parent in [folder, *folder.resolve().parents])]:
        if (candidate / "config.json").is_file():
            return str(candidate)
    raise ValueError(
        f"{folder}: the encoder's config is missing: {download_of(model_path)}put {model_path}/config.json into this "
        "folder or a parent folder"
    )
