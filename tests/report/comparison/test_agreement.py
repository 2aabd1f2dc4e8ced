"""Kendall's tau-b between seeds of experiments, against pairs counted by hand."""

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.report.comparison.agreement import agreement_figure, agreement_frame, agreement_table, pairs_of_runs
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
    frame = agreement_frame(runs, "test").set_index(["experiment", "method", "index"])["kendall"]
    base = [given[f"base/seed{seed}"][0, 1] for seed in range(3)]
    own = [tau(base[0], base[1]), tau(base[0], base[2]), tau(base[1], base[2])]
    assert frame["base", "gradient", 0] == pytest.approx(np.mean(own))
    joint = given["joint/seed0"][0, 1]
    assert frame["joint", "gradient", 0] == pytest.approx(np.mean([tau(joint, base[1]), tau(joint, base[2])]))
    assert len(frame) == 6


def test_texts_and_classes_that_one_run_does_not_explain_are_left_out(tmp_path):
    runs = [store(tmp_path / "a/seed0", random_scores()), store(tmp_path / "a/seed1", random_scores([(1, 0), (3, 1)]))]
    assert agreement_frame({"a": runs}, "test")["index"].tolist() == [1]


def test_a_text_counts_once_even_if_all_runs_explain_two_classes_of_it(tmp_path):
    up, down = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
    scores = [{(0, 0): up, (0, 1): up, (1, 0): up}, {(0, 0): up, (0, 1): up, (1, 0): down}]
    runs = [store(tmp_path / f"a/seed{i}", values) for i, values in enumerate(scores)]
    frame = agreement_frame({"a": runs}, "test")
    assert frame["kendall"].tolist() == pytest.approx([1.0, -1.0])
    assert agreement_table(frame, ["a"], "test").splitlines()[-1].split() == ["a", "0.000", "(2)"]


def test_an_experiment_without_common_texts_keeps_its_row_and_its_place_in_the_legend(tmp_path):
    base = [store(tmp_path / f"base/seed{i}", random_scores()) for i in range(2)]
    runs = {"base": base, "joint": [store(tmp_path / "joint/seed0", random_scores([(7, 0)]))]}
    frame = agreement_frame(runs, "test")
    assert agreement_table(frame, list(runs), "test").splitlines()[-1].split() == ["joint", "-"]
    (legend,) = agreement_figure(frame, list(runs)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["base", "joint"]


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
    with pytest.raises(ValueError, match="a has 1 tested run, too few for a reference"):
        agreement_frame({"a": runs[:1]}, "test")
    with pytest.raises(ValueError, match="has stored no attributions on imdb"):
        agreement_frame({"a": runs}, "imdb")
    elsewhere = store(tmp_path / "a/seed4", random_scores([(7, 0)]))
    with pytest.raises(ValueError, match="no two runs explain the same text and class on test"):
        agreement_frame({"a": [runs[0], elsewhere]}, "test")
    other = store(tmp_path / "a/seed2", random_scores(), examples="b")
    with pytest.raises(ValueError, match="holds scores of other examples"):
        agreement_frame({"a": [*runs, other]}, "test")
    other = store(tmp_path / "a/seed3", random_scores(), method="alti")
    with pytest.raises(ValueError, match="no method in common on test"):
        agreement_frame({"a": [*runs, other]}, "test")
