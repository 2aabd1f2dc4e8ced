"""Methods outside the package that break a law, which `check_method` names, and methods that keep all laws."""

import copy
import functools
import random

import pytest
import torch

from lightning_xai.attributions import laws
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.tiny_networks import tiny_networks
from lightning_xai.types import Passes

NETWORKS = functools.cache(tiny_networks)


class Outside(InputXGradient):
    """A method outside the package that keeps all laws. Its subclasses break one law each."""

    def __init__(self) -> None:
        super().__init__(pooling="sum")


class SeesPadding(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        return super().scores(model, inputs, targets, create_graph=create_graph) * inputs.input_ids.shape[1]


class CountsPadding(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        scores = super().scores(model, inputs, targets, create_graph=create_graph)
        return scores / (inputs.input_ids >= 0).sum(dim=1)[:, None, None]


class SeesOtherClasses(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        return super().scores(model, inputs, targets, create_graph=create_graph) * targets.shape[1]


class SeesOtherTexts(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        return super().scores(model, inputs, targets, create_graph=create_graph) * len(inputs)


class Changes(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        model.embedding_matrix.grad = torch.ones_like(model.embedding_matrix)
        return super().scores(model, inputs, targets, create_graph=create_graph)


class LeavesAHook(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        model.register_forward_hook(lambda *_: None)
        return super().scores(model, inputs, targets, create_graph=create_graph)


class DrawsNumbers(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        random.random()
        return super().scores(model, inputs, targets, create_graph=create_graph)


class ZeroesAnEmbedding(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        model.embedding_matrix.data[7] = 0.0  # the second call changes nothing more
        return super().scores(model, inputs, targets, create_graph=create_graph)


class SwitchesTheKernel(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        model.set_attention("sdpa")
        return super().scores(model, inputs, targets, create_graph=create_graph)


class Magnitudes(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        return super().scores(model, inputs, targets, create_graph=create_graph).abs()


class CountsTooFew(Outside):
    def passes(self, num_tokens, num_targets):
        return Passes(forward=1, backward=1)


class Detaches(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        scores = super().scores(model, inputs, targets, create_graph=create_graph).detach()
        return scores + 0 * model.embed(inputs).sum() if create_graph else scores


class WrongShape(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        return super().scores(model, inputs, targets, create_graph=create_graph)[..., :-1]


class ReturnsAList(Outside):
    def scores(self, model, inputs, targets, *, create_graph=False):
        return super().scores(model, inputs, targets, create_graph=create_graph).tolist()


class PassesAsATuple(Outside):
    def passes(self, num_tokens, num_targets):
        return 1, num_targets


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (SeesPadding, "SeesPadding: padding changes scores"),
        (CountsPadding, "CountsPadding: padding changes scores"),
        (SeesOtherClasses, "the other explained classes change the scores of a class"),
        (SeesOtherTexts, "other texts in the batch change scores .*inputs.index"),
        (Changes, "after `scores`, gradients are not as before"),
        (LeavesAHook, "after `scores`, hooks are not as before"),
        (ZeroesAnEmbedding, "after `scores`, weights are not as before"),
        (SwitchesTheKernel, "after `scores`, the attention kernel are not as before"),
        (DrawsNumbers, "after `scores`, Python's random state are not as before"),
        (Magnitudes, "no score is negative although has_sign is True"),
        (CountsTooFew, "makes 2 backward passes per text, but `passes` says 1"),
        (Detaches, "a loss on scores has no finite gradient for layer 0"),
        (ReturnsAList, r"ReturnsAList.scores returned list: return a tensor \[B, K, T\]"),
        (PassesAsATuple, "PassesAsATuple.passes returned tuple: return Passes"),
        (WrongShape, r"returned shape .* but \[B, K, T\] is"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_method_outside_the_package_that_breaks_a_law_is_told_which(method, message):
    with pytest.raises(ValueError, match=message) as caught:
        laws.check_method(method(), copy.deepcopy(NETWORKS()[0]))
    assert "\n" not in str(caught.value)


class Unhashable(Outside):
    __hash__ = None  # type: ignore[assignment] # as in a data class


@pytest.mark.parametrize("method", [Outside, Unhashable])
def test_a_method_outside_the_package_that_keeps_all_laws_passes(method):
    laws.check_method(method(), copy.deepcopy(NETWORKS()[1]))
