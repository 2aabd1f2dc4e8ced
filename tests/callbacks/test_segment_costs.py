"""The results of a test tell how many segments the network encoded for a version, by method and by metric."""

import pandas as pd
import pytest

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.occlusion import Occlusion
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.callbacks.results import ResultsFile
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.faithfulness import Comprehensiveness
from lightning_xai.metrics.top_units import Counts
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.facts import RunFacts
from tests.callbacks.conftest import compute, planted_data, trainer
from tests.conftest import tiny_classifier

SIZE = 2  # tokens in a segment


def results_of(folder, network, **options):
    data = planted_data(**options)
    data.setup("test")
    sizes = {"num_classes": data.num_classes, "multilabel": data.multilabel}
    if network == "plm_ca":
        sizes["segment_length"] = SIZE
    metrics = [Comprehensiveness(Counts([1, 2, 3]), erasure="mask"), Entropy()]
    results = ResultsFile(RunFacts("x", seed=0))
    run = trainer(folder, compute(Occlusion(), Gradient()), AttributionEvaluation("p", metrics), results)
    run.test(Supervised(tiny_classifier(network, **sizes)), datamodule=data, verbose=False)
    assert results.table is not None
    return results.table[results.table["preset"] == "p"].set_index(["method", "metric"]), data


def test_an_occlusion_encodes_the_text_and_one_segment_for_each_token(tmp_path):
    table, data = results_of(tmp_path, "plm_ca")
    rows = data.split("test")
    inputs = data.collate(rows[list(range(len(rows)))]).inputs
    tokens, segments = inputs.token_mask.sum(dim=1), -(-inputs.attention_mask.sum(dim=1) // SIZE)
    versions = 1 + tokens
    for metric in ("comprehensiveness", "entropy"):
        row = table.loc[("Occlusion", metric)]
        assert row["version_segments"] == pytest.approx(float((versions * segments).sum() / versions.sum()))
        assert row["encoded_segments"] == pytest.approx(float((segments + tokens).sum() / versions.sum()))
    assert table.loc["Gradient", "encoded_segments"].isna().all()


def test_a_metric_has_segments_of_its_own_and_one_without_versions_has_none(tmp_path):
    table, _ = results_of(tmp_path, "plm_ca")
    erased = table.xs("comprehensiveness", level="metric")
    assert (erased["metric_encoded_segments"] < erased["metric_version_segments"]).all()
    assert table.xs("entropy", level="metric")["metric_encoded_segments"].isna().all()


@pytest.mark.slow
def test_segments_do_not_depend_on_the_batch(tmp_path):
    columns = ["version_segments", "encoded_segments", "metric_version_segments", "metric_encoded_segments"]
    one, many = (results_of(tmp_path, "plm_ca", eval_batch_size=size)[0][columns] for size in (1, 32))
    pd.testing.assert_frame_equal(one, many)


def test_other_networks_have_no_segments(tmp_path):
    table, _ = results_of(tmp_path, "bert")
    assert table[["encoded_segments", "metric_encoded_segments"]].isna().all(axis=None)
