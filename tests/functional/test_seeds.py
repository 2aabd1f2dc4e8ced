import csv

import pytest

from lightning_xai.functional.seeds import mean_and_std


def column(folders, file, method, name, **where):
    values = []
    for folder in folders:
        for run in sorted(path for path in folder.iterdir() if path.is_dir()):
            for row in csv.DictReader((run / file).open()):
                if row["explainability_method"] == method and all(row[k] == v for k, v in where.items()):
                    values.append(float(row[name]))
    return values


# oracle E1, tables 2, 7 and 8 of Edin et al. (2024)
@pytest.mark.parametrize(
    "sweeps, method, name, expected",
    [
        (["unsupervised_sweep"], "laat", "f1", (36.62, 5.30)),
        (["unsupervised_sweep"], "laat", "auprc", (31.41, 6.39)),
        (["unsupervised_sweep"], "laat", "iou", (39.27, 6.90)),
        (["supervised_sweep"], "laat", "f1", (42.19, 3.70)),
    ],
)
def test_published_tables_follow_from_the_published_runs(shared, sweeps, method, name, expected):
    folders = [shared / "golden" / "edin_results" / sweep for sweep in sweeps]
    values = column(folders, "plausibility_and_sparsity.csv", method, name, prediction_split="all")
    assert [round(100 * number, 2) for number in mean_and_std(values)] == pytest.approx(expected, abs=0.011)


def test_sample_deviation_divides_by_one_less():
    assert mean_and_std([1.0, 3.0], population=False) == pytest.approx((2.0, 2**0.5))
    assert mean_and_std([1.0, 3.0]) == (2.0, 1.0)


def test_one_seed_has_no_spread():
    assert mean_and_std([0.25]) == (0.25, 0.0)


def test_no_seed_is_refused():
    with pytest.raises(ValueError, match="no values"):
        mean_and_std([])
