"""Tables and curves of ROAR chains."""

import pandas as pd
import pytest

from lightning_xai.report.roar import read_chains, roar_panels, roar_table
from tests.report.conftest import chain


def test_table_shows_a_row_for_each_method_in_percent():
    rows = [("random", 0, 0.9, False), ("random", 50, 0.8, False), ("random", 100, 0.5, False)]
    rows += [("gradient", 0, 0.9, False), ("gradient", 50, 0.6, False), ("gradient", 50, 0.55, True)]
    frame = pd.DataFrame(rows, columns=["method", "amount", "value", "control"])
    frame = frame.assign(seed=0, split="test", metric="macro_f1", amount_unit="percentage", run="")
    assert roar_table(frame, "macro_f1").splitlines()[1:] == [
        "                       0    50   100",
        "random              90.0  80.0  50.0",
        "gradient            90.0  60.0     -",
        "gradient positions     -  55.0     -",
    ]


def test_wide_table_comes_in_blocks():
    rows = [("integrated_gradients", amount, 1.0, False) for amount in range(0, 101, 5)]
    frame = pd.DataFrame(rows, columns=["method", "amount", "value", "control"])
    frame = frame.assign(seed=0, split="test", metric="macro_f1", amount_unit="percentage", run="")
    lines = [line for line in roar_table(frame, "macro_f1").splitlines()[1:] if line]
    assert max(map(len, lines)) <= 80 and [len(line.split()) for line in lines] == [11, 12, 10, 11]
    assert " ".join(lines[::2]).split() == [str(amount) for amount in range(0, 101, 5)]


def test_folder_without_a_finished_chain_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no seed.*/roar.csv"):
        read_chains([tmp_path], ["macro_f1"], "test")


def test_chain_of_an_old_version_without_a_manifest_is_refused_with_its_file(five_seeds):
    file = five_seeds / "seed3" / "roar.csv"
    file.write_text(
        "seed,measure,percentage,split,metric,value,control,amount_unit\n0,random,0,test,macro_f1,0.9,False,%\n"
    )
    with pytest.raises(ValueError) as caught:
        read_chains([five_seeds], ["macro_f1"], "test")
    assert str(caught.value) == f"{file} has no column method, amount: run the chain again with this version"


def test_unknown_metric_is_refused_with_those_there_are(five_seeds):
    with pytest.raises(ValueError, match="has no results for f1 on test: choose one of macro_f1 on test"):
        read_chains([five_seeds], ["f1"], "test")


def test_two_metrics_for_three_experiments_are_refused(five_seeds):
    with pytest.raises(ValueError, match="2 metrics for 3 experiments"):
        read_chains([five_seeds] * 3, ["accuracy", "macro_f1"], "test")


def test_each_experiment_has_a_panel_of_its_own_metric(tmp_path):
    folders = [
        chain(tmp_path / "sst", gradient=[0.9, 0.5, 0.5]),
        chain(tmp_path / "babi", metric="accuracy", gradient=[0.9, 0.5, 0.5]),
    ]
    panels = roar_panels(read_chains(folders, ["macro_f1", "accuracy"], "test"))
    assert [(panel.title, panel.y_label) for panel in panels] == [("sst", "macro_f1 [%]"), ("babi", "accuracy [%]")]


def test_panel_shows_means_in_percent_and_roles(five_seeds):
    (panel,) = roar_panels(read_chains([five_seeds], ["macro_f1"], "test"))
    roles = {(curve.name, curve.role): curve for curve in panel.curves}
    assert set(roles) == {("random", "reference"), ("gradient", "curve"), ("gradient", "control")}
    assert list(roles["gradient", "curve"].x) == [0, 50, 100]
    assert list(roles["gradient", "curve"].mean) == pytest.approx([90, 65, 50])
