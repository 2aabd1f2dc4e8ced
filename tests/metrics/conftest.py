"""A random linear classifier and random explained batches for tests of metrics."""

from functools import partial

import torch

from lightning_xai.metrics.laws import NUM_CLASSES, bag_of_words, explained_batch
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs

__all__ = ["NUM_CLASSES", "bag_of_words", "explained_batch", "measured", "numbers", "rationale_of", "scripted"]

numbers = partial(torch.tensor, dtype=torch.float64)


def rationale_of(batch: Batch) -> Attribution:
    """Returns the rationale of a batch that has one."""
    assert batch.rationale is not None
    return batch.rationale


def scripted(probs):
    """Returns a Predict whose answer depends on the number of tokens left: `probs[number erased]`."""

    def predict(inputs, embed_mask=None):
        erased = len(probs) - 1 - inputs.token_mask.sum(dim=1)
        return numbers(probs)[erased].unsqueeze(1)

    return predict


def measured(metric, probs):
    inputs = text_inputs([len(probs) + 1])
    ones = torch.ones(1, 1, dtype=torch.bool)
    scores = torch.arange(len(probs) + 1, 0, -1).view(1, 1, -1).float()
    attribution = Attribution(scores, torch.zeros(1, 1, dtype=torch.long), ones, inputs.token_mask)
    metric.update(attribution, Batch(inputs, torch.ones(1, 1)), scripted(probs))
    return {name: float(value) for name, value in metric.compute().items()}
