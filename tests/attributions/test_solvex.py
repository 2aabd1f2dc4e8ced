from dataclasses import replace
from itertools import combinations, permutations

import pytest
import torch

from lightning_xai.attributions.base import explaining
from lightning_xai.attributions.solvex import Solvex, signed_ranks
from lightning_xai.functional.erasure.erase import erase
from tests.conftest import text_inputs, tiny_classifier

METRICS = ["comp", "suff", "comp_suff"]


def test_the_offset_makes_most_signs_agree_with_the_effects():
    ranks = torch.tensor([[2, 0, 3, 1]])
    effects = torch.tensor([[0.2, -0.3, 0.1, -0.1]], dtype=torch.float64)
    assert signed_ranks(ranks, effects, ranks >= 0).tolist() == [[0.5, -1.5, 1.5, -0.5]]


def test_the_smallest_of_equally_good_offsets_is_taken():
    ranks = torch.tensor([[0, 1]])
    effects = torch.tensor(
        [[0.5, -0.5]], dtype=torch.float64
    )  # one sign agrees with an offset below both ranks, and above both
    assert signed_ranks(ranks, effects, ranks >= 0).tolist() == [[0.5, 1.5]]


def test_missing_units_do_not_count():
    ranks = torch.tensor([[1, 0, -1, -1]])
    effects = torch.tensor([[0.5, -0.5, 0.0, 0.0]], dtype=torch.float64)
    assert signed_ranks(ranks, effects, ranks >= 0).tolist() == [[0.5, -0.5, 0, 0]]


def objectives_of_all_orders(model, inputs, target, metric, how):
    """Returns the objective of every order of the units, from one forward pass for each set of them."""
    units = range(int(inputs.token_mask.sum()))
    probs = {}
    for size in range(len(units) + 1):
        for erased_units in combinations(units, size):
            keep = torch.ones_like(inputs.token_mask)
            keep[0, [unit + 1 for unit in erased_units]] = False
            erased = erase(inputs, keep, how)[0].trim()
            probs[frozenset(erased_units)] = float(model(erased).logits.softmax(dim=-1)[0, target])

    def gain(order, k):
        comp = probs[frozenset()] - probs[frozenset(order[:k])]
        suff = probs[frozenset(order[k:])] - probs[frozenset()]
        return {"comp": comp, "suff": suff, "comp_suff": comp + suff}[metric]

    return {order: sum(gain(order, k + 1) for k in units) for order in permutations(units)}


@pytest.fixture(scope="module")
def network():
    return tiny_classifier("bert").double()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("how", ["delete", "mask"])
def test_the_exact_order_is_the_best_of_all(network, metric, how):
    inputs = text_inputs([6])
    with torch.no_grad():
        expected = objectives_of_all_orders(network, inputs, 2, metric, how)
    best = max(expected, key=lambda order: expected[order])
    ranks, total = Solvex(metric, 1, exact_up_to=4, erasure=how).solve(network, inputs, torch.tensor([[2]]))
    assert float(total) == pytest.approx(expected[best], abs=1e-10)
    assert ranks[0, 0].argsort(descending=True).tolist() == list(best)


def authors(golden, name, metric, how, max_examples):
    """Returns the golden case, the authors' records for one setting, and the explained labels [B, 1]."""
    case = golden("solvex", name, max_examples=max_examples)
    suppression = {"delete": "remove", "mask": "mask"}[how]
    records = [record["outputs"][suppression][metric.replace("_", "-")] for record in case.outputs]
    return case, records, torch.tensor([[record["label"]] for record in records])


GOLDEN_CASES = [
    *(
        (name, metric, how, 2)
        for name in ("tiny-bert", "tiny-roberta")
        for metric in METRICS
        for how in ("delete", "mask")
    ),
    ("tiny-roberta", "comp_suff", "mask", 3),
    ("minilm", "comp_suff", "delete", 1),
]  # name, metric, how, number of examples: more of them take minutes


@pytest.mark.parametrize("name, metric, how, count", GOLDEN_CASES)
def test_ranks_and_objectives_are_those_of_the_authors_code(golden, name, metric, how, count):
    case, records, labels = authors(golden, name, metric, how, count)
    with explaining(case.model, "cpu"):
        ranks, totals = Solvex(metric, 10, beams="orders", erasure=how).solve(case.model, case.inputs, labels)
    for row, record in enumerate(records):
        assert ranks[row, 0, : len(record["ranks"])].tolist() == record["ranks"]
        assert float(totals[row]) == pytest.approx(record["score"], abs=1e-8)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta"])
def test_scores_are_those_of_the_authors_code(golden, name, metric):
    case, records, labels = authors(golden, name, metric, "mask", 2)
    scores = Solvex(metric, 10, beams="orders").attribute(case.model, case.inputs, labels).scores
    for row, record in enumerate(records):
        assert scores[row, 0, case.inputs.token_mask[row]].tolist() == record["exp"]


@pytest.mark.parametrize("metric", ["suff", "comp_suff"])
def test_a_beam_of_sets_reaches_the_optimum_that_the_authors_beam_misses(golden, metric):
    case, records, labels = authors(golden, "tiny-roberta", metric, "delete", 2)
    _, total = Solvex(metric, 10, erasure="delete").solve(case.model, case.inputs[[1]].trim(), labels[[1]])
    assert records[1]["score"] < records[1]["brute_force_optimum"] - 1e-3
    assert float(total) == pytest.approx(records[1]["brute_force_optimum"], abs=1e-8)


def test_a_multilabel_class_is_explained_by_its_own_probability():
    model = tiny_classifier("bert", multilabel=True).double()
    inputs = text_inputs([3])
    _, total = Solvex("comp", 1).solve(model, inputs, torch.tensor([[0, 2]]))
    erased, _ = erase(inputs, torch.zeros_like(inputs.token_mask), "mask")
    with torch.no_grad():
        expected = model(inputs).logits.sigmoid() - model(erased).logits.sigmoid()
    torch.testing.assert_close(total, expected[:, [0, 2]], rtol=0, atol=1e-12)


def test_tokens_of_a_word_share_its_rank(network):
    inputs = text_inputs([9], seed=3)
    ranks, _ = Solvex("comp", 4, unit="word").solve(network, inputs, torch.tensor([[1]]))
    scores = Solvex("comp", 4, unit="word").attribute(network, inputs, torch.tensor([[1]])).scores[0, 0]
    assert inputs.word_ids is not None
    words = inputs.word_ids[0]
    totals = torch.stack([scores[words == word].sum() for word in range(int(words.max()) + 1)])
    assert ranks.shape[-1] == len(totals) < 7
    assert totals.argsort(descending=True).tolist() == ranks[0, 0].argsort(descending=True).tolist()


def test_texts_without_and_with_one_explainable_token(network):
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
    with pytest.raises(ValueError, match=r"Solvex gave non-finite scores for the examples with indices \[1\]"):
        Solvex(beam_size=2).attribute(network, text_inputs([5, 7]), torch.tensor([[0], [0]]))
    handle.remove()


def test_inputs_without_word_ids_are_refused(network):
    inputs = replace(text_inputs([5]), word_ids=None)
    with pytest.raises(ValueError, match="word_ids is None"):
        Solvex(unit="word").attribute(network, inputs, torch.tensor([[0]]))


@pytest.mark.parametrize("arguments", [{"beam_size": 0}, {"exact_up_to": 50}, {"chunk_size": 0}])
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} is"):
        Solvex(**arguments)
