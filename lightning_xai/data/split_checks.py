"""Checks the tokens, labels and rationales of splits, and makes the error for a missing split."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from lightning_xai.data.base import Encoder
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.functional.classes.class_names import listed
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.runs.progress import say, unsaid
from lightning_xai.runs.ranks import rank
from lightning_xai.runs.splits import VALIDATION

MOST_UNKNOWN = 0.5  # a larger fraction of unknown tokens in a split is an error


def report_unknown_tokens(splits: Mapping[str, EncodedSplit], encoder: Encoder) -> None:
    """Prints a line with the fraction of unknown tokens in each split. Splits that were reported before are left out.

    Args:
        splits: the splits in use, before erasure.

    Raises:
        ValueError: more than half of the tokens of a split are unknown.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from lightning_xai.data.corpora.cache import write_corpus
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> encoder = VocabularyEncoder(words=95)
        >>> examples = [{"text": "w1 w2", "labels": 0}, {"text": "w1 good", "labels": 1}]
        >>> split = EncodedSplit(write_corpus(Path(tempfile.mkdtemp(), "corpus"), examples, encoder))
        >>> report_unknown_tokens({"test": split}, encoder)
        unknown tokens: test 25.0%
    """
    shares = []
    for name, split in splits.items():
        if encoder.unk_token_id is None or split.unknown_tokens_are_reported:
            continue
        fraction = split.unknown_fraction()
        if fraction > MOST_UNKNOWN:
            raise ValueError(
                f"{fraction:.0%} of the tokens in split {name!r} are unknown to {type(encoder).__name__}: take the "
                "words from the training split (words: null), or choose an encoder for the language and spelling of "
                "the texts"
            )
        shares.append(f"{name} {fraction:.1%}")
        split.unknown_tokens_are_reported = True
    for line in unsaid([f"unknown tokens: {', '.join(shares)}"]) if shares else []:
        say(line)


def warn_of_labels(name: str, split: EncodedSplit, class_names: Sequence[str]) -> None:
    """Warns of problems with the classes of a split: its labels, the names of classes, and rationales.

    Each class needs a training row, class names must differ not only in case or spaces, and the class of a rationale
    must be a label of its row.

    Args:
        name: name of the split. The warnings about classes are issued only for "train".
        split: the split.
        class_names: names of all classes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from lightning_xai.data.corpora.cache import write_corpus
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> example = {"text": "w1", "labels": 0, "id": "a", "rationales": [{"label": 1, "spans": [[0, 2]]}]}
        >>> split = EncodedSplit(write_corpus(Path(tempfile.mkdtemp(), "c"), [example], VocabularyEncoder(words=95)))
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warn_of_labels("test", split, ["no", "yes"])
        >>> for warning in caught:
        ...     print(warning.message)
        split 'test' has 1 rationale of a class that its row lacks (the first in row 0): correct label or rationale
    """
    lines = []
    seen = set(split.classes().tolist()) if name == "train" else range(len(class_names))
    if unseen := [class_name for number, class_name in enumerate(class_names) if number not in seen]:
        lines.append(f"no training row has any of the classes {listed(unseen)}: the network cannot learn these classes")
    if name == "train" and (alike := _alike(class_names)):
        lines.append(
            f"the names of the classes {' and '.join(map(repr, alike))} differ only in case or spaces: if they are one "
            "class, write its name alike in all rows"
        )
    facts = split.corpus.manifest
    if number := facts.get("unlabeled_rationales", 0):
        lines.append(
            f"split {name!r} has {quantity(number, 'rationale')} of a class that its row lacks (the first in row "
            f"{facts['first_unlabeled_rationale']}): correct label or rationale"
        )
    for line in unsaid(lines) if rank() == 0 else []:
        warnings.warn(line, stacklevel=2)


def _alike(class_names: Sequence[str]) -> list[str]:
    """Returns the first names that are equal except for case and spaces; [] if there are none."""
    groups: dict[str, list[str]] = {}
    for name in class_names:
        groups.setdefault("".join(name.casefold().split()), []).append(name)
    return next((group for group in groups.values() if len(group) > 1), [])


def missing_split(name: str, existing: str) -> ValueError:
    """Returns the error about a split `name` that the source lacks; `existing` says which splits it has.

    Example:
        >>> missing_split("dev", "the splits of Files are train, test")
        ValueError("there is no split 'dev': the splits of Files are train, test")
    """
    message = f"there is no split {name!r}: {existing}"
    if name == VALIDATION:
        message += (
            "; add this split to the data, or, to test with presets that tune nothing (such as er), set "
            "data.init_args.tune_on_validation to false"
        )
    return ValueError(message)
