"""Converts ICD codes: adds the decimal point to MIMIC-III's codes, and shortens or replaces some of MDACE's codes."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

System = Literal["ICD-9-CM", "ICD-9-PCS", "ICD-10-CM", "ICD-10-PCS"]
ICD9: tuple[System, ...] = ("ICD-9-CM", "ICD-9-PCS")
SHORTEST = 3  # smallest number of characters in a code, not counting the decimal point
ICD10_REPLACEMENTS = {
    "F32.A": "F32.9",
    "S02.122A": "S02.19XA",
    "D75.839": "D75.89",
    "F10.139": "F10.10",
    "G90.51": "G90.519",
}


def with_point(code: str, system: System) -> str:
    """Returns a code of MIMIC-III with its decimal point.

    In procedure codes, the point is after 2 characters, in E codes after 4, and in all other codes after 3.

    Example:
        >>> with_point("25000", "ICD-9-CM"), with_point("E8788", "ICD-9-CM"), with_point("3893", "ICD-9-PCS")
        ('250.00', 'E878.8', '38.93')
        >>> with_point("042", "ICD-9-CM")
        '042'
    """
    before = 2 if system == "ICD-9-PCS" else 4 if code.startswith("E") else 3
    return f"{code[:before]}.{code[before:]}" if len(code) > before else code


def replaced_code(code: str, system: str) -> str:
    """Returns the code by which Edin et al. replace an ICD-10 code, or the code itself if they do not replace it.

    Example:
        >>> replaced_code("F32.A", "ICD-10-CM"), replaced_code("I10", "ICD-10-CM")
        ('F32.9', 'I10')
    """
    return ICD10_REPLACEMENTS.get(code, code) if system == "ICD-10-CM" else code


def cut_to_known(code: str, known: Container[str]) -> str | None:
    """Returns the longest prefix of `code` that is a known code of at least 3 characters; None if there is none.

    Args:
        code: a code with its decimal point.
        known: the known codes.

    Example:
        >>> cut_to_known("404.91", {"404.9", "404"}), cut_to_known("404.91", {"404"}), cut_to_known("404.91", {"40"})
        ('404.9', '404', None)
    """
    while len(code.replace(".", "")) >= SHORTEST:
        if code in known:
            return code
        code = code[:-1].removesuffix(".")
    return None


def systems_of_one_version(systems: list[System]) -> str:
    """Returns "ICD-9" or "ICD-10", the version to which all given code systems belong.

    Raises:
        ValueError: there are no systems, a system is repeated, or there are systems of both versions.

    Example:
        >>> systems_of_one_version(["ICD-9-CM", "ICD-9-PCS"])
        'ICD-9'
    """
    versions = sorted({system.rpartition("-")[0] for system in systems})
    if len(versions) != 1 or len(set(systems)) < len(systems):
        raise ValueError(
            f"code_systems is {systems}: name one or two different systems, either of ICD-9 (ICD-9-CM for diagnoses, "
            "ICD-9-PCS for procedures) or of ICD-10"
        )
    return versions[0]


def require_icd9(systems: list[System]) -> None:
    """Checks that MIMIC-III has codes of all given systems.

    Raises:
        ValueError: a system is not of ICD-9.

    Example:
        >>> require_icd9(["ICD-9-CM"])
    """
    if not set(systems) <= set(ICD9):
        raise ValueError(f"code_systems is {systems}, but MIMIC-III has {' and '.join(ICD9)} only: choose from these")
