"""Maps annotated codes to classes, and counts the codes that are dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from lightning_xai.data.clinical.codes import cut_to_known, replaced_code


class CodeMap:
    """Maps a code system and a code to the class of the code, or to None if the code is dropped.

    Args:
        systems: the code systems in use; codes of other systems are dropped.
        known: the codes that occur in MIMIC-III. Any other code is shortened by `cut_to_known`, and dropped if that
            fails. If None, no code is shortened, but `replaced_code` replaces some ICD-10 codes.
        classes: the classes of a checkpoint; all other codes are dropped. If None, every code is a class.

    Attributes:
        dropped: reason -> number of annotations or billed codes that were dropped.
        cut: the codes that were shortened.

    Example:
        >>> classes = CodeMap(["ICD-9-CM"], {"404.9"}, None)
        >>> classes("ICD-9-CM", "404.91"), classes("CPT", "31500"), classes.dropped, classes.cut
        ('404.9', None, Counter({'annotations of CPT': 1}), {'404.91'})
    """

    def __init__(
        self, systems: Collection[str], known: Collection[str] | None, classes: Collection[str] | None
    ) -> None:
        self.systems, self.known = systems, known
        self.classes = None if classes is None else set(classes)
        self.dropped: Counter[str] = Counter()
        self.cut: set[str] = set()

    def __call__(self, system: str, code: str) -> str | None:
        if system not in self.systems:
            self.dropped[f"annotations of {system}"] += 1
            return None
        if self.known is None:
            mapped: str | None = replaced_code(code, system)
        else:
            mapped = cut_to_known(code, self.known)
            if mapped is None:
                self.dropped["annotations of codes that MIMIC-III lacks"] += 1
                return None
            if mapped != code:
                self.cut.add(code)
        return mapped if self.is_class(mapped, "annotations") else None

    def billed(self, codes: tuple[str, ...]) -> tuple[str, ...]:
        """Returns an admission's billed codes that are classes, or all its billed codes if `classes` is None."""
        if self.classes is None:
            return codes
        return tuple(code for code in codes if self.is_class(code, "billed codes"))

    def is_class(self, code: str | None, kind: str) -> bool:
        """Returns whether a code is a class. If it is not, the code is counted as dropped."""
        if self.classes is None or code in self.classes:
            return True
        self.dropped[f"{kind} without a class"] += 1
        return False
