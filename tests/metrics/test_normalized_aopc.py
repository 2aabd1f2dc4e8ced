"""The bounds of AOPC against all orders of erasure, and how often they are searched."""

from dataclasses import replace
from itertools import combinations, permutations
from typing import Any, cast

import pytest
import torch

from lightning_xai.functional.erasure.erase import erase
from lightning_xai.metrics.normalized_aopc import NormalizedAOPC, OrderSearch, normalized_aopc
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Ranking
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs
from tests.metrics.conftest import bag_of_words, explained_batch


def test_naopc_is_the_place_between_the_bounds():
    values = [torch.tensor([value], dtype=torch.float64) for value in (0.3, 0.1, 0.5)]
    assert float(normalized_aopc(*values)) == pytest.approx(0.5)


def test_naopc_is_undefined_where_all_orders_are_worth_the_same():
    assert normalized_aopc(torch.ones(1), torch.ones(1), torch.ones(1)).isnan()


def test_naopc_is_undefined_where_the_bounds_differ_by_rounding_only():
    lower, aopc, upper = (torch.tensor([value], dtype=torch.float64) for value in (0.5, 0.5 + 3e-8, 0.5 + 6e-8))
    assert normalized_aopc(aopc, lower, upper).isnan()
    assert float(normalized_aopc(aopc, lower, upper + 1e-5)) < 0.01


def aopc_of_all_orders(inputs, target, units, how="mask"):
    """Returns the AOPC of every order of the units, which are tuples of token places."""
    drops = {}
    for size in range(1, len(units) + 1):
        for gone in combinations(units, size):
            keep = torch.ones_like(inputs.token_mask)
            keep[0, [place for unit in gone for place in unit]] = False
            changed = bag_of_words(*erase(inputs, keep, how))
            drops[frozenset(gone)] = float((bag_of_words(inputs) - changed)[0, target])
    beginnings = {order: [frozenset(order[: k + 1]) for k in range(len(units))] for order in permutations(units)}
    return {order: sum(drops[gone] for gone in sets) / len(units) for order, sets in beginnings.items()}


def all_orders(inputs, target, how="mask"):
    """Returns the AOPC of every order of the tokens, as a tuple of places."""
    places = inputs.token_mask[0].nonzero().flatten().tolist()
    aopcs = aopc_of_all_orders(inputs, target, [(place,) for place in places], how)
    return {sum(order, ()): value for order, value in aopcs.items()}


def ranking(inputs, target, order):
    """Returns the attribution that ranks the places in the given order, and its batch."""
    scores = torch.zeros(1, 1, inputs.input_ids.shape[1])
    scores[0, 0, list(order)] = torch.arange(len(order), 0, -1).float()
    ones = torch.ones(1, 1, dtype=torch.bool)
    return Attribution(scores, torch.tensor([[target]]), ones, inputs.token_mask), Batch(inputs, torch.ones(1, 4))


def values_of(attribution, batch, predict=bag_of_words, **arguments):
    search = {key: arguments.pop(key) for key in ("beam_size", "exact_up_to", "max_units") if key in arguments}
    metric = NormalizedAOPC(name="n", search=OrderSearch(**search), **({"explained": "all"} | arguments))
    metric.update(attribution, batch, predict)
    return {name.removeprefix("n/"): float(value) for name, value in metric.compute().items()}


@pytest.mark.parametrize("how", ["mask", "delete", "pad", "embed_zero"])
@pytest.mark.parametrize("arguments", [{"exact_up_to": 5}, {"exact_up_to": 0, "beam_size": 10}])
def test_bounds_equal_those_of_all_orders(how, arguments):
    inputs = text_inputs([7], seed=4)
    aopcs = all_orders(inputs, 2, how)
    order = (3, 1, 5, 2, 4)
    values = values_of(*ranking(inputs, 2, order), erasure=how, **arguments)
    assert values["lower"] == pytest.approx(min(aopcs.values()))
    assert values["upper"] == pytest.approx(max(aopcs.values()))
    assert values["aopc"] == pytest.approx(aopcs[order])
    assert values["n"] == pytest.approx((aopcs[order] - values["lower"]) / (values["upper"] - values["lower"]))


@pytest.mark.parametrize("pick, expected", [(max, 1), (min, 0)])
def test_the_best_order_has_one_and_the_worst_zero(pick, expected):
    inputs = text_inputs([7], seed=4)
    aopcs = all_orders(inputs, 1)
    assert values_of(*ranking(inputs, 1, pick(aopcs, key=aopcs.get)))["n"] == pytest.approx(expected, abs=1e-9)


