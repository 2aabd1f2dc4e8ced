"""The commands of configs/stability.yaml: seeds are trained, an untrained network is tested, all are compared."""

from pathlib import Path

import pandas as pd
import pytest

from tests.command_line.conftest import command, methods, planted, save, tiny_config
from tests.command_line.test_processes import TWO, run_ranks


def stability_config(folder: Path) -> str:
    explained = methods("input_x_gradient.InputXGradient")
    explained["init_args"]["targets"] = "gold"
    others = {"others": ["tiny/seed*"]}
    callbacks = [
        explained,
        {"class_path": "lightning_xai.callbacks.attribution_cache.AttributionCacheWriter"},
        {"class_path": "lightning_xai.callbacks.stability.Stability", "init_args": others},
    ]
    config = tiny_config(callbacks=callbacks, max_epochs=1) | {"data": planted(num_train=24, num_validation=8)}
    return save(config, folder / "tiny.json")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, list[str]]:
    """The folder of two trained seeds, and what their commands printed."""
    folder = tmp_path_factory.mktemp("stability")
    argv = ["fit", "--config", stability_config(folder), "--runs_dir", folder / "runs", "--seed_everything"]
    return folder, [command(*argv, seed) for seed in (0, 1)]


def compared(folder: Path, experiment: str) -> list[str]:
    return ["test", "--config", folder / "tiny.json", "--runs_dir", folder / "runs", "--experiment", experiment]


def test_first_seed_has_nothing_to_be_compared_with(trained):
    _, printed = trained
    assert "so nothing is compared" in printed[0] and "stability of input_x_gradient on test" in printed[1]


def test_untrained_network_is_compared_with_all_seeds(trained):
    folder, _ = trained
    printed = command(*compared(folder, "untrained"))
    assert "testing the network as the configuration builds it" in printed
    table = pd.read_csv(folder / "runs" / "untrained" / "seed0" / "stability" / "test.csv")
    assert table.query("measure == 'jaccard'")[["run", "other"]].to_numpy().tolist() == [
        ["untrained.seed0", "tiny.seed0"], ["untrained.seed0", "tiny.seed1"], ["tiny.seed0", "tiny.seed1"],
    ]  # fmt: skip
    assert (folder / "runs" / "untrained" / "seed0" / "attributions" / "test" / "input_x_gradient").is_dir()
    results = pd.read_parquet(folder / "runs" / "untrained" / "seed0" / "results.parquet")
    assert set(results.query("preset == 'stability' and split == 'test'")["num_examples"]) == {7}


@pytest.mark.slow
def test_two_processes_compare_as_one_does(trained):
    folder, _ = trained
    command(*compared(folder, "one"))
    codes, outputs = run_ranks(*compared(folder, "two"), *TWO, folder=folder)
    assert codes == [0, 0], outputs
    assert [output.count("below the diagonal") for output in outputs] == [1, 0]
    one, two = (pd.read_csv(folder / "runs" / name / "seed0" / "stability" / "test.csv") for name in ("one", "two"))
    pd.testing.assert_frame_equal(two.replace("two.seed0", "one.seed0"), one, check_exact=True)
