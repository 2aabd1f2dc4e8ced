"""Metrics are tried on the scores that the methods give, and a failure names the method."""

import pytest

from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.callbacks.preflight import preflight_metrics
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.discrete_rationale import DiscreteRationale
from lightning_xai.metrics.plausibility import EvidenceOverlap
from lightning_xai.runs.facts import RunFacts
from tests.callbacks.conftest import compute, planted_data
from tests.callbacks.preflight.test_preflight import Broken, bare_evidence, fails, silent


class OnlySmall(Entropy):
    """Fails on scores below -5, which made-up scores do not have."""

    def measure(self, attribution, batch, predict):
        if (attribution.scores < -5).any():
            raise ValueError("a score is below -5: scale the scores")
        return super().measure(attribution, batch, predict)


class Negative(Broken):
    def scores(self, model, inputs, targets):
        return -10 * super().scores(model, inputs, targets)


@pytest.mark.parametrize("stage", ["fit", "validate", "test"])
def test_metrics_are_tried_on_the_scores_of_every_method(objective, tmp_path, stage):
    parts = compute(Broken(), Negative()), AttributionEvaluation("own", [Entropy(), OnlySmall(name="strict")])
    message = fails(tmp_path, objective, *parts, stage=stage)
    assert (
        "1 part does not work with HFClassifier: (1) metric own/strict (OnlySmall) of Negative: a score is" in message
    )


def test_metric_that_fails_for_one_method_is_left_out_for_this_method(objective, tmp_path):
    preflight, results = Preflight(tests_after_fit=True, skip_unfit=True), ResultsFile(RunFacts("tm", seed=0))
    preset = AttributionEvaluation("own", [OnlySmall(name="strict"), Entropy()])
    run = silent(tmp_path, results, preflight, compute(Broken(), Negative()), preset)
    run.fit(objective, datamodule=planted_data())
    run.test(objective, datamodule=planted_data(), verbose=False)
    assert results.table is not None
    rows = results.table[results.table["preset"] == "own"].set_index(["method", "metric"])
    assert len(rows) == 4 and rows["left_out"]["Negative", "strict"].startswith("a score is below -5")
    assert rows["value"].isna().to_dict() == {index: index == ("Negative", "strict") for index in rows.index}


@pytest.mark.slow
def test_what_a_metric_without_evidence_asks_for_works(objective, tmp_path):
    tuned: list[AttributionMetric] = [DiscreteRationale(name="rationale"), EvidenceOverlap(name="overlap")]
    message = fails(
        tmp_path, objective, compute(Random()), AttributionEvaluation("own", tuned), stage="test", data=bare_evidence()
    )
    assert "2 parts" in message and "or set `threshold` if tests have evidence" in message
    fixed = AttributionEvaluation("own", [DiscreteRationale(size=5), EvidenceOverlap(threshold=0.1)])
    silent(tmp_path, Preflight(), compute(Random()), fixed).test(objective, datamodule=bare_evidence(), verbose=False)
    left_out = AttributionEvaluation("own", [Entropy(), *tuned])
    run = silent(tmp_path, Preflight(skip_unfit=True), compute(Random()), left_out)
    run.test(objective, datamodule=bare_evidence(), verbose=False)
    assert [metric.name for metric in left_out.metrics] == ["entropy"]


@pytest.mark.parametrize(("extra", "tried"), [([], ["test"]), (["validation"], ["validation", "test"])])
def test_metrics_are_tried_on_every_split_that_a_test_measures(extra, tried, objective, tmp_path, monkeypatch):
    seen, made = [], preflight_metrics.made_up_batch

    def noted(run, source, split):
        seen.append(split)
        return made(run, source, split)

    monkeypatch.setattr(preflight_metrics, "made_up_batch", noted)
    parts = Preflight(), compute(Random()), AttributionEvaluation("own", [Entropy()])
    silent(tmp_path, *parts).test(objective, datamodule=planted_data(extra_test_splits=extra), verbose=False)
    assert sorted(set(seen)) == sorted(tried)
