"""Facts about the encoder with which a network was trained or token positions were stored, and checks of such facts.

Facts are a dictionary of plain values. The encoder can be rebuilt from `class_path` and `init_args`. `vocab_size` is
its number of token ids, and `fingerprint` is a hash of its tokenization. If the encoder built a vocabulary from texts,
`learned` is this vocabulary. If the encoder has a prompt, `prompt` is a hash of the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lightning_xai.runs.progress import say
from lightning_xai.runs.stores.store import is_store, read_metadata

EncoderFacts = Mapping[str, Any]
TOKENIZER_ENCODER = "lightning_xai.data.encoding.TokenizerEncoder"
# arguments of an encoder that change which tokens are cut off, explained or erased, but not the meaning of token ids
OPTIONS = ("max_length", "fill", "explain_pair")


def tokenizer_at(path: str) -> dict[str, Any]:
    """Returns the `class_path` and `init_args` of an encoder that loads its tokenizer from a folder or a hub id.

    Example:
        >>> tokenizer_at("models/bert")["init_args"]
        {'path': 'models/bert'}
    """
    return {"class_path": TOKENIZER_ENCODER, "init_args": {"path": path}}


def is_plain(value: Any) -> bool:
    """Returns whether a value contains only None, strings, numbers, booleans, lists and dictionaries with string keys.

    Example:
        >>> is_plain({"words": ["a", "b"]}), is_plain({"tokenizer": object()})
        (True, False)
    """
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return isinstance(value, str | int | float | bool | None)


def short_facts(facts: EncoderFacts) -> dict[str, Any]:
    """Returns the facts without long lists of words.

    Some files serve only to compare encoders, never to build an encoder. They store these short facts.

    Example:
        >>> short_facts({"fingerprint": "12ab", "init_args": {"words": ["a", "b"], "fill": "mask"}})
        {'fingerprint': '12ab', 'init_args': {'fill': 'mask'}}
    """
    kept = {name: value for name, value in facts.items() if name != "learned"}
    return kept | {"init_args": {k: v for k, v in facts["init_args"].items() if not isinstance(v, list | dict)}}


def encoder_name(facts: EncoderFacts) -> str:
    """Returns a short description of an encoder for messages.

    Example:
        >>> path = {"path": "models/bert"}
        >>> encoder_name({"class_path": "a.b.Words", "init_args": path, "vocab_size": 9, "fingerprint": "12ab"})
        'Words models/bert (9 ids, fingerprint 12ab)'
    """
    name = facts["class_path"].rpartition(".")[2]
    path = facts["init_args"].get("path")
    return f"{name}{f' {path}' if path else ''} ({facts['vocab_size']} ids, fingerprint {facts['fingerprint']})"


def changed_options(stored: EncoderFacts, current: EncoderFacts) -> str:
    """Returns, as text, which of max_length, fill and explain_pair differ between two encoders; "" if none differs.

    If an encoder has a prompt, the hashes of the two prompts are compared too.

    Example:
        >>> before, now = ({"init_args": {"max_length": length, "fill": "mask"}} for length in (128, 512))
        >>> changed_options(before, now)
        'max_length was 128, now 512'
    """
    both = [name for name in OPTIONS if name in stored["init_args"] and name in current["init_args"]]
    values = {name: (stored["init_args"][name], current["init_args"][name]) for name in both}
    if "prompt" in stored or "prompt" in current:
        values["prompt"] = (stored.get("prompt", "none"), current.get("prompt", "none"))
    return ", ".join(f"{name} was {old}, now {new}" for name, (old, new) in values.items() if old != new)


def check_network_encoder(stored: EncoderFacts | None, current: EncoderFacts, path: str) -> None:
    """Raises ValueError unless the data use the tokenizer with which a network was trained.

    Prints a warning if the fingerprint of the network's tokenizer is unknown, or if the encoders differ in their
    prompts, `max_length`, `fill` or `explain_pair`. The same warning is printed only once.

    Args:
        stored: facts about the network's encoder; None if unknown.
        current: facts about the encoder of the data.
        path: path of the network, for messages.

    Raises:
        ValueError: the tokenizers differ.

    Example:
        >>> now = {"class_path": "Words", "init_args": {"max_length": 9}, "vocab_size": 9, "fingerprint": "12ab"}
        >>> check_network_encoder(now, now, "runs/tm/seed0")
        >>> check_network_encoder(None, now, "old.ckpt")
        old.ckpt has no fingerprint of its tokenizer, so the tokenizer of the data cannot be checked
        >>> check_network_encoder({**now, "fingerprint": "34cd"}, now, "my.ckpt")
        Traceback (most recent call last):
        ValueError: my.ckpt was trained with Words (9 ids, fingerprint 34cd), but the encoder of the data is ...
    """
    if stored is None or stored.get("fingerprint") is None:
        _say_once(f"{path} has no fingerprint of its tokenizer, so the tokenizer of the data cannot be checked")
        return
    if stored["fingerprint"] != current["fingerprint"]:
        raise ValueError(
            f"{path} was trained with {encoder_name(stored)}, but the encoder of the data is {encoder_name(current)}: "
            f"{_remedy(stored, current)}"
        )
    if changed := changed_options(stored, current):
        _say_once(f"{path} was trained with other options of the encoder: {changed}")


def check_positions(stored: EncoderFacts | None, current: EncoderFacts, folder: str) -> None:
    """Raises ValueError unless stored token positions are valid for the encoder of the data.

    Args:
        stored: facts about the encoder whose token positions are stored; None if unknown, in which case the positions
            are assumed to be valid.
        current: facts about the encoder of the data.
        folder: folder of the stored positions.

    Raises:
        ValueError: the encoders differ in their tokenizers, prompts, `max_length`, `fill` or `explain_pair`.

    Example:
        >>> now = {"class_path": "Words", "init_args": {"max_length": 9}, "vocab_size": 9, "fingerprint": "12ab"}
        >>> check_positions({**now, "init_args": {"max_length": 5}}, now, "erasures")
        Traceback (most recent call last):
        ValueError: erasures has token positions of another encoder: max_length was 5, now 9; restore the old ...
    """
    if stored is None:
        return
    if stored["fingerprint"] != current["fingerprint"]:
        changed = f"{encoder_name(stored)}, now {encoder_name(current)}"
    else:
        changed = changed_options(stored, current)
    if changed:
        raise ValueError(
            f"{folder} has token positions of another encoder: {changed}; restore the old encoder, or remove the "
            "folder and write it again"
        )


def encoder_metadata(store: Path, current: EncoderFacts) -> dict[str, Any]:
    """Returns the part of a store's metadata that describes the encoder, as {"encoder": facts}.

    If the store does not exist yet, the facts are the `short_facts` of the current encoder. If it exists, the facts are
    those in its metadata, or {} if an older version of this package wrote the store without facts.

    Args:
        store: folder of the store, which may exist.
        current: facts about the encoder whose token positions are to be stored.

    Raises:
        ValueError: the store has token positions of another encoder.

    Example:
        >>> facts = {"class_path": "Words", "init_args": {"words": ["a"]}, "vocab_size": 6, "fingerprint": "12ab"}
        >>> encoder_metadata(Path("no/such/store"), facts)
        {'encoder': {'class_path': 'Words', 'init_args': {}, 'vocab_size': 6, 'fingerprint': '12ab'}}
    """
    if not is_store(store):
        return {"encoder": short_facts(current)}
    before = read_metadata(store).get("encoder")
    check_positions(before, current, str(store))
    return {} if before is None else {"encoder": before}


def _remedy(stored: EncoderFacts, current: EncoderFacts) -> str:
    """Returns advice on how to encode the data with a network's tokenizer."""
    path = stored["init_args"].get("path")
    if not path:
        return "use the encoder in the config.yaml of the network's run for the data"
    if path == current["init_args"].get("path"):
        return "the files at this path have changed since the training, so restore the earlier files"
    if "path" in current["init_args"]:
        return f"remove the path of the data's encoder, or set this path to {path}"
    if stored["class_path"] == TOKENIZER_ENCODER:
        return "give --data.init_args.encoder TokenizerEncoder, which takes the network's tokenizer"
    return f"set the class_path of the data's encoder to {stored['class_path']} and its path to {path}"


@cache
def _say_once(message: str) -> None:
    say(message)
