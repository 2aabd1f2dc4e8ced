"""MimicMdace: annotated notes in place of their admissions."""

from pathlib import Path

import pytest

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.mdace import Mdace
from lightning_xai.data.sources.mimic import Mimic
from lightning_xai.data.sources.mimic_mdace import MimicMdace
from tests.data.clinical.look_alike import write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def folders(corpus):
    return str(corpus.mimic_dir), str(corpus.mdace_dir)


def joint_source(corpus, lists):
    return MimicMdace(str(corpus.mimic_dir), str(corpus.mdace_dir), lists)


def rows_of(found, split):
    names = found.class_names
    return [{**row, "labels": sorted(names[i] for i in row["labels"])} for row in found.load()[split]]


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_rows_of_mdace_replace_those_of_their_admission(corpus, split):
    joint = joint_source(corpus, corpus.lists)
    annotated, billed = Mdace(*folders(corpus)), Mimic(folders(corpus)[0], corpus.lists)
    lists = annotated.splits
    assert isinstance(lists, dict)
    charts = set(Path(str(lists[split])).read_text().split())
    whole = [(row["id"], row["text"], row["labels"]) for row in rows_of(billed, split) if row["id"] not in charts]
    notes = [(f"note-{row['id']}", row["text"], row["labels"]) for row in rows_of(annotated, split)]
    rows = rows_of(joint, split)
    assert sorted((row["id"], row["text"], row["labels"]) for row in rows) == sorted(whole + notes)
    assert {row["id"].startswith("note-") for row in rows} == {True, False}
    assert all(bool(row["rationales"]) == row["id"].startswith("note-") for row in rows)
    assert sum(joint.report()[i].startswith(f"{split}: ") for i in range(3)) == 1


def test_admissions_are_counted_once(corpus):
    joint = joint_source(corpus, corpus.lists)
    assert joint.report()[0].startswith("train: 12 of 12 listed admissions (published: 47,900)")


def test_several_lists_make_one_split(corpus):
    lists = {"train": corpus.lists["train"], "test": [corpus.lists["validation"], corpus.lists["test"]]}
    joint = joint_source(corpus, lists)
    assert set(joint.load()) == {"train", "test"}
    assert joint.report()[1].startswith("test: 12 of 12 listed admissions")


def test_laws(corpus):
    check_source(joint_source(corpus, corpus.lists))
