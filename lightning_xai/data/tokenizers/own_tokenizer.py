"""Finds and checks the tokenizer that is stored with a network's weights, in a folder or on the Hugging Face hub."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache
from transformers import CONFIG_MAPPING, AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from lightning_xai.data.tokenizers.tokenizer_fingerprint import tokenizer_fingerprint
from lightning_xai.functional.model_files.class_ids import check_class_ids
from lightning_xai.functional.model_files.model_folders import is_hub_id, resolve_model_path
from lightning_xai.runs.encoder_facts import TOKENIZER_ENCODER, EncoderFacts, check_network_encoder, tokenizer_at

# every tokenizer has at least one of these files; if all are missing, transformers silently creates a tokenizer with
# an empty vocabulary
FILES = (
    "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model",
    "tokenizer.model", "spm.model", "tekken.json",
)  # fmt: skip


def has_tokenizer(path: str) -> bool:
    """Returns whether a folder, "package:NAME/FOLDER" or the local copy of a hub model contains tokenizer files.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     before = has_tokenizer(folder)
        ...     _ = Path(folder, "vocab.txt").write_text("[PAD]")
        ...     before, has_tokenizer(folder)
        (False, True)
    """
    location = Path(resolve_model_path(path))
    if location.exists():
        return any((location / name).is_file() for name in FILES)
    return any(try_to_load_from_cache(path, name) for name in FILES) if is_hub_id(path) else False


def load_tokenizer(path: str, *, trust_remote_code: bool = False) -> Any:
    """Returns the tokenizer at a path: a folder, a hub id, or "package:NAME/FOLDER".

    Args:
        trust_remote_code: whether Python code in the folder may run. If False, it does not run, and transformers does
            not ask the user.

    Raises:
        ValueError: there is no tokenizer, its files cannot be read, or it needs Python code that must not run.

    Example:
        >>> load_tokenizer("no/such/folder")
        Traceback (most recent call last):
        ValueError: there is no no/such/folder: give a model folder or a hub id
    """
    none = f"{path} has no tokenizer: give the folder or hub id of a model with a tokenizer.json"
    location = resolve_model_path(path)
    if not (is_hub_id(path) or has_tokenizer(path)):
        raise ValueError(none)
    try:
        config = _config_without_classes(location)
        tokenizer = AutoTokenizer.from_pretrained(location, config=config, trust_remote_code=trust_remote_code)
    except OSError as error:
        raise ValueError(f"{none} (transformers says: {str(error).strip().splitlines()[0]})") from error
    except Exception as error:  # for unreadable files, the library `tokenizers` raises Exception, not a subclass
        if "trust_remote_code" not in str(error):
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{path}: the tokenizer cannot be loaded ({reason}): download the files of the tokenizer again"
            ) from error
        raise ValueError(
            f"{path}: the tokenizer needs Python code from its folder, which was not run: set "
            "trust_remote_code: true if you trust this code"
        ) from error
    if not has_tokenizer(path):  # transformers has created an empty tokenizer
        raise ValueError(none)
    return tokenizer


def _config_without_classes(path: str) -> PreTrainedConfig | None:
    """Returns a model's configuration without its class names; None if transformers can read the class names.

    A tokenizer needs no class names. A network that needs them raises an error when its configuration is read.
    """
    file = Path(path, "config.json")
    if is_hub_id(path):
        cached = try_to_load_from_cache(path, "config.json")
        file = Path(cached) if isinstance(cached, str) else file
    try:
        check_class_ids(file, path)
    except ValueError:
        settings = json.loads(file.read_text(encoding="utf-8"))
        kept = {name: value for name, value in settings.items() if name not in ("id2label", "label2id", "num_labels")}
        known = kept.get("model_type") in CONFIG_MAPPING
        return AutoConfig.for_model(**kept) if known else PreTrainedConfig(**kept)
    return None


@cache
def own_tokenizer_facts(path: str) -> dict[str, Any] | None:
    """Returns facts about the tokenizer stored with a network, in the format of `Encoder.facts`.

    Returns None if there is no tokenizer, if it cannot be loaded, or if it is a slow tokenizer.

    Args:
        path: folder, hub id or "package:NAME/FOLDER" of the network.

    Example:
        >>> print(own_tokenizer_facts("no/such/folder"))
        None
    """
    try:
        tokenizer = load_tokenizer(path)
    except ValueError:
        return None
    if not isinstance(tokenizer, PreTrainedTokenizerFast):  # slow tokenizers have no offsets, which encoders need
        return None
    facts = {"vocab_size": len(tokenizer), "fingerprint": tokenizer_fingerprint(tokenizer)}
    return tokenizer_at(path) | facts


def check_own_tokenizer(stored: EncoderFacts | None, current: EncoderFacts, path: str) -> None:
    """Checks that the data use the tokenizer with which a network was trained.

    Prints a warning if the network's tokenizer is unknown, or if the encoders differ in one of `encoder_facts.OPTIONS`.
    The same warning is printed only once.

    Args:
        stored: facts about the network's encoder. If they lack a fingerprint (as for a Hugging Face folder), the
            network's tokenizer is loaded for the comparison, unless the encoder of the data has the same path.
        current: facts about the encoder of the data.
        path: path of the network, for messages.

    Raises:
        ValueError: the tokenizers differ.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> small, large = (VocabularyEncoder(words=size).facts() for size in (3, 4))
        >>> check_own_tokenizer(small, large, "runs/tm/seed0")
        Traceback (most recent call last):
        ValueError: runs/tm/seed0 was trained with VocabularyEncoder (8 ids, fingerprint ...), but the encoder of ...
    """
    if stored is not None and "fingerprint" not in stored and stored.get("class_path") == TOKENIZER_ENCODER:
        tokenizer_path = stored["init_args"]["path"]
        same = current["class_path"] == TOKENIZER_ENCODER and current["init_args"]["path"] == tokenizer_path
        # if network and data take the tokenizer from the same path, it need not be loaded again
        stored = current if same else own_tokenizer_facts(tokenizer_path)
    check_network_encoder(stored, current, path)
