"""Invented ICD codes with the phrases that are their evidence, and codes with MDACE's own descriptions."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BEGINS = ("bre", "tra", "olu", "vex", "nami", "corti", "fel", "gro", "hyla", "juna", "kel", "mur", "pso", "quin", "zel")
MIDDLES = ("lo", "ta", "ri", "mo", "ne", "du")
NOUNS = ("itis", "oma", "emia", "osis", "opathy", "algia")
ADJECTIVES = ("nic", "ral", "tic", "vous")
MODIFIERS = ("acute", "chronic", "severe", "left", "bilateral", "recurrent", "mild")


@dataclass(frozen=True)
class Code:
    """An ICD-9 code and its phrases.

    Attributes:
        icd9: the code with its point, as MIMIC-III's billed codes become.
        annotated: the code that charts name; longer than `icd9` if MIMIC-III lacks it.
        icd10: the ICD-10 code that charts name.
        is_procedure: whether the code is a procedure.
        phrases: the evidence; any of them stands for the code.
    """

    icd9: str
    annotated: str
    icd10: str
    is_procedure: bool
    phrases: tuple[str, ...]

    @property
    def raw(self) -> str:
        """The code as MIMIC-III's tables have it."""
        return self.icd9.replace(".", "")


def variants(name: str, modifier: str) -> tuple[str, ...]:
    """Returns ways in which a note may spell a condition of two words."""
    first, last = name.split(" ", 1)
    return (
        name,
        name.capitalize(),
        f"{modifier} {name}",
        f"{last}, {first}",
        f"{first[:4]} {last}",
        f"{name} {modifier}",
    )


def invented_codes(num_codes: int = 50, seed: int = 0) -> list[Code]:
    """Returns codes in MIMIC-III's forms: every fifth is a procedure; some begin with 0, E or V; some are cut."""
    draw = np.random.default_rng(seed)
    pairs = [(b + m + a, c + n) for b in BEGINS for m in MIDDLES for a in ADJECTIVES for c in BEGINS for n in NOUNS]
    chosen = [pairs[i] for i in draw.choice(len(pairs), num_codes, replace=False)]
    codes = []
    for number, (adjective, noun) in enumerate(chosen):
        is_procedure, end = number % 5 == 4, f"{number // 10 % 10}"
        if is_procedure:
            icd9 = f"{number % 90:02}.{end}"
        elif number % 10 in (0, 1):
            icd9 = f"0{number % 90 + 10:02}.{end}"
        elif number % 10 == 2:
            icd9 = f"E{number % 100 + 800}.{end}"
        elif number % 10 == 3:
            icd9 = f"V{number % 80 + 10:02}.{end}"
        else:
            icd9 = f"{number % 700 + 200:03}.{end}"
        annotated = f"{icd9}1" if number % 7 == 3 and not icd9.startswith("E") else icd9
        icd10 = f"{'ABCDEFGHJK'[number % 10]}{number % 90 + 10:02}.{end}"
        phrases = variants(f"{adjective} {noun}", str(draw.choice(MODIFIERS)))
        codes.append(
            Code(icd9, annotated, f"0{icd10.replace('.', '')}ZZ" if is_procedure else icd10, is_procedure, phrases)
        )
    assert len({code.icd9 for code in codes}) == num_codes
    return codes


def described_codes(mdace_dir: Path, num_codes: int = 50) -> list[Code]:
    """Returns the most frequent ICD-9 codes of MDACE's inpatient charts, with their descriptions as phrases."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for path in sorted((mdace_dir / "data" / "Inpatient" / "ICD-9" / "1.0").glob("*.json")):
        for note in json.loads(path.read_text())["notes"]:
            counts.update({(one["code"], one["code_system"], one["description"]) for one in note["annotations"]})
    codes: dict[str, Code] = {}
    for code, system, description in sorted(counts, key=lambda key: (-counts[key], key)):
        words = description.split(", ")
        phrases = tuple(dict.fromkeys((description, description.lower(), words[0], " ".join(reversed(words)))))
        codes.setdefault(code, Code(code, code, code, system == "ICD-9-PCS", phrases))
    return list(codes.values())[:num_codes]
