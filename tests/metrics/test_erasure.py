"""Erasing the top units of an attribution, against a loop and on numbers worked out by hand."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from lightning_xai.functional.erasure.erase import erase
from lightning_xai.metrics.faithfulness import Comprehensiveness, LogOdds, Sufficiency, comprehensiveness, log_odds
from lightning_xai.metrics.normalized_faithfulness import (
    NormalizedComprehensiveness,
    NormalizedSufficiency,
    normalized_comprehensiveness,
    normalized_sufficiency,
)
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.metrics.top_units import Counts, Percentages, Ranking
from lightning_xai.types import Attribution, Batch
from tests.conftest import text_inputs
from tests.metrics.conftest import bag_of_words, explained_batch, measured

SWEEP = [0.5, 0.1, 0.2, 0.3, 0.4]  # probability by number of erased tokens: drops of .4, .3, .2, .1


@pytest.mark.parametrize("aggregate, expected", [("mean", 0.25), ("sum_over_n_plus_1", 0.2)])
def test_mean_over_k_divides_by_n_or_by_one_more(aggregate, expected):
    metric = Comprehensiveness(Counts([1, 2, 3, 4]), aggregate=aggregate, explained="all")
    assert measured(metric, SWEEP)["comprehensiveness"] == pytest.approx(expected)


def test_each_k_gets_a_value_of_its_own():
    values = measured(Comprehensiveness(Counts([1, 3]), aggregate="per_k", name="c", explained="all"), SWEEP)
    assert (values["c/1"], values["c/3"]) == pytest.approx((0.4, 0.2))


def test_counts_beyond_the_text_erase_all_of_it():
    values = measured(Comprehensiveness(Counts([4, 50]), aggregate="per_k", name="c", explained="all"), SWEEP)
    assert values["c/50"] == values["c/4"] == pytest.approx(0.1)


def by_hand(metric, attribution, batch):
    """Returns the records [B, K, J] of a metric, from one prediction for each example, class and k."""
    records = torch.full((*attribution.targets.shape, len(metric.columns)), torch.nan, dtype=torch.float64)
    for b, k in attribution.target_mask.nonzero().tolist():
        inputs, target = batch.inputs[[b]], attribution.targets[b, k]
        prob = bag_of_words(inputs)[0, target]
        if metric.explained == "predicted" and prob <= 0.5:
            continue
        words = inputs.word_ids[0] if metric.ranking.unit == "word" else torch.arange(inputs.input_ids.shape[1])
        places = inputs.attention_mask[0] if metric.rank_special else inputs.token_mask[0]
        units: dict[int, list[int]] = {}
        for place in places.nonzero().flatten().tolist():
            units.setdefault(int(words[place]), []).append(place)
        totals = {word: attribution.scores[b, k, tokens].double().sum() for word, tokens in units.items()}
        order = sorted(units, key=lambda word: (-float(totals[word]), word))
        for j, percentage in enumerate(metric.sizes.percentages):
            count = -(-int(percentage) * len(units) // 100)
            top = torch.zeros_like(inputs.token_mask)
            for word in order[:count]:
                top[0, units[word]] = True
            keep = ~top if metric.erases_top else top
            changed = bag_of_words(*erase(inputs, keep, metric.erasure, pad_id=0))[0, target]
            if isinstance(metric, (NormalizedComprehensiveness, NormalizedSufficiency)):
                kept, _ = erase(inputs, top, metric.erasure)
                zeros = torch.zeros_like(kept.attention_mask)
                blank = replace(inputs, input_ids=torch.zeros_like(inputs.input_ids))
                empties = {"zero_embeddings": (kept, zeros), "zero_ids": (blank, None)}
                empty = bag_of_words(*empties[metric.empty])[0, target]
                form = normalized_comprehensiveness if metric.erases_top else normalized_sufficiency
                records[b, k, j] = form(prob, changed, empty)
            elif isinstance(metric, LogOdds):
                records[b, k, j] = log_odds(prob, changed)
            else:
                records[b, k, j] = comprehensiveness(prob, changed, clipped=metric.clipped)
    return records


PLAIN = product(
    [Comprehensiveness, Sufficiency, LogOdds],
    [
        {"erasure": "delete"},
        {"erasure": "mask", "ranking": Ranking("word")},
        {"erasure": "pad", "explained": "all"},
        {"erasure": "embed_zero", "explained": "all"},
        {"erasure": "delete", "rank_special": True, "explained": "all"},
    ],
)
NORMALIZED = product(
    [NormalizedComprehensiveness, NormalizedSufficiency],
    [
        {"erasure": "delete", "rank_special": True, "empty": "zero_embeddings"},
        {"erasure": "pad", "empty": "zero_ids"},
    ],
)


@pytest.mark.parametrize("kind, arguments", [*PLAIN, *NORMALIZED])
def test_records_equal_a_loop_over_examples_classes_and_k(kind, arguments):
    metric = kind(Percentages([5, 20, 50, 100]), **arguments)
    attribution, batch = explained_batch([7, 3, 12, 9])
    metric.update(attribution, batch, bag_of_words)
    expected = by_hand(metric, attribution, batch)
    keys, records = metric.table()
    rows = [(int(i), int(c)) for i, c in keys]
    places = [(i, attribution.targets[i].tolist().index(c)) for i, c in rows]
    rows_by_hand = torch.stack([expected[i, k] for i, k in places])
    torch.testing.assert_close(records, rows_by_hand, equal_nan=True, rtol=1e-12, atol=1e-12)
    assert len(rows) >= 3


def test_classes_that_share_a_ranking_are_predicted_once():
    attribution, batch = explained_batch([12])
    shared = replace(
        attribution, scores=attribution.scores[:, :1].expand_as(attribution.scores),
        target_mask=torch.ones_like(attribution.target_mask),
    )  # fmt: skip
    rows = []

    def predict(inputs, embed_mask=None):
        rows.append(len(inputs))
        return bag_of_words(inputs, embed_mask)

    metric = Comprehensiveness(Counts([0, 1, 2, 50, 60]), explained="predicted")
    metric.update(shared, batch, PredictOnce(predict, batch.inputs, decision_threshold=0.0))
    assert sum(rows) == 1 + 3  # the unerased text once, and one, two and all tokens erased


def test_token_mask_of_the_attribution_bounds_what_is_erased():
    attribution, batch = explained_batch([8])
    narrow = attribution.token_mask.clone()
    narrow[:, 4:] = False
    metric = Comprehensiveness(Percentages([100]), erasure="mask", explained="all")
    metric.update(replace(attribution, token_mask=narrow), batch, bag_of_words)
    kept, _ = erase(batch.inputs, ~narrow, "mask")
    expected = bag_of_words(batch.inputs) - bag_of_words(kept)
    keys, records = metric.table()
    torch.testing.assert_close(records[:, 0], expected[0, keys[:, 1]])


@pytest.mark.parametrize("length", [3, 5])  # 1 and 3 words, of which a fifth rounds down to 0
@pytest.mark.parametrize("kind", [Comprehensiveness, LogOdds])
def test_texts_too_short_for_any_erasure_change_nothing(tiny_hf, kind, length):
    inputs = text_inputs([length])
    shape = (1, 3, length)
    targets, mask = torch.arange(3)[None], torch.ones(1, 3, dtype=torch.bool)
    attribution = Attribution(torch.rand(shape), targets, mask, inputs.token_mask)
    metric = kind(Percentages([1, 20], rounding="floor"), explained="all", name="m")
    metric.update(attribution, Batch(inputs, torch.zeros(1, dtype=torch.long)), tiny_hf.predict)
    assert float(metric.compute()["m"]) == 0


def test_tokens_left_out_of_the_attribution_are_not_ranked_with_the_special_ones():
    attribution, batch = explained_batch([8])
    narrow = attribution.token_mask.clone()
    narrow[:, 4:] = False  # as in a pair of texts of which only the first is explained
    scores = attribution.scores.clone()
    scores[..., 4:7] = 9
    metric = Comprehensiveness(Counts([5]), rank_special=True, erasure="mask", explained="all")
    metric.update(replace(attribution, scores=scores, token_mask=narrow), batch, bag_of_words)
    kept, _ = erase(batch.inputs, ~narrow, "mask")  # ranked are three tokens and both special tokens, five in all
    expected = bag_of_words(batch.inputs) - bag_of_words(kept)
    keys, records = metric.table()
    torch.testing.assert_close(records[:, 0], expected[0, keys[:, 1]])


def test_bound_on_memory_changes_no_number(monkeypatch):
    attribution, batch = explained_batch([12, 5, 9])
    records = []
    for elements in (2**25, 1):
        monkeypatch.setattr("lightning_xai.metrics.erasure._MASK_ELEMENTS", elements)
        metric = NormalizedSufficiency(Percentages([20, 50]), rank_special=True, explained="all")
        metric.update(attribution, batch, bag_of_words)
        records.append(metric.table()[1])
    torch.testing.assert_close(records[0], records[1], rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("probs", [[0.9, float("nan")], [float("nan"), 0.3]], ids=["erased", "whole"])
def test_a_probability_that_is_not_finite_is_no_undefined_row_but_an_error(probs):
    with pytest.raises(ValueError, match=r"not finite for the examples with indices \[0\] or their erased versions"):
        measured(Comprehensiveness(Counts([1]), explained="all"), probs)


def test_words_need_word_ids():
    attribution, batch = explained_batch([6])
    batch = replace(batch, inputs=replace(batch.inputs, word_ids=None))
    with pytest.raises(ValueError, match="no word_ids"):
        Comprehensiveness(Counts([1]), ranking=Ranking("word"), explained="all").update(
            attribution, batch, bag_of_words
        )
