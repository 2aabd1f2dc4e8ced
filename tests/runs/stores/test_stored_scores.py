from pathlib import Path

import numpy as np
import pytest

from lightning_xai.runs.stores.store import RaggedWriter
from lightning_xai.runs.stores.stored_scores import NO_CLASS, TOKEN_MASKS, StoredScores, open_scores, stored_methods

SETTINGS = {"class": "Gradient", "pool": "norm"}
SCORES = {(0, 1): [0.5, 2.0], (3, 0): [1.0, 0.0, -1.0]}  # by example and class


def write(folder: Path, rows: dict[tuple[int, int], list[float]], **metadata) -> None:
    with RaggedWriter(folder, metadata=metadata) as writer:
        for (index, target), values in rows.items():
            writer.add(index, target, np.array(values))


@pytest.fixture
def run(tmp_path) -> Path:
    """The folder of a run with the scores of one method on one split."""
    folder = tmp_path / "attributions" / "test" / "gradient"
    write(folder, SCORES, method=SETTINGS, examples="hash")
    write(folder / TOKEN_MASKS, {(0, NO_CLASS): [1, 1], (3, NO_CLASS): [0, 1, 1]})
    return tmp_path


@pytest.fixture
def scores(run) -> StoredScores:
    return open_scores(run, "test", "gradient")


def test_methods_are_listed_without_their_token_masks(run):
    write(run / "attributions" / "test" / "attention", SCORES)
    assert stored_methods(run) == [("test", "attention"), ("test", "gradient")]


def test_folder_of_stores_is_read_like_a_run(run):
    assert stored_methods(run / "attributions") == stored_methods(run)
    assert open_scores(run / "attributions", "test", "gradient").keys() == list(SCORES)


def test_run_without_scores_is_refused(run):
    with pytest.raises(ValueError, match="train/gradient holds no scores: test that run"):
        open_scores(run, "train", "gradient")


def test_row_has_the_scores_of_an_example_and_class(scores):
    assert scores.row((3, 0), 3, "this run").tolist() == SCORES[3, 0]


def test_missing_row_is_named(scores):
    with pytest.raises(ValueError, match="no scores for class 1 of the example with index 3"):
        scores.row((3, 1), 3, "this run")


def test_row_of_another_length_is_named(scores):
    with pytest.raises(ValueError, match="has 3 tokens for the example with index 3, but this run has 4"):
        scores.row((3, 0), 4, "this run")


def test_same_method_and_examples_are_accepted(scores):
    scores.require_method(SETTINGS, "hash")


def test_method_with_other_settings_is_refused(scores):
    with pytest.raises(ValueError, match="use the same method settings"):
        scores.require_method(SETTINGS | {"pool": "sum"}, "hash")


def test_other_examples_are_refused_where_they_are_known(scores):
    scores.require_method(SETTINGS, None)
    with pytest.raises(ValueError, match="scores of other examples"):
        scores.require_method(SETTINGS, "another hash")


def test_classes_in_another_order_are_refused(tmp_path):
    RaggedWriter(tmp_path, metadata={"method": SETTINGS, "class_names": ["no", "yes"]}).close()
    scores = StoredScores(tmp_path)
    for class_names in (["no", "yes"], ["neg", "pos"], None):
        scores.require_method(SETTINGS, None, class_names=class_names)
    with pytest.raises(ValueError, match=r"classes in the order \['no', 'yes'\], not \['yes', 'no'\]"):
        scores.require_method(SETTINGS, None, class_names=["yes", "no"])


def test_rows_that_the_other_run_lacks_are_named(scores):
    scores.require_rows_among(set(SCORES), "this run")
    with pytest.raises(ValueError, match="class 0 of the example with index 3, which this run does not explain"):
        scores.require_rows_among({(0, 1)}, "this run")


def test_token_masks_are_found_by_example(scores):
    assert scores.token_masks().get(3, NO_CLASS).tolist() == [0, 1, 1]


@pytest.mark.parametrize("masks", [{}, {(0, NO_CLASS): [1, 1]}])
def test_missing_token_mask_is_named(tmp_path, masks):
    write(tmp_path / "test" / "gradient", SCORES)
    if masks:
        write(tmp_path / "test" / "gradient" / TOKEN_MASKS, masks)
    with pytest.raises(
        ValueError, match=f"which tokens of the example with index {3 if masks else 0} may be explained"
    ):
        open_scores(tmp_path, "test", "gradient").token_masks()
