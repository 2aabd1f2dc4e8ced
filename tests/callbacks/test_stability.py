"""Stability: which runs are compared, and that the numbers are those of the stored scores."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.callbacks.attribution_cache import AttributionCacheWriter
from lightning_xai.callbacks.attributions import ComputeAttributions
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.stability import Stability
from lightning_xai.metrics.similarity import jaccard, kendall, spearman
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.stores.store import RaggedStore, RaggedWriter
from tests.callbacks.conftest import Recorder, planted_data, trainer
from tests.conftest import tiny_classifier


def objective_of(seed: int) -> Supervised:
    return Supervised(tiny_classifier("bert", seed=seed))


def run_test(
    folder: Path, seed: int, *callbacks, targets="gold", method=None, data=None, max_examples=None, **arguments
) -> None:
    """Tests a network of its own seed, as the command does for a run in `folder`."""
    compute = ComputeAttributions({"ixg": method or InputXGradient()}, targets, max_examples=max_examples)
    run = trainer(folder, compute, *callbacks, **arguments)
    run.test(objective_of(seed), datamodule=data or planted_data(eval_batch_size=3), verbose=False)


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> Path:
    """A folder of two tested runs with stored scores, not to be written to."""
    folder = tmp_path_factory.mktemp("runs") / "tm"
    for seed in (0, 1):
        run_test(folder / f"seed{seed}", seed, AttributionCacheWriter())
        (folder / f"seed{seed}" / "results.parquet").touch()
    return folder


@pytest.fixture
def runs(stored, tmp_path) -> Path:
    return Path(shutil.copytree(stored, tmp_path / "tm"))


@pytest.fixture(scope="module")
def compared(stored) -> tuple[Stability, Path]:
    """The callback after a third run was compared with the two, and that run's folder."""
    callback = Stability([str(stored / "seed*")])
    this_run = stored.parent / "own" / "seed7"
    run_test(this_run, 7, AttributionCacheWriter(), callback)
    return callback, this_run


@pytest.mark.slow
def test_all_pairs_of_runs_are_those_of_their_stored_scores(compared, stored):
    _, this_run = compared
    runs = (this_run, stored / "seed0", stored / "seed1")
    stores = [RaggedStore(run / "attributions" / "test" / "ixg") for run in runs]
    data = planted_data()
    per_explanation = []
    for index, target in stores[0].keys():
        mask = data.encoded("test", index).token_mask
        scores = torch.stack([torch.tensor(store.get(index, target))[mask] for store in stores])
        per_explanation.append(torch.stack([jaccard(scores, 25), spearman(scores), kendall(scores)]))
    wanted = torch.stack(per_explanation).mean(dim=0)
    assert wanted[0, 0, 1] < 0.9  # the networks differ
    table = pd.read_csv(this_run / "stability" / "test.csv").set_index(["metric", "run", "other"])["value"]
    names = ["own.seed7", "tm.seed0", "tm.seed1"]
    for measure, matrix in zip(("jaccard", "spearman", "kendall"), wanted, strict=True):
        for a, b in ((0, 1), (0, 2), (1, 2)):
            assert table[measure, names[a], names[b]] == pytest.approx(float(matrix[a, b]), abs=1e-12)


def test_results_have_this_run_beside_every_other(compared):
    callback, this_run = compared
    rows = {row["metric"]: row["value"] for row in callback.result_rows()}
    table = pd.read_csv(this_run / "stability" / "test.csv").set_index(["metric", "run", "other"])["value"]
    assert len(rows) == 6
    assert rows["jaccard/tm.seed1"] == pytest.approx(table["jaccard", "own.seed7", "tm.seed1"], abs=1e-12)


def test_picture_of_the_matrices_is_written(compared):
    picture = Image.open(compared[1] / "stability" / "test.png")
    assert picture.width > picture.height > 200


@pytest.mark.slow
def test_numbers_do_not_depend_on_the_batches(compared, stored, tmp_path):
    callback = Stability([str(stored / "seed*")])
    run_test(tmp_path / "own" / "seed7", 7, callback, data=planted_data(eval_batch_size=1))
    values = [[row["value"] for row in each.result_rows()] for each in (callback, compared[0])]
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def test_network_explains_like_itself(runs):
    callback = Stability([str(runs / "seed1")])
    run_test(runs / "seed0", 1, callback)
    assert [row["value"] for row in callback.result_rows()] == pytest.approx([1, 1, 1])


