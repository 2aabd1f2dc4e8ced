from itertools import permutations

import pytest
import torch

from lightning_xai.functional.erasure import beam_search
from lightning_xai.functional.erasure.beam_search import best_orders, most_sets, require_search

SIZES = [6, 0, 4, 1, 6, 5]


def tables(seed=0):
    """Returns a random value for every set of 6 units, [P, 2^6]; bit u of the column says whether unit u is in it."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(SIZES), 64, generator=generator, dtype=torch.float64)


class Game:
    """Looks the values of sets up in a table, and keeps the sets that were asked for."""

    def __init__(self, table):
        self.table = table
        self.calls = []

    def __call__(self, problem, chosen):
        bits = (chosen.long() << torch.arange(chosen.shape[1])).sum(dim=1)
        self.calls.append(list(zip(problem.tolist(), bits.tolist(), strict=True)))
        return self.table[problem, bits]


def total_of(table, order):
    return sum(float(table[sum(1 << unit for unit in order[: k + 1])]) for k in range(len(order)))


def search(table, sizes=None, **arguments):
    sizes = SIZES if sizes is None else sizes
    return best_orders(Game(table), torch.tensor(sizes), **({"beam_size": 3} | arguments))


@pytest.mark.parametrize("arguments", [{"beam_size": 20}, {"beam_size": 1, "exact_up_to": 6}])
def test_a_full_beam_finds_the_best_of_all_orders(arguments):
    table = tables()
    orders = search(table, **arguments)
    best = [max(total_of(table[p], order) for order in permutations(range(size))) for p, size in enumerate(SIZES)]
    assert orders.totals.tolist() == pytest.approx(best)


@pytest.mark.parametrize("beams", ["sets", "orders"])
def test_the_total_is_that_of_the_order(beams):
    table = tables()
    orders = search(table, beams=beams)
    for p, size in enumerate(SIZES):
        order = orders.positions[p, :size].argsort().tolist()
        assert sorted(orders.positions[p, :size].tolist()) == list(range(size))
        assert float(orders.totals[p]) == pytest.approx(total_of(table[p], order))
        assert (orders.positions[p, size:] == 6).all()


def greedy_with_orders(table, size, beam_size):
    """Returns the best total of a beam in which two orders of one set count twice, by a loop over orders."""
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(size):
        longer = [(*order, unit) for order, _ in beam for unit in range(size) if unit not in order]
        beam = sorted(((order, total_of(table, order)) for order in longer), key=lambda entry: -entry[1])[:beam_size]
    return beam[0]


@pytest.mark.parametrize("beam_size", [1, 3, 7])
def test_a_beam_of_orders_equals_a_loop(beam_size):
    table = tables(seed=2)
    orders = search(table, beam_size=beam_size, beams="orders")
    for p, size in enumerate(SIZES):
        order, total = greedy_with_orders(table[p], size, beam_size)
        assert float(orders.totals[p]) == pytest.approx(total)
        assert orders.positions[p, :size].argsort().tolist() == list(order)


def test_no_beam_exceeds_the_exact_total():
    exact = search(tables(), exact_up_to=6).totals
    for beam_size in (1, 2, 4, 8):
        assert (search(tables(), beam_size=beam_size).totals <= exact + 1e-12).all()


def test_a_wider_beam_finds_no_worse_orders_here():
    totals = torch.stack([search(tables(), beam_size=beam_size).totals for beam_size in (1, 2, 4, 8, 16, 20)])
    assert (totals.diff(dim=0) >= -1e-12).all()
    assert (totals[-1] > totals[0]).any()


def test_equal_totals_are_settled_by_place():
    orders = search(torch.zeros(2, 64, dtype=torch.float64), sizes=[5, 3])
    assert orders.positions.tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 5, 5]]


def test_no_set_is_asked_for_twice_and_all_problems_share_a_call():
    game = Game(tables())
    orders = best_orders(game, torch.tensor(SIZES), beam_size=3)
    asked = [entry for call in game.calls for entry in call]
    assert len(asked) == len(set(asked)) == int(orders.num_sets.sum())
    assert len(game.calls) == 6


def test_a_problem_alone_has_the_order_that_it_has_among_others():
    table = tables()
    together = search(table)
    for p, size in enumerate(SIZES):
        alone = best_orders(Game(table[p : p + 1]), torch.tensor([size]), beam_size=3)
        assert torch.equal(alone.positions[0, :size], together.positions[p, :size])


def test_a_bound_on_memory_changes_no_order(monkeypatch):
    wanted = search(tables())
    monkeypatch.setattr(beam_search, "_CANDIDATE_ELEMENTS", 150)
    orders = search(tables())
    assert torch.equal(orders.positions, wanted.positions) and torch.equal(orders.num_sets, wanted.num_sets)


def test_without_a_problem_there_is_no_order():
    assert search(tables(), sizes=[]).positions.shape == (0, 0)


@pytest.mark.parametrize("arguments", [{"beam_size": 3}, {"beam_size": 40}, {"beam_size": 1, "exact_up_to": 6}])
def test_sets_asked_for_are_at_most_those_stated(arguments):
    orders = search(tables(), **arguments)
    for p, size in enumerate(SIZES):
        assert int(orders.num_sets[p]) <= most_sets(size, 1, **arguments)
    if arguments["beam_size"] != 3:
        assert orders.num_sets.tolist() == [2**size - 1 for size in SIZES]


def test_most_sets_are_counted_by_hand():
    assert most_sets(4, 1, beam_size=1) == 4 + 3 + 2 + 1
    assert most_sets(4, 1, beam_size=2) == 4 + 2 * 3 + min(2 * 2, 4) + 1
    assert (
        most_sets(4, 2, beam_size=1) == 4 + 2 * 3 + 2 * 2 + 1
    )  # two searches could ask for 8, 6, 4, 2; there are 4, 6, 4, 1


@pytest.mark.parametrize(
    "arguments, message", [((0, 4), "beam_size is 0"), ((1, 21), "exact_up_to is 21"), ((1, -1), "exact_up_to is -1")]
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        require_search(*arguments)
