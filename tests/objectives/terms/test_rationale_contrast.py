"""The contrast of rationale and rest, against a reference that takes one example at a time in float64."""

import math
from dataclasses import replace

import pytest
import torch

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.rationale_contrast import RationaleContrast
from lightning_xai.types import TextInputs
from tests.conftest import tiny_classifier
from tests.objectives.conftest import planted_batch


def contrast(network) -> Supervised:
    return Supervised(network, terms={"contrast": RationaleContrast()})


def reference(network, batch, row: int) -> float:
    """The value of one text, from its two erased versions."""
    inputs, label = batch.inputs[row : row + 1].trim(), int(batch.labels[row])
    ids, fill = inputs.input_ids[0].tolist(), inputs.baseline_ids[0].tolist()
    explained = inputs.token_mask[0].tolist()
    evidence = [score > 0 for score in batch.rationale.scores[row, 0].tolist()]

    def logit(keep_evidence: bool) -> float:
        changed = [fill[t] if explained[t] and evidence[t] != keep_evidence else ids[t] for t in range(len(ids))]
        return network(TextInputs.of_ids([changed], special_ids=[])).logits[0, label].item()

    rationale, rest = logit(True), logit(False)
    return -math.log(math.exp(rationale) / (math.exp(rationale) + math.exp(rest)))


def test_value_is_that_of_the_definition_for_one_example_at_a_time():
    network, batch = tiny_classifier("bert", dropout=0.0).double(), planted_batch()
    objective = contrast(network).eval()
    value = objective.term_values(batch, dict(objective.used_terms()))["contrast"]
    assert value.values.tolist() == pytest.approx([reference(network, batch, row) for row in range(len(batch))])


def test_texts_without_evidence_for_their_class_do_not_count():
    batch = planted_batch()
    assert batch.rationale is not None
    scores = batch.rationale.scores.clone()
    scores[0] = 0.0
    targets = batch.rationale.targets.clone()
    targets[1] = 1 - targets[1]
    batch = replace(batch, rationale=replace(batch.rationale, scores=scores, targets=targets))
    assert RationaleContrast().example_weights(batch).tolist() == [0.0, 0.0] + [1.0] * (len(batch) - 2)
    assert RationaleContrast().example_weights(replace(batch, rationale=None)).sum() == 0


@pytest.mark.slow
def test_training_makes_the_rationale_support_its_class_more_than_the_rest():
    network, batch = tiny_classifier("bert", dropout=0.0), planted_batch()
    objective = contrast(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        objective.losses(batch)["loss"].backward()
        optimizer.step()
    losses = objective.losses(batch)
    assert losses["contrast_margin"] > 1.0 and losses["contrast"] < math.log(2)


def test_multi_label_network_is_refused():
    with pytest.raises(ValueError, match="RationaleContrast needs one class per text: choose single-label data"):
        contrast(tiny_classifier("bert", multilabel=True))


@pytest.mark.slow
def test_data_without_evidence_are_refused(tmp_path):
    class Bare(Planted):
        def load(self):
            return super().load().remove_columns("rationales")

    data = TextDataModule(Bare(num_train=8), VocabularyEncoder(), cache_dir=str(tmp_path))
    with pytest.raises(ValueError, match="no rationales for gold classes, but RationaleContrast needs them"):
        RationaleContrast().check_data(data)
    RationaleContrast().check_data(TextDataModule(Planted(num_train=8), VocabularyEncoder(), cache_dir=str(tmp_path)))
