"""MimicMdace: annotated notes in place of their admissions."""

import json
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


def chart_of_test(corpus):
    """Returns the file of the first chart in the test split, and the chart."""
    admissions = Path(corpus.lists["test"]).read_text().split()
    folder = corpus.mdace_dir / "data" / "Inpatient" / "ICD-9" / "1.0"
    path = next(path for admission in admissions if (path := folder / f"{admission}-ICD-9.json").is_file())
    return path, json.loads(path.read_text())


def without_summaries(chart):
    return {**chart, "notes": [note for note in chart["notes"] if note["category"] != "Discharge summary"]}


def without_annotations(chart):
    return {**chart, "notes": [{**note, "annotations": []} for note in chart["notes"]]}


@pytest.mark.parametrize("edit", [without_summaries, without_annotations])
def test_a_chart_without_annotated_summaries_leaves_the_row_of_its_admission(tmp_path, edit):
    corpus = write_corpus(tmp_path)
    path, chart = chart_of_test(corpus)
    path.write_text(json.dumps(edit(chart)))
    joint = joint_source(corpus, corpus.lists)
    mimic = Mimic(str(corpus.mimic_dir), dict(corpus.lists))
    billed = {row["id"]: row for row in rows_of(mimic, "test")}
    row = next(row for row in rows_of(joint, "test") if row["id"] == str(chart["hadm_id"]))
    assert row["rationales"] == []
    assert (row["text"], row["labels"]) == tuple(billed[row["id"]][key] for key in ("text", "labels"))
    assert "1 charts without an annotated discharge summary" in joint.report()[-1]
    alone = Mdace(*folders(corpus))
    assert all(row["id"] != str(chart["hadm_id"]) for row in rows_of(alone, "test"))
    assert "1 charts without an annotated discharge summary" in alone.report()[-1]


def test_charts_are_counted(tmp_path):
    corpus = write_corpus(tmp_path)
    num_charts = len((corpus.mdace_dir / "splits" / "Inpatient" / "MDace-ev-test.csv").read_text().split())
    joint = joint_source(corpus, corpus.lists)
    assert f"listed admissions (published: 3,131), {num_charts} charts (published: 61), " in joint.report()[2]
    chart_of_test(corpus)[0].unlink()
    joint = joint_source(corpus, corpus.lists)
    assert f"listed admissions (published: 3,131), {num_charts - 1} charts (published: 61), " in joint.report()[2]


def test_several_lists_make_one_split(corpus):
    lists = {"train": corpus.lists["train"], "test": [corpus.lists["validation"], corpus.lists["test"]]}
    joint = joint_source(corpus, lists)
    assert set(joint.load()) == {"train", "test"}
    assert joint.report()[1].startswith("test: 12 of 12 listed admissions")


def test_laws(corpus):
    check_source(joint_source(corpus, corpus.lists))
