"""Which texts a preflight tries, in which precision, and that it writes nothing."""

import pytest
import torch

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.callbacks.attribution_cache import AttributionCacheWriter
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.callbacks.preflight.short_texts import typical_rows
from lightning_xai.data.sources.planted import Planted
from tests.callbacks.conftest import Recorder, compute, planted_data
from tests.callbacks.preflight.test_preflight import Broken, silent


class EvidenceInOneText(Planted):
    """Texts of which only the third of a split has evidence, for its own class or for another one."""

    of_gold = True

    def load(self):
        def kept(row, place):
            spans = row["rationales"] if place == 2 else []
            shift = 0 if self.of_gold else 1
            return {"rationales": [span | {"label": (span["label"] + shift) % 3} for span in spans]}

        return super().load().map(kept, with_indices=True)


@pytest.mark.parametrize("of_gold", [True, False])
def test_one_text_with_and_one_without_evidence_are_tried_where_both_exist(of_gold):
    source = EvidenceInOneText(num_classes=3, num_train=8, num_validation=6, num_test=7, words_per_document=(4, 10))
    source.of_gold = of_gold
    rows = planted_data(source=source).split("test")
    assert typical_rows(rows, len(rows)) == [2, 0]
    assert typical_rows(rows, 2) == [0, 1] and typical_rows(rows, 1) == [0]


@pytest.mark.parametrize(("precision", "is_mixed"), [("32-true", False), ("bf16-mixed", True)])
@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_network_passes_are_in_the_precision_of_the_run(objective, tmp_path, stage, precision, is_mixed):
    seen = []
    objective.network.register_forward_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    run = silent(tmp_path, Preflight(), compute(Broken(ValueError("no"))), Recorder(), precision=precision)
    with pytest.raises(ValueError, match="1 part does not work"):
        getattr(run, stage)(objective, datamodule=planted_data())
    in_full_precision = 1  # the prediction that chooses the classes to explain
    assert seen.count(not is_mixed) == (in_full_precision if is_mixed else 0) and seen.count(is_mixed) >= 2


def test_nothing_is_written(objective, tmp_path):
    callbacks = compute(Gradient(), Broken(ValueError("no"))), AttributionCacheWriter()
    with pytest.raises(ValueError, match="work with HFClassifier: .1. method Broken"):
        silent(tmp_path, Preflight(), *callbacks).test(objective, datamodule=planted_data(), verbose=False)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