def test_sufficiency_reads_the_reverse_order():
    inputs = text_inputs([7], seed=4)
    order = (3, 1, 5, 2, 4)
    values = values_of(*ranking(inputs, 1, order), order="sufficiency")
    assert values == pytest.approx(values_of(*ranking(inputs, 1, order[::-1])))


def test_a_beam_stays_within_the_exact_bounds():
    attribution, batch = explained_batch([11, 9])
    exact = values_of(attribution, batch, exact_up_to=9)
    for beam_size in (1, 3):
        values = values_of(attribution, batch, exact_up_to=0, beam_size=beam_size)
        assert exact["lower"] - 1e-12 <= values["lower"] < values["upper"] <= exact["upper"] + 1e-12
        assert values["aopc"] == pytest.approx(exact["aopc"])


def test_words_are_erased_together():
    inputs = text_inputs([9], seed=3)
    assert inputs.word_ids is not None
    words = inputs.word_ids[0]
    units = [tuple((words == word).nonzero().flatten().tolist()) for word in range(int(words.max()) + 1)]
    aopcs = aopc_of_all_orders(inputs, 1, units)
    values = values_of(*ranking(inputs, 1, range(1, 8)), ranking=Ranking("word"))
    assert len(units) < 7
    assert (values["lower"], values["upper"]) == pytest.approx((min(aopcs.values()), max(aopcs.values())))


def test_texts_without_a_choice_of_order_are_skipped():
    attribution, batch = explained_batch([2, 3, 6], num_targets=2)
    values = values_of(attribution, batch)
    assert values["num_skipped"] == int(attribution.target_mask[:2].sum())
    assert values["num_examples"] == 2


def test_texts_longer_than_max_units_are_skipped():
    attribution, batch = explained_batch([9, 6])
    values = values_of(attribution, batch, max_units=6)
    short_text = values_of(attribution[1:], batch[1:])
    assert (values.pop("num_skipped"), short_text.pop("num_skipped")) == (2, 0)
    assert values == pytest.approx(short_text)


class Counted:
    def __init__(self):
        self.rows = 0

    def __call__(self, inputs, embed_mask=None):
        self.rows += len(inputs)
        return bag_of_words(inputs, embed_mask)


def test_bounds_are_searched_once_for_all_attributions_and_both_orders():
    attribution, batch = explained_batch([9, 12])
    opposite = replace(attribution, scores=-attribution.scores)
    counted = Counted()
    shared = PredictOnce(counted, batch.inputs)
    first = values_of(attribution, batch, shared)
    searched = counted.rows
    second = values_of(opposite, batch, shared)
    values_of(opposite, batch, shared, order="sufficiency")
    assert counted.rows - searched <= 2 * 3 * (7 + 10)  # k = 1 ... N of at most three classes, twice
    assert (first["lower"], first["upper"]) == (second["lower"], second["upper"])
    assert second == pytest.approx(values_of(opposite, batch))


@pytest.mark.parametrize("change", [{"erasure": "delete"}, {"ranking": Ranking("word")}, {"beam_size": 1}])
def test_definitions_do_not_share_bounds_that_differ(change):
    attribution, batch = explained_batch([9, 12])
    shared = PredictOnce(bag_of_words, batch.inputs)
    values_of(attribution, batch, shared, exact_up_to=0)
    assert values_of(attribution, batch, shared, exact_up_to=0, **change) == pytest.approx(
        values_of(attribution, batch, exact_up_to=0, **change)
    )


def test_words_that_are_not_known_are_refused():
    attribution, batch = explained_batch([6])
    batch = replace(batch, inputs=replace(batch.inputs, word_ids=None))
    with pytest.raises(ValueError, match="have no word_ids"):
        values_of(attribution, batch, ranking=Ranking("word"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"beam_size": 0}, "beam_size is 0"),
        ({"exact_up_to": 30}, "exact_up_to is 30"),
        ({"max_units": 0}, "max_units is 0"),
    ],
)
def test_searches_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        OrderSearch(**arguments)


def test_unknown_orders_are_refused():
    with pytest.raises(ValueError, match="order is 'reverse'"):
        NormalizedAOPC(order=cast(Any, "reverse"))


def test_only_sufficiency_is_better_when_lower():
    assert NormalizedAOPC().higher_is_better and not NormalizedAOPC(order="sufficiency").higher_is_better
