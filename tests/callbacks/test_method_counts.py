"""Counts of methods, summed over processes."""

from collections import Counter
from types import SimpleNamespace

from lightning_xai.callbacks.method_counts import clear_counts, counts_of_methods, lines_of_counts


def test_counts_of_all_processes_are_summed_and_methods_without_counts_have_no_line():
    first = counts_of_methods({"faml": SimpleNamespace(kept_steps=Counter({10: 1, 2: 3})), "random": object()})
    second = counts_of_methods({"faml": SimpleNamespace(kept_steps=Counter({2: 1})), "random": object()})
    assert lines_of_counts([first, second]) == [
        "faml: tuning steps that gave the best scores (number of explanations): 2 (4), 10 (1)"
    ]


def test_a_copy_outlives_the_counts_of_the_method():
    method = SimpleNamespace(kept_steps=Counter({2: 3}))
    copied = counts_of_methods({"faml": method})
    clear_counts({"faml": method, "random": object()})
    assert not method.kept_steps and copied["faml"]["kept_steps"] == {2: 3}
