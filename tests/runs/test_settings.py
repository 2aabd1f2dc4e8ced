"""Which settings of a configuration a run's numbers depend on."""

from pathlib import Path

from lightning_xai.runs.settings import hash_of_test_data, run_settings


def test_settings_compare_what_numbers_depend_on():
    config = {
        "runs_dir": "a", "config": ["x"], "trainer": {"max_epochs": 2, "enable_progress_bar": False},
        "data": {"sizes": [1, 2], "path": Path("p")},
    }  # fmt: skip
    assert run_settings(config) == {"trainer.max_epochs": 2, "data.sizes.0": 1, "data.sizes.1": 2, "data.path": "p"}


def test_erasures_among_the_runs_are_compared_by_their_place_there():
    roots = [
        run_settings({"runs_dir": runs, "data": {"init_args": {"erasures": f"{runs}/roar/seed0/erasures/a"}}})
        for runs in ("runs", "/moved/runs")
    ]
    assert roots[0] == roots[1]
    assert roots[0]["data.init_args.erasures"] == "roar/seed0/erasures/a"


def test_hash_of_test_data_ignores_the_order_of_settings():
    settings = {"data.class_path": "TextDataModule", "data.init_args.source.class_path": "Planted"}
    assert hash_of_test_data(settings) == hash_of_test_data(dict(reversed(settings.items())))


def test_erasures_change_the_test_data():
    settings = {"data.class_path": "TextDataModule"}
    assert hash_of_test_data(settings) != hash_of_test_data(settings | {"data.init_args.erasures": "roar/seed0"})
