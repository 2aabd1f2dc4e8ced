"""Small roar.csv files made by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pytest

from lightning_xai.chains.roar import COLUMNS

RANDOM = [0.9, 0.8, 0.5]


def chain(
    experiment: Path, seed: int = 0, *, amount_unit: str = "percentage", metric: str = "macro_f1",
    amounts: Sequence[int] = (0, 50, 100), positions: Sequence[float] = (), **curves: Sequence[float],
) -> Path:  # fmt: skip
    """Writes the roar.csv of one seed and returns the folder of its experiment.

    Args:
        positions: scores of the control of the method "gradient".
        curves: scores of each method; those of "random" are RANDOM if they are not given.
    """
    rows = [
        (seed, method, amount, "test", metric, value, False, amount_unit, "run")
        for method, values in ({"random": RANDOM} | curves).items()
        for amount, value in zip(amounts, values, strict=True)
    ]
    for amount, value in zip(amounts, positions, strict=bool(positions)):
        rows.append((seed, "gradient", amount, "test", metric, value, True, amount_unit, "run"))
    folder = experiment / f"seed{seed}"
    folder.mkdir(parents=True)
    pd.DataFrame(rows, columns=COLUMNS).to_csv(folder / "roar.csv", index=False)
    return experiment


@pytest.fixture
def five_seeds(tmp_path: Path) -> Path:
    """An experiment whose RACUs are 0.1, 0.2, ..., 0.5: area 0.5 (0.8 - p) over 0.25."""
    for seed in range(5):
        share = (seed + 1) / 10
        chain(tmp_path / "roar_sst", seed, gradient=[0.9, 0.8 - 0.5 * share, 0.5], positions=[0.5, 0.6, 0.5])
    return tmp_path / "roar_sst"


def write_results(
    experiment: Path, seed: int, numbers: Mapping[tuple[str, str, str, str], float], *, stem: str = "results",
    checkpoint: str = "0a1b",
) -> Path:  # fmt: skip
    """Writes a table of results by (split, preset, method, metric) and returns the folder of the experiment."""
    folder = experiment / f"seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [(seed, *key, value, checkpoint) for key, value in numbers.items()]
    columns = ["seed", "split", "preset", "method", "metric", "value", "checkpoint"]
    costs = {"forward_passes": 1.0, "backward_passes": 1.0, "seconds": 0.5}
    pd.DataFrame(rows, columns=columns).assign(**costs).to_parquet(folder / f"{stem}.parquet")
    return experiment
