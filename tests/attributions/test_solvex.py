from dataclasses import replace
from itertools import permutations

import pytest
import torch

from lightning_xai.attributions.base import explaining
from lightning_xai.attributions.solvex import Solvex, signed_ranks
from lightning_xai.functional.erasure import erase
from tests.conftest import text_inputs, tiny_classifier

METRICS = ["comp", "suff", "comp_suff"]


def test_zero_lies_where_most_signs_agree_with_the_effects():
    ranks = torch.tensor([[2, 0, 3, 1]])
    effects = torch.tensor([[0.2, -0.3, 0.1, -0.1]], dtype=torch.float64)
    assert signed_ranks(ranks, effects, ranks >= 0).tolist() == [[0.5, -1.5, 1.5, -0.5]]


def test_the_lowest_of_equally_good_zeros_is_taken():
    ranks = torch.tensor([[0, 1]])
    effects = torch.tensor([[0.5, -0.5]], dtype=torch.float64)  # one sign agrees below both ranks, and above both
    assert signed_ranks(ranks, effects, ranks >= 0).tolist() == [[0.5, 1.5]]


def test_units_that_do_not_exist_have_no_say():
    ranks = torch.tensor([[1, 0, -1, -1]])
    effects = torch.tensor([[0.5, -0.5, 0.0, 0.0]], dtype=torch.float64)
    assert signed_ranks(ranks, effects, ranks >= 0).tolist() == [[0.5, -0.5, 0, 0]]


def objectives(model, inputs, target, metric, how, order):
    """Returns the sum over k by one forward pass for every erased text."""

    def prob(erased):
        keep = torch.ones_like(inputs.token_mask)
        keep[0, [place + 1 for place in erased]] = False
        return float(model(*_embedded(model, *erase(inputs, keep, how))).logits.softmax(-1)[0, target])

    total, whole = 0.0, prob([])
    for k in range(1, len(order) + 1):
        comp = whole - prob(order[:k])
        suff = prob(order[k:]) - whole
        total += {"comp": comp, "suff": suff, "comp_suff": comp + suff}[metric]
    return total


def _embedded(model, inputs, embed_mask):
    inputs = inputs.trim()
    return inputs, None if embed_mask is None else model.embed(inputs) * embed_mask.unsqueeze(-1)


@pytest.fixture(scope="module")
def network():
    return tiny_classifier("bert").double()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("how", ["delete", "mask"])
def test_the_exact_order_is_the_best_of_all(network, metric, how):
    inputs = text_inputs([6])
    with torch.no_grad():
        orders = list(permutations(range(4)))
        wanted = {order: objectives(network, inputs, 2, metric, how, list(order)) for order in orders}
    best = max(wanted, key=wanted.get)
    ranks, found = Solvex(metric, 1, exact_up_to=4, erasure=how).solve(network, inputs, torch.tensor([[2]]))
    assert float(found) == pytest.approx(wanted[best], abs=1e-10)
    assert ranks[0, 0].argsort(descending=True).tolist() == list(best)


def authors(golden, name, metric, how, max_examples):
    """Returns the golden examples, their records of one setting, and the labels [B, 1] that are explained."""
    given = golden("solvex", name, max_examples=max_examples)
    suppression = {"delete": "remove", "mask": "mask"}[how]
    records = [record["outputs"][suppression][metric.replace("_", "-")] for record in given.outputs]
    return given, records, torch.tensor([[record["label"]] for record in records])


GOLDEN_CASES = [
    (name, metric, how, 3) for name in ("tiny-bert", "tiny-roberta") for metric in METRICS for how in ("delete", "mask")
]


@pytest.mark.parametrize("name, metric, how, count", [*GOLDEN_CASES, ("minilm", "comp_suff", "delete", 1)])
def test_ranks_and_objectives_equal_the_authors(golden, name, metric, how, count):
    given, records, labels = authors(golden, name, metric, how, count)
    with explaining(given.model, "cpu"):
        ranks, totals = Solvex(metric, 10, beams="orders", erasure=how).solve(given.model, given.inputs, labels)
    for row, record in enumerate(records):
        assert ranks[row, 0, : len(record["ranks"])].tolist() == record["ranks"]
        assert float(totals[row]) == pytest.approx(record["score"], abs=1e-8)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta"])
def test_scores_equal_the_authors(golden, name, metric):
    given, records, labels = authors(golden, name, metric, "mask", 3)
    scores = Solvex(metric, 10, beams="orders").attribute(given.model, given.inputs, labels).scores
    for row, record in enumerate(records):
        assert scores[row, 0, given.inputs.token_mask[row]].tolist() == record["exp"]


def test_a_beam_of_sets_reaches_the_optimum_that_the_authors_beam_misses(golden):
    given = golden("solvex", "tiny-roberta", max_examples=2)  # at most 7 units
    record = given.outputs[1]["outputs"]["remove"]["suff"]
    given_row = given.inputs[[1]].trim(), torch.tensor([[record["label"]]])
    _, found = Solvex("suff", 10, erasure="delete").solve(given.model, *given_row)
    assert record["score"] - 1e-8 <= float(found) <= record["brute_force_optimum"] + 1e-8


def test_tokens_of_a_word_share_its_rank(network):
    inputs = text_inputs([9], seed=3)
    ranks, _ = Solvex("comp", 4, unit="word").solve(network, inputs, torch.tensor([[1]]))
    scores = Solvex("comp", 4, unit="word").attribute(network, inputs, torch.tensor([[1]])).scores[0, 0]
    words = inputs.word_ids[0]
    totals = torch.stack([scores[words == word].sum() for word in range(int(words.max()) + 1)])
    assert ranks.shape[-1] == len(totals) < 7
    assert totals.argsort(descending=True).tolist() == ranks[0, 0].argsort(descending=True).tolist()


def test_texts_of_no_and_of_one_token_are_ranked(network):
    scores = Solvex(beam_size=2).attribute(network, text_inputs([2, 3]), torch.tensor([[0, 1], [0, 1]])).scores
    assert not scores[0].any()
    assert (scores[1, :, 1].abs() == 0.5).all() and not scores[1][:, [0, 2]].any()


def test_special_tokens_have_no_score(network):
    inputs = text_inputs([7, 5])
    scores = Solvex(beam_size=2).attribute(network, inputs, torch.tensor([[0], [0]])).scores
    assert not scores.masked_select(~inputs.token_mask.unsqueeze(1)).any()


def test_probabilities_that_are_not_finite_name_their_example(network):
    def broken(module, arguments, output):
        output.logits[arguments[0].attention_mask.sum(dim=1) == 7] = torch.nan

    handle = network.register_forward_hook(broken)
    with pytest.raises(ValueError, match=r"Solvex gave non-finite scores for examples \[1\]"):
        Solvex(beam_size=2).attribute(network, text_inputs([5, 7]), torch.tensor([[0], [0]]))
    handle.remove()


def test_words_that_are_not_known_are_refused(network):
    inputs = replace(text_inputs([5]), word_ids=None)
    with pytest.raises(ValueError, match="word_ids is None"):
        Solvex(unit="word").attribute(network, inputs, torch.tensor([[0]]))


@pytest.mark.parametrize("arguments", [{"beam_size": 0}, {"exact_up_to": 50}, {"chunk_size": 0}])
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} is"):
        Solvex(**arguments)
