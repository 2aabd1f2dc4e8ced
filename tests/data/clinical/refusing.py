"""Reads changed files of MIMIC-III and MDACE, which must be refused in one line that never quotes a note."""

import re

import pytest

from lightning_xai.data.sources.mdace import Mdace
from lightning_xai.data.sources.mimic import Mimic

PHRASE = "Zanzibar porcupine"  # at the end of every note


def refusal(folder, kind=Mimic, **options):
    """Returns the message with which a source refuses the files of a folder."""
    mimic, mdace = str(folder / "mimiciii"), str(folder / "mdace")
    names = {"train": "train", "validation": "validation", "test": "test"}
    lists = {split: str(folder / "lists" / f"{name}_full_hadm_ids.csv") for split, name in names.items()}
    with pytest.raises(ValueError) as caught:
        folders = [mimic] if kind is Mimic else [mimic, mdace]
        source = kind(*folders, **(options if kind is Mdace else {"splits": lists} | options))
        source.prepare()
        source.load()
    error: BaseException | None = caught.value
    while error is not None:  # also what a traceback shows
        assert not re.search("Zanzibar|porcupine", str(error), re.I)
        error = error.__cause__
    assert "\n" not in str(caught.value)
    return str(caught.value)


def table(folder, name="NOTEEVENTS"):
    return folder / "mimiciii" / f"{name}.csv"
