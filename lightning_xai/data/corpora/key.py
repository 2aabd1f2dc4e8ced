"""The facts that determine how a source's rows are encoded. The hash of these facts is the encoded corpus's name."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.base import Encoder
from lightning_xai.data.corpora.file_hashes import FileHashes
from lightning_xai.data.corpora.used_code import hash_with_imports
from lightning_xai.data.corpora.writer import CorpusWriter
from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.tokenizers.tokenizer_fingerprint import serialization_hash, tokenizer_fingerprint

LAYOUT = 2  # raise this number whenever the layout of a corpus's files or the meaning of their columns changes
LIBRARIES = ("datasets", "pyarrow", "tokenizers", "transformers")


def key_of(facts: Mapping[str, Any]) -> str:
    """Returns 20 hexadecimal digits: a hash of facts that JSON can represent.

    Example:
        >>> key_of({"split": "train"}) == key_of({"split": "test"})
        False
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]


def source_facts(source: TextSource, hashes: FileHashes) -> dict[str, Any]:
    """Returns facts about a source: its class, the code of its class, its arguments, its files, and its revision.

    Raises:
        ValueError: an argument, or the code of the class, has no hash that is the same in every process.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.sources.planted import Planted
        >>> facts = source_facts(Planted(num_train=8), FileHashes(Path(tempfile.mkdtemp())))
        >>> facts["class_path"], facts["init_args"]["num_train"]
        ('lightning_xai.data.sources.planted.Planted', 8)
    """
    return {
        **_object_facts(source, source.init_args, hashes),
        "files": {str(path): hashes.of(path) for path in source.files()},
        "revision": source.remote_revision(),
    }


def encoder_key_facts(encoder: Encoder) -> dict[str, Any]:
    """Returns facts about an encoder: its class, the code of its class, its arguments, its tokenizer and its state.

    Raises:
        ValueError: an argument, or the code of the class, has no hash that is the same in every process.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoder_key_facts(VocabularyEncoder(words=95))["init_args"]["words"]
        95
    """
    tokenizer = getattr(encoder, "tokenizer", None)
    return {
        **_object_facts(encoder, encoder.init_args, None),
        "fingerprint": None if encoder.needs_fit else encoder.fingerprint(),
        "serialization": serialization_hash(tokenizer) if isinstance(tokenizer, PreTrainedTokenizerFast) else None,
        "learned": encoder.state_dict(),
        "ids": [encoder.pad_token_id, encoder.fill_token_id, encoder.mask_token_id, encoder.unk_token_id],
    }


@cache
def library_facts() -> dict[str, str]:
    """Returns the versions of the libraries in LIBRARIES, and a hash of the code that writes corpora.

    Example:
        >>> sorted(library_facts())
        ['code', 'datasets', 'pyarrow', 'tokenizers', 'transformers']
    """
    return {"code": code_hash(CorpusWriter), **{name: version(name) for name in LIBRARIES}}


def plain_value(value: Any, name: str, hashes: FileHashes | None = None) -> Any:
    """Returns a form of `value` that JSON can represent, and that is the same for equal values in every process.

    Args:
        value: an argument of a source or of an encoder.
        name: name of the argument, for the error message.
        hashes: hashes of files; needed for sources that contain other sources.

    Raises:
        ValueError: there is no such form.

    Example:
        >>> plain_value((Path("a"), 1.5), "Reviews.pairs")
        ['a', 1.5]
        >>> plain_value(object(), "Reviews.rows")
        Traceback (most recent call last):
        ValueError: Reviews.rows is of type object, which cannot be hashed for the cache of encoded data: pass ...
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain_value(item, f"{name}[{i}]", hashes) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return [[plain_value(k, name, hashes), plain_value(v, f"{name}.{k}", hashes)] for k, v in value.items()]
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if isinstance(value, TextSource) and hashes is not None:
        return source_facts(value, hashes)
    if isinstance(value, PreTrainedTokenizerFast):
        return [tokenizer_fingerprint(value), serialization_hash(value)]
    if inspect.isclass(value) or inspect.isfunction(value) and value.__closure__ is None:
        part: Any = value
        return [f"{part.__module__}.{part.__qualname__}", code_hash(part)]
    raise ValueError(
        f"{name} is of type {type(value).__name__}, which cannot be hashed for the cache of encoded data: pass "
        "numbers, strings, lists or dicts to the class, and let the class build the object from these"
    )


@cache  # the first result stays valid: the process runs the same code even if the file changes later
def code_hash(part: Any) -> str:
    """Returns a hash of the file that defines a class or function, and of the files of this package that it imports.

    A file counts as imported even if only another imported file imports it.

    Raises:
        ValueError: the source code is missing, or uses variables of an enclosing function.

    Example:
        >>> code_hash(FileHashes) == code_hash(TextSource)  # they are in different files
        False
    """
    name = f"{part.__module__}.{part.__qualname__}"
    if "<locals>" in part.__qualname__ and (variables := _closure_variables(part)):
        raise ValueError(
            f"{name} uses variables of the function around it ({', '.join(sorted(variables))}), so its code "
            "cannot be hashed for the cache of encoded data: pass these variables to the constructor"
        )
    try:
        file = inspect.getsourcefile(part)
        code = Path(file).read_text(encoding="utf-8") if file and Path(file).is_file() else inspect.getsource(part)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"{name} has no source code that can be hashed for the cache of encoded data: define it in a file"
        ) from error
    return hash_with_imports(code)


def _closure_variables(part: Any) -> set[str]:
    """Returns the names of the variables that a class or function takes from the function around it."""
    functions = vars(part).values() if inspect.isclass(part) else [part]
    functions = [getattr(one, "fget", None) or getattr(one, "__func__", None) or one for one in functions]
    return {name for one in functions if inspect.isfunction(one) for name in one.__code__.co_freevars} - {"__class__"}


def _object_facts(part: Any, arguments: Mapping[str, Any], hashes: FileHashes | None) -> dict[str, Any]:
    cls = type(part)
    classes = [one for one in cls.__mro__ if one.__module__ not in ("abc", "builtins", "typing")]
    return {
        "class_path": f"{cls.__module__}.{cls.__qualname__}",
        "code": [code_hash(one) for one in classes],
        "init_args": {name: plain_value(value, f"{cls.__name__}.{name}", hashes) for name, value in arguments.items()},
    }
