"""The stated number of segments of a version is what PLM-CA encodes."""

import pytest
import torch

from lightning_xai.attributions.kernel_shap import KernelSHAP
from lightning_xai.attributions.lime import LIME
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.functional.erasure.encoded_segments import new_segments
from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency
from lightning_xai.metrics.top_units import Counts, Range, Window
from tests.conftest import text_inputs, tiny_classifier


@pytest.mark.parametrize(
    "method",
    [Occlusion(), Occlusion(erasure="delete"), Occlusion(window=3), KernelSHAP(num_samples=40), LIME(num_samples=40)],
    ids=lambda method: f"{type(method).__name__}-{method.erasure}",
)
def test_methods_encode_as_many_segments_as_stated(method):
    model, encoded = tiny_classifier("plm_ca"), []
    model.transformer.register_forward_hook(lambda _module, _given, output: encoded.append(len(output[0])))
    inputs = text_inputs([48])
    units = int(inputs.token_mask.sum())
    method.attribute(model, inputs, torch.tensor([[1, 2]]))
    erased = torch.zeros(len(method.erased_units(units)), 48, dtype=torch.bool)
    erased[:, inputs.token_mask[0]] = method.coalitions(units, 0).keep.logical_not()
    stated = 6 + len(erased) * new_segments(erased, segment_length=8, erasure=method.erasure)
    assert stated - 6 <= sum(encoded) <= stated  # no version may have one of the 6 segments of the text
    if isinstance(method, Occlusion) and method.erasure == "mask":
        assert sum(encoded) == stated


@pytest.mark.parametrize(("erasure", "method_segments"), [("mask", 1.0), ("delete", 1.0)])
def test_many_versions_are_extrapolated(erasure, method_segments):
    erased = torch.eye(6000).bool()[:600]
    assert new_segments(erased, segment_length=128, erasure=erasure) == pytest.approx(method_segments, abs=0.1)


@pytest.mark.parametrize("metric", [
    Comprehensiveness(Counts(Range(first=1, last=100)), erasure="mask"),
    Sufficiency(Window(Range(first=1, last=100), window=100), erasure="mask"),
])  # fmt: skip
def test_nested_series_change_one_segment_a_version(metric):
    erased = metric.erased_units(6000)
    assert erased.shape == (100, 6000)
    extra = 47 if isinstance(metric, Sufficiency) else 0  # the first version of a window differs in every segment
    number = 100 * new_segments(erased, segment_length=128, erasure="mask")
    assert number <= 100 + extra


def test_half_of_the_tokens_change_every_segment():
    erased = torch.rand(100, 6000) < 0.5
    assert new_segments(erased, segment_length=128, erasure="mask") == 47