def test_run_is_not_compared_with_itself(runs):
    callback = Stability([str(runs / "seed*")])
    run_test(runs / "seed0", 0, callback)
    assert {row["metric"].split("/")[1] for row in callback.result_rows()} == {"seed1"}


def test_pattern_finds_tested_runs_only(runs, capsys):
    for seed in (0, 1):
        (runs / f"seed{seed}" / "results.parquet").unlink()
    callback = Stability([str(runs / "seed*")])
    run_test(runs.parent / "own" / "seed7", 7, callback)
    assert callback.result_rows() == []
    assert "yet, so nothing is compared" in capsys.readouterr().out


def refusal(runs: Path, others=("seed0",), **arguments) -> str:
    with pytest.raises(ValueError) as caught:
        run_test(runs / "own", 7, Stability([str(runs / other) for other in others]), **arguments)
    return str(caught.value)


def test_missing_run_is_named(runs):
    assert "seed5 does not exist: fit and test this run first" in refusal(runs, ["seed5"])


def test_run_without_scores_is_named(runs):
    shutil.rmtree(runs / "seed0" / "attributions" / "test")
    assert "an AttributionCacheWriter" in refusal(runs)


def test_method_with_other_settings_is_refused(runs):
    assert "'pooling'" in refusal(runs, method=InputXGradient(pooling="sum"))
    assert "use the same method settings" in refusal(
        runs, method=IntegratedGradients(num_steps=2, delta_tolerance=None)
    )


def replace_row(store: Path, change) -> None:
    """Rewrites a store with `change(key, values)` in place of its first row, or without it if the values are None."""
    old = RaggedStore(store)
    rows = [(key, np.array(old.get(*key))) for key in old.keys()]
    shutil.rmtree(store)
    with RaggedWriter(store, metadata=old.metadata) as writer:
        for key, values in [change(*rows[0]), *rows[1:]]:
            if values is not None:
                writer.add(key[0], key[1], values)


def test_missing_example_is_named(runs):
    replace_row(runs / "seed0" / "attributions" / "test" / "ixg", lambda key, values: (key, None))
    assert "of the example with index 0: explain the same" in refusal(runs)


def test_other_class_is_named(runs):
    store = runs / "seed0" / "attributions" / "test" / "ixg"
    replace_row(store, lambda key, values: ((key[0], (key[1] + 1) % 3), values))
    assert "of the example with index 0: explain the same" in refusal(runs)


def test_other_length_is_named(runs):
    replace_row(runs / "seed0" / "attributions" / "test" / "ixg", lambda key, values: (key, values[:-1]))
    assert "tokens for the example with index 0" in refusal(runs)


def test_example_that_this_run_does_not_explain_is_named(runs):
    assert "of the example with index 5, " in (message := refusal(runs, max_examples=5))
    assert "which this run does not explain" in message


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"max_examples": 5}, {"limit_test_batches": 1}], ids=str)
def test_runs_that_explain_other_numbers_of_examples_are_refused_before_the_work(runs, changes):
    message = "Stability of ixg on test: .*seed0/.* has {} for the example .*, unlike this run .{} such examples.: use"
    recorder = Recorder()
    stability = Stability([str(runs / "seed0")])
    with pytest.raises(ValueError, match=message.format("scores", "[24]")):
        run_test(runs / "own", 7, Preflight(), recorder, stability, **changes)
    (runs / "seed0" / "results.parquet").unlink()
    shutil.rmtree(runs / "seed0" / "attributions")
    run_test(runs / "seed0", 0, AttributionCacheWriter(), **changes)
    (runs / "seed0" / "results.parquet").touch()
    with pytest.raises(ValueError, match=message.format("no scores", "[24]")):
        run_test(runs / "own", 7, Preflight(), recorder, stability)
    assert not recorder.scores
    run_test(runs / "own", 7, Preflight(), recorder, stability, **changes)


def test_scores_of_other_data_are_refused(runs):
    assert "seed0/attributions/test/ixg holds scores of other examples" in refusal(
        runs, data=planted_data(max_examples={"test": 5})
    )


@pytest.mark.parametrize(
    "arguments, message",
    [({"others": []}, "others is empty"), ({"others": ["a"], "percentage": 0}, "percentage is 0"),
     ({"others": ["a"], "percentage": 101}, "percentage is 101")],
)  # fmt: skip
def test_impossible_comparison_is_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        Stability(**arguments)


def test_attributions_have_to_come_first(tmp_path):
    with pytest.raises(ValueError, match="needs a ComputeAttributions before it"):
        trainer(tmp_path, Stability([str(tmp_path)])).test(objective_of(0), datamodule=planted_data(), verbose=False)
