"""Methods and metrics that erase tokens have the numbers of whole texts if a network encodes changed segments only."""

import inspect

import pytest
import torch

from lightning_xai.attributions.coalitions import CoalitionAttribution
from lightning_xai.attributions.kernel_shap import KernelSHAP
from lightning_xai.attributions.lime import LIME
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.attributions.solvex import Solvex
from lightning_xai.commands.discovery import import_all
from lightning_xai.functional.erasure.evaluate import predict_of
from lightning_xai.functional.erasure.segment_counts import segments_counted
from lightning_xai.metrics.erasure import ErasureMetric
from lightning_xai.metrics.faithfulness import Comprehensiveness, LogOdds, Sufficiency
from lightning_xai.metrics.normalized_aopc import NormalizedAOPC, OrderSearch
from lightning_xai.metrics.normalized_faithfulness import NormalizedComprehensiveness, NormalizedSufficiency
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Counts, Percentages, Range, Window
from lightning_xai.models.segments import logits_by_segment
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs, tiny_classifier

METHODS = [
    Occlusion(),
    Occlusion(window=3, erasure="delete", output="probability"),
    KernelSHAP(num_samples=40, erasure="pad"),
    LIME(num_samples=40, erasure="embed_zero"),
    Solvex(beam_size=2, unit="word"),
]
KS = Range(first=1, last=8)
METRICS = [
    Comprehensiveness(Counts(KS), erasure="mask", explained="all"),
    Comprehensiveness(Percentages([10, 50]), erasure="delete", explained="all"),
    Sufficiency(Window(KS, window=8), erasure="mask", explained="all"),
    LogOdds(Counts([3]), erasure="embed_zero", explained="all"),
    NormalizedComprehensiveness(Counts([3, 9]), explained="all"),
    NormalizedSufficiency(Counts([3, 9]), explained="all"),
    NormalizedAOPC(search=OrderSearch(beam_size=2, exact_up_to=0), explained="all"),
]
TARGETS = torch.tensor([[4, 0], [2, 2]])


def by_segment_and_whole(compute, monkeypatch):
    """Returns the result of `compute` with and without the second entry of the network."""
    by_segment = compute()
    monkeypatch.setattr(logits_by_segment, "ATTENTION_FLOATS", 0)
    return by_segment, compute()


@pytest.mark.parametrize("multilabel", [True, False])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{type(method).__name__}-{method.erasure}")
def test_methods_have_the_scores_of_whole_texts(method, multilabel, monkeypatch):
    model, inputs = tiny_classifier("plm_ca", multilabel=multilabel), text_inputs([21, 9])
    scores = by_segment_and_whole(lambda: method.attribute(model, inputs, TARGETS).scores, monkeypatch)
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: f"{metric.name}-{metric.erasure}")
def test_metrics_have_the_values_of_whole_texts(metric, monkeypatch):
    model, inputs = tiny_classifier("plm_ca"), text_inputs([21, 9])
    scores = torch.rand(2, 2, 21, generator=torch.Generator().manual_seed(0))
    attribution = Attribution(scores, TARGETS, torch.ones_like(TARGETS).bool(), inputs.token_mask)

    def records():
        predict = PredictOnce(predict_of(model), inputs)
        return metric.measure(attribution, Batch(inputs, torch.zeros(2, 5)), predict)

    torch.testing.assert_close(*by_segment_and_whole(records, monkeypatch), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_a_metric_that_selects_explanations_rates_them_by_segment(monkeypatch):
    model, inputs = tiny_classifier("plm_ca"), text_inputs([21, 9])
    scores = torch.rand(2, 2, 21, generator=torch.Generator().manual_seed(0))
    attribution = Attribution(scores, TARGETS, torch.ones_like(TARGETS).bool(), inputs.token_mask)
    batch = Batch(inputs, torch.zeros(2, 5))
    metric = Comprehensiveness(Counts(KS), erasure="mask", explained="all")
    with segments_counted() as counts:
        ratings = by_segment_and_whole(lambda: metric.rate(attribution, batch, model), monkeypatch)
    torch.testing.assert_close(*ratings, rtol=1e-4, atol=1e-5)
    assert counts.sum().num_encoded < counts.sum().num_segments


def test_every_method_and_metric_that_reads_erased_versions_is_compared():
    import_all()

    def below(base):
        return {base} | {deeper for one in base.__subclasses__() for deeper in below(one)}

    readers = {
        c for c in below(ErasureMetric) | below(CoalitionAttribution) if c.__module__.startswith("lightning_xai.")
    }
    concrete = {c for c in readers if not inspect.isabstract(c) and not c.__name__.startswith("_")}
    assert len(concrete) > 7 and concrete <= {type(part) for part in [*METHODS, *METRICS]}
