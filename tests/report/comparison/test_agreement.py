"""Kendall's tau-b between seeds of experiments, against pairs counted by hand."""

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.report.comparison.agreement import agreement_frame, pairs_of_runs
from lightning_xai.runs.stores.store import RaggedWriter

GENERATOR = np.random.default_rng(0)


def store(
    run: Path, scores: dict[tuple[int, int], list[float]], *, method: str = "gradient", examples: str = "a"
) -> Path:
    metadata = {"method": {"class": method}, "examples": examples, "class_names": ["no", "yes"]}
    with RaggedWriter(run / "attributions" / "test" / method, metadata=metadata) as writer:
        for key, values in scores.items():
            writer.add(*key, np.array(values, dtype=np.float32))
    return run


def random_scores(keys=((0, 1), (1, 0), (2, 1))) -> dict[tuple[int, int], list[float]]:
    return {key: GENERATOR.normal(size=5).tolist() for key in keys}


def tau(first: list[float], second: list[float]) -> float:
    """Kendall's tau of absolute scores without ties, pair by pair."""
    signs = [
        math.copysign(1, (abs(first[i]) - abs(first[j])) * (abs(second[i]) - abs(second[j])))
        for i, j in combinations(range(len(first)), 2)
    ]
    return sum(signs) / len(signs)


def test_an_experiment_is_compared_with_other_seeds_of_the_first_one_and_the_first_with_itself(tmp_path):
    given = {name: random_scores() for name in ("base/seed0", "base/seed1", "base/seed2", "joint/seed0")}
    runs: dict[str, list[Path]] = {"base": [], "joint": []}
    for name, scores in given.items():
        runs[name.split("/")[0]].append(store(tmp_path / name, scores))
    frame = agreement_frame(runs, "test").set_index(["experiment", "method", "index", "target"])["kendall"]
    base = [given[f"base/seed{seed}"][0, 1] for seed in range(3)]
    own = [tau(base[0], base[1]), tau(base[0], base[2]), tau(base[1], base[2])]
    assert frame["base", "gradient", 0, 1] == pytest.approx(np.mean(own))
    joint = given["joint/seed0"][0, 1]
    assert frame["joint", "gradient", 0, 1] == pytest.approx(np.mean([tau(joint, base[1]), tau(joint, base[2])]))
    assert len(frame) == 6


def test_texts_and_classes_that_one_run_does_not_explain_are_left_out(tmp_path):
    runs = [store(tmp_path / "a/seed0", random_scores()), store(tmp_path / "a/seed1", random_scores([(1, 0), (3, 1)]))]
    assert agreement_frame({"a": runs}, "test")[["index", "target"]].to_numpy().tolist() == [[1, 0]]


def test_equal_orders_agree_whatever_the_signs(tmp_path):
    runs = [
        store(tmp_path / f"a/seed{i}", {(0, 0): values})
        for i, values in enumerate([[1.0, -2.0, 3.0], [-0.1, 0.2, 0.3]])
    ]
    assert agreement_frame({"a": runs}, "test")["kendall"].tolist() == pytest.approx([1.0])


def test_runs_of_one_seed_are_no_pair():
    first, second = [Path("a/seed0")], [Path("b/seed0"), Path("b/seed1")]
    assert pairs_of_runs(first, second) == [(0, 1)]
    assert pairs_of_runs(first, first) == []


def test_what_cannot_be_compared_is_refused(tmp_path):
    runs = [store(tmp_path / f"a/seed{i}", random_scores()) for i in range(2)]
    with pytest.raises(ValueError, match="a has only one run, so its seeds cannot be compared"):
        agreement_frame({"a": runs[:1]}, "test")
    with pytest.raises(ValueError, match="has stored no attributions on imdb"):
        agreement_frame({"a": runs}, "imdb")
    other = store(tmp_path / "a/seed2", random_scores(), examples="b")
    with pytest.raises(ValueError, match="holds scores of other examples"):
        agreement_frame({"a": [*runs, other]}, "test")
    other = store(tmp_path / "a/seed3", random_scores(), method="alti")
    with pytest.raises(ValueError, match="no method in common on test"):
        agreement_frame({"a": [*runs, other]}, "test")
