"""RACU over seeds and experiments, its table and the files of the report."""

import math

import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_xai.report.intervals import with_intervals
from lightning_xai.report.racu import racu_by_seed, racu_table, write_racu_report
from lightning_xai.report.roar import read_chains
from tests.report.conftest import chain

KEYS = ["experiment", "method", "quantity"]


def summary_of(*folders):
    return with_intervals(racu_by_seed(read_chains(folders, ["macro_f1"], "test")), KEYS)


def test_summary_has_mean_and_interval_over_seeds(five_seeds):  # oracle E7: [.1, .2, .3, .4, .5] -> [.18, .42]
    row = summary_of(five_seeds).query("quantity == 'racu'").iloc[0]
    assert [row["mean"], row["low"], row["high"]] == pytest.approx([0.3, 0.18, 0.42], abs=1e-9)
    assert row["num_seeds"] == 5


def test_control_is_reported_as_leakage(five_seeds):  # 0.5 * 0.1 over 0.25
    row = summary_of(five_seeds).query("quantity == 'leakage'").iloc[0]
    assert row["mean"] == pytest.approx(0.2)


def test_random_baseline_has_no_racu_of_its_own(five_seeds):
    assert set(summary_of(five_seeds)["method"]) == {"gradient"}


def test_racu_is_of_each_seeds_own_baseline(tmp_path):
    chain(tmp_path / "roar", 0, gradient=[0.9, 0.5, 0.5])
    chain(tmp_path / "roar", 1, random=[0.9, 0.9, 0.7], gradient=[0.9, 0.9, 0.7])
    by_seed = racu_by_seed(read_chains([tmp_path / "roar"], ["macro_f1"], "test"))
    assert by_seed["value"].tolist() == pytest.approx([0.6, 0])


def test_table_shows_distances_to_the_ends_in_percent(five_seeds):
    cells = [line.split() for line in racu_table(summary_of(five_seeds)).splitlines()]
    assert ["gradient", "30.0", "+12.0", "-12.0"] in cells and ["seeds", "5"] in cells


def test_one_seed_is_shown_without_an_interval(tmp_path):
    table = racu_table(summary_of(chain(tmp_path / "roar", gradient=[0.9, 0.5, 0.5])))
    assert "60.0" in table and "+" not in table


def test_undefined_racu_is_a_dash_with_a_reason(tmp_path):
    flat = [0.5, 0.5, 0.5]
    table = racu_table(summary_of(chain(tmp_path / "roar", random=flat, gradient=flat)))
    assert ["gradient", "-"] in [line.split() for line in table.splitlines()]
    assert "undefined, because there is a seed in which random erasures" in table


def test_undefined_seed_is_not_skipped(tmp_path):
    chain(tmp_path / "roar", 0, gradient=[0.9, 0.5, 0.5])
    chain(tmp_path / "roar", 1, random=[0.5] * 3, gradient=[0.5] * 3)
    assert math.isnan(summary_of(tmp_path / "roar")["mean"].item())


def test_curve_of_losses_has_the_racu_of_scores(tmp_path):
    chain(tmp_path / "a", metric="log_loss", random=[0.1, 0.2, 0.5], gradient=[0.1, 0.5, 0.5])
    rows = read_chains([tmp_path / "a"], ["log_loss"], "test")
    assert racu_by_seed(rows)["value"].item() == pytest.approx(0.6)  # oracle E7 with 1 - score


def test_method_of_fewer_seeds_shows_in_the_number_of_seeds(tmp_path):
    chain(tmp_path / "a", 0, gradient=[0.9, 0.6, 0.5], ig=[0.9, 0.7, 0.5])
    chain(tmp_path / "a", 1, gradient=[0.9, 0.6, 0.5])
    assert ["seeds", "1", "to", "2"] in [line.split() for line in racu_table(summary_of(tmp_path / "a")).splitlines()]


def test_table_is_at_most_80_columns_wide_for_many_experiments(tmp_path):
    folders = [
        chain(tmp_path / f"a_rather_long_experiment_name_{i}", integrated_gradients=[0.9, 0.5, 0.5]) for i in range(6)
    ]
    table = racu_table(summary_of(*folders))
    assert max(map(len, table.splitlines())) <= 80
    assert table.count("60.0") == 6


def test_curve_without_all_points_is_refused(tmp_path):
    folder = chain(tmp_path / "roar", gradient=[0.9, 0.5, 0.5])
    file = folder / "seed0" / "roar.csv"
    rows = pd.read_csv(file)
    rows[(rows["method"] != "gradient") | (rows["amount"] != 50)].to_csv(file, index=False)
    with pytest.raises(ValueError, match="seed 0: gradient has results at"):
        summary_of(folder)


def test_one_token_chains_have_curves_but_no_racu(tmp_path):
    folder = chain(tmp_path / "roar", amount_unit="token", amounts=(0, 1, 2), gradient=[0.9, 0.7, 0.6])
    printed = write_racu_report([folder], tmp_path / "report", metrics=["macro_f1"])
    assert "RACU" not in printed and (tmp_path / "report" / "roar.png").is_file()


@pytest.mark.slow
def test_report_writes_its_files_and_one_events_file(five_seeds, tmp_path):
    for _ in range(2):
        write_racu_report([five_seeds], tmp_path / "report", metrics=["macro_f1"], events=tmp_path / "events")
    assert {file.name for file in (tmp_path / "report").iterdir()} == {"racu.csv", "racu_seeds.csv", "roar.png"}
    (file,) = (tmp_path / "events").iterdir()
    events = EventAccumulator(str(file), size_guidance={"images": 0}).Reload()
    assert events.Tags()["images"] == ["roar/test"]
