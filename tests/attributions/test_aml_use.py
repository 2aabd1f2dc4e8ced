"""What a run asks AML before it explains, and what it stores with the scores."""

import pytest
import torch

from lightning_xai.attributions.random import Random
from lightning_xai.attributions.solvex import Solvex
from lightning_xai.attributions.transformed import Transformed
from tests.attributions.test_aml import LENGTHS, comp, explains, scores, trained_for, tuned
from tests.conftest import text_inputs, tiny_classifier


@pytest.fixture(scope="module")
def network():
    return tiny_classifier("bert").eval()


def test_what_chose_the_scores_is_known_of_wrapped_methods_too(network):
    method = Transformed(Transformed(tuned(network), ["absolute"]), ["normalize"])
    assert method.selected_on == "comprehensiveness"
    assert Transformed(Solvex("suff"), ["absolute"]).selected_on == "sufficiency"
    plain = Transformed(explains(network), ["absolute"])
    scores(plain, network, text_inputs(LENGTHS))
    assert plain.selected_on == "validation:comprehensiveness"
    assert Transformed(Random(), ["absolute"]).selected_on == ""


def test_settings_tell_metrics_apart_and_the_hash_tells_scorers_apart(network):
    first, other = tuned(network), tuned(network, metric=comp(erasure="mask"))
    assert first.settings() != other.settings()
    assert first.settings() == tuned(network).settings()
    weights = Transformed(first, ["absolute"]).trained_weights
    assert weights and weights == first.trained_weights and Random().trained_weights == ""
    trained = first._loaded()
    with torch.no_grad():
        trained.scorer.z.add_(1.0)
    assert first.trained_weights != weights


@pytest.mark.parametrize("policy", ["gold", "gold_or_predicted", "all"])
def test_classes_that_the_scorer_cannot_explain_are_refused_before_any_text_is(policy, network):
    with pytest.raises(ValueError, match=f"targets is {policy}, but the scorer explains only the predicted class"):
        explains(network).check_use(policy, 9)
    explains(network).check_use("predicted", 9)
    explains(network, "class").check_use(policy, 9)


def test_a_text_without_a_position_for_the_prediction_is_refused_before_any_text_is_explained(network):
    most = trained_for(network).scorer.max_length
    assert most is not None
    explains(network).check_use("predicted", most)
    with pytest.raises(ValueError, match=f"the longest text has {most + 1} tokens"):
        explains(network).check_use("predicted", most + 1)
