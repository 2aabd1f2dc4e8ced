"""Counts of methods, summed over processes."""

from lightning_xai.attributions.aml import AMLAttribution
from lightning_xai.attributions.llm_ranking import LLMRanking
from lightning_xai.attributions.random import Random
from lightning_xai.attributions.transformed import Transformed
from lightning_xai.callbacks.method_counts import clear_counts, counts_of_methods, lines_of_counts


def faml(*kept_steps):
    method = AMLAttribution("runs/aml/seed0")
    method.kept_steps.update(kept_steps)
    return method


def test_counts_of_all_processes_are_summed_and_methods_without_counts_have_no_line():
    first = counts_of_methods({"faml": faml(10, 2, 2, 2), "random": Random()})
    second = counts_of_methods({"faml": faml(2), "random": Random()})
    assert lines_of_counts([first, second]) == [
        "faml: tuning steps that gave the best scores (number of explanations): 2 (4), 10 (1)"
    ]


def test_a_copy_outlives_the_counts_of_the_method():
    method = faml(2, 2, 2)
    copied = counts_of_methods({"faml": method})
    clear_counts({"faml": method, "random": Random()})
    assert not method.kept_steps and copied["faml"]["kept_steps"] == {2: 3}


def test_counts_of_a_wrapped_method_are_those_of_the_wrapper():
    method = faml(3)
    wrapper = Transformed(Transformed(method, ["absolute"]), ["normalize"])
    assert counts_of_methods({"normalized": wrapper})["normalized"]["kept_steps"] == {3: 1}
    clear_counts({"normalized": wrapper})
    assert not method.kept_steps


def test_answers_of_a_language_model_are_reported():
    method = LLMRanking("no/folder", ["bad", "good"])
    method.answers.update(answers=1, ranked=1, dropped=0, useless=0)
    assert lines_of_counts([counts_of_methods({"llm": method})]) == [
        "llm: 1 answer of the language model ranked 1 word and named 0 words that are not in the text; 0 answers named "
        "no word of the text"
    ]
