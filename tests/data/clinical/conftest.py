"""Folders with the look-alike files of MIMIC-III and MDACE, for tests that change the files."""

import shutil

import pytest

from tests.data.clinical.look_alike import edit_rows, write_corpus
from tests.data.clinical.refusing import PHRASE


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, num_admissions=8, num_codes=8, annotated_fraction=1)
    edit_rows(folder / "mimiciii" / "NOTEEVENTS.csv", lambda row: {**row, "TEXT": f"{row['TEXT']} {PHRASE}\n"})
    return folder


@pytest.fixture
def folder(written, tmp_path):
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path
