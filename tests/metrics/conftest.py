"""A random linear classifier and random explained batches for tests of metrics."""

from functools import partial

import torch

from lightning_xai.types import Attribution, Batch
from tests.conftest import VOCAB_SIZE, text_inputs

NUM_CLASSES = 4

numbers = partial(torch.tensor, dtype=torch.float64)


def bag_of_words(inputs, embed_mask=None, *, multilabel=True):
    """Returns probabilities [B, C] in float64 of a linear model of tokens and their places; ids of 0 count too."""
    weights = torch.randn(VOCAB_SIZE, NUM_CLASSES, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    mask = inputs.attention_mask if embed_mask is None else inputs.attention_mask & embed_mask
    place = 1 + 0.1 * inputs.attention_mask.cumsum(dim=1)
    logits = torch.einsum("btc,bt->bc", weights[inputs.input_ids], mask.double() * place) / 3
    return logits.sigmoid() if multilabel else logits.softmax(dim=-1)


def explained_batch(
    lengths: list[int], *, seed: int = 0, pad_to: int | None = None, num_targets: int = 3
) -> tuple[Attribution, Batch]:
    """Returns a multi-label batch with rationales, and its attribution for `num_targets` classes an example."""
    inputs = text_inputs(lengths, seed=seed, pad_to=pad_to)
    width = inputs.input_ids.shape[1]
    rows: dict[str, list[torch.Tensor]] = {"targets": [], "annotated": [], "scores": [], "marked": [], "labels": []}
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(100 * seed + row)
        rows["targets"].append(torch.randperm(NUM_CLASSES, generator=generator)[:num_targets].sort().values)
        rows["annotated"].append(torch.randperm(NUM_CLASSES, generator=generator)[:2])
        random = torch.rand(num_targets + 2, length, generator=generator, dtype=torch.float64)
        padded = torch.nn.functional.pad(random, (0, width - length))
        rows["scores"].append((padded[:num_targets] * 20).round() / 20)  # some ties
        rows["marked"].append((padded[num_targets:] > 0.6).float() * inputs.token_mask[row])
        rows["labels"].append((torch.rand(NUM_CLASSES, generator=generator) < 0.6).float())
    targets, annotated, scores, marked, labels = (torch.stack(tensors) for tensors in rows.values())
    target_mask = torch.ones_like(targets, dtype=torch.bool)
    target_mask[::3, -1] = False
    rationale = Attribution(marked, annotated, torch.ones_like(annotated, dtype=torch.bool), inputs.token_mask)
    return Attribution(scores, targets, target_mask, inputs.token_mask), Batch(inputs, labels, rationale)


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
