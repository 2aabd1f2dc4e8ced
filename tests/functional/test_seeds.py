from dataclasses import replace

import pytest
import torch

from lightning_xai.attributions.gradient_shap import random_points
from lightning_xai.attributions.kernel_shap import KernelSHAP
from lightning_xai.attributions.lime import LIME
from lightning_xai.attributions.random import random_scores
from lightning_xai.functional.seeds import check_seed, example_generator, example_indices
from lightning_xai.types import TextInputs

INPUTS = replace(TextInputs.of_ids([[5, 6, 7]]), index=torch.tensor([11]))


def test_random_scores_never_change():
    scores = random_scores(INPUTS, torch.tensor([[2]]), seed=3)
    assert scores.tolist() == [[[0.35205909609794617, 1.6526360511779785, 0.09305743128061295]]]


def test_points_of_gradient_shap_never_change():
    places, noise = random_points(INPUTS, range(1, 2), num_values=1, noise_std=1.0, seed=3)
    assert places.item() == 0.6514197587966919
    assert noise.flatten().tolist() == [-0.18442407250404358, 1.1645334959030151, -1.1732536554336548]


def test_coalitions_of_kernel_shap_never_change():
    drawn = KernelSHAP(num_samples=4, seed=3).coalitions(5, 11)[0][2:]
    assert drawn.int().tolist() == [[0, 1, 0, 0, 1], [1, 0, 1, 1, 0], [1, 0, 0, 0, 1], [0, 1, 1, 1, 0]]


def test_coalitions_of_lime_never_change():
    drawn = LIME(num_samples=3, seed=3).coalitions(5, 11)[0]
    assert drawn.int().tolist() == [[0, 1, 1, 1, 0], [1, 1, 1, 1, 0], [1, 1, 0, 0, 1]]


def test_a_generator_is_set_apart_by_seed_index_and_stream():
    generators = [
        example_generator(0, 1, "A"),
        example_generator(1, 1, "A"),
        example_generator(0, 2, "A"),
        example_generator(0, 1, "B"),
        example_generator(0, 1, "A", [5]),
        example_generator(0, 1, "A", [6]),
    ]
    assert len({generator.random() for generator in generators}) == len(generators)


def test_an_example_without_an_index_is_refused():
    (index,) = example_indices(replace(INPUTS, index=None))
    with pytest.raises(ValueError, match="inputs.index is None"):
        example_generator(0, index, "LIME")


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed is -1"):
        check_seed(-1)
