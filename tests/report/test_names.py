"""Names of experiments and runs in tables and pictures."""

from lightning_xai.report.names import experiment_names, run_names


def test_experiments_are_named_below_their_common_folder(tmp_path):
    assert experiment_names([tmp_path / "runs" / "roar"]) == ["roar"]
    assert experiment_names([tmp_path / "sst" / "roar", tmp_path / "babi" / "roar"]) == ["sst/roar", "babi/roar"]


def test_names_begin_below_the_folder_of_all_runs(tmp_path):
    found = run_names([tmp_path / "runs" / "tm" / "seed0", tmp_path / "runs" / "roar" / "ig" / "seed0"])
    assert found == ["tm.seed0", "roar.ig.seed0"]
