"""Sizes of MDACE from its files (oracle E16); those of the movie reviews are in sources/test_eraser."""

import pytest


@pytest.mark.parametrize("kind, sizes", [("ev", [181, 60, 61]), ("code-ev", [47900, 1691, 3131])])
def test_mdace_inpatient_splits(shared, kind, sizes):
    folder = shared / "data" / "mdace" / "splits" / "Inpatient"
    splits = [(folder / f"MDace-{kind}-{split}.csv").read_text().split() for split in ("train", "val", "test")]
    assert [len(ids) for ids in splits] == sizes
    assert len(set().union(*splits)) == sum(sizes)  # no admission in two splits


@pytest.mark.parametrize("kind, count", [("Inpatient/ICD-9", 302), ("Profee/ICD-10", 52)])
def test_mdace_charts(shared, kind, count):
    assert len(list((shared / "data" / "mdace" / "data" / kind / "1.0").glob("*.json"))) == count
