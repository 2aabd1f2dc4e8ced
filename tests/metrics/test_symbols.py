"""Which tokens are symbols, their shares, and evidence metrics by part: predicted, missed and zeroed."""

import pytest
import torch

from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.metrics.complexity import Entropy
from lightning_xai.metrics.plausibility import EvidenceOverlap, Part
from lightning_xai.metrics.symbols import SymbolShare
from lightning_xai.metrics.thresholds import ThresholdGrid
from lightning_xai.types import Attribution, Batch, TextInputs
from tests.metrics.conftest import bag_of_words, explained_batch
from tests.released_folder import byte_level_tokenizer

SYMBOLS = torch.arange(100) % 3 == 0


def computed(metric, *batches, predict=bag_of_words) -> dict[str, float]:
    metric.take_symbols(SYMBOLS)
    for attribution, batch in batches:
        metric.update(attribution, batch, predict)
    return {name: float(value) for name, value in metric.compute().items()}


def test_entries_without_an_ascii_letter_or_digit_are_symbols(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    byte_level_tokenizer(tmp_path, 300)
    encoder = TokenizerEncoder(str(tmp_path), max_length=30)
    ids = encoder.encode({"text": "heart é\n[**2101**]"}).input_ids
    tokens = encoder.tokenizer.convert_ids_to_tokens(ids.tolist())
    symbols = [token for token, is_symbol in zip(tokens, encoder.symbol_mask[ids].tolist(), strict=True) if is_symbol]
    assert {"Ġ", "Ċ", "[", "**"} <= set(symbols) and "Ã" in symbols  # é is two bytes, whose signs are no ASCII letters
    assert not any(any(letter.isascii() and letter.isalnum() for letter in token) for token in symbols)
    assert not encoder.symbol_mask.all()


def test_every_encoder_has_the_mask():
    encoder = VocabularyEncoder(words=["good", "!", "7"])
    assert [encoder.symbol_mask[encoder.encode({"text": word}).input_ids[1]].item() for word in ("good", "!", "7")] == [
        False, True, False,
    ]  # fmt: skip


def test_shares_count_texts_once_and_pairs_of_text_and_class_each():
    inputs = TextInputs.of_ids([[3, 4, 5, 6, 7], [3, 4]])
    scores = torch.tensor([[[5.0, 1, 2, 4, 3], [1.0, 5, 4, 3, 2]], [[1.0, 2, 0, 0, 0], [0.0, 0, 0, 0, 0]]])
    targets, target_mask = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[True, True], [True, False]])
    attribution = Attribution(scores, targets, target_mask, inputs.token_mask)
    evidence = torch.tensor([[[1.0, 1, 0, 0, 0], [0.0, 1, 0, 0, 0]], [[0.0, 1, 0, 0, 0], [0.0, 0, 0, 0, 0]]])
    batch = Batch(inputs, torch.ones(2, 2), Attribution(evidence, targets, target_mask, inputs.token_mask))
    values = computed(SymbolShare(k=2), (attribution, batch))
    assert values["symbol_share/all"] == pytest.approx(3 / 7)  # ids 3 and 6 of the first text, 3 of the second
    assert values["symbol_share/evidence"] == pytest.approx(1 / 4)
    assert values["symbol_share/top_2"] == pytest.approx(3 / 6)  # both, none and one of the top two


def test_a_metric_without_the_mask_says_so():
    metric = SymbolShare()
    with pytest.raises(ValueError, match="SymbolShare does not know which token ids are symbols"):
        metric.update(*explained_batch([4]), bag_of_words)


def parts_of(batches, parts, threshold):
    return computed(EvidenceOverlap(threshold=threshold, parts=parts, name="e"), *batches)


def only(values, part):
    return {name: value for name, value in values.items() if name.startswith(f"e/{part}_")}


def test_predicted_and_missed_values_are_those_of_their_rows_alone():
    batches = [explained_batch([6, 9, 4, 12, 7, 5])]
    values = parts_of(batches, ["predicted", "missed"], 0.2)
    attribution, batch = batches[0]
    predicted = bag_of_words(batch.inputs).gather(1, attribution.targets) > 0.5
    gold = batch.labels.gather(1, attribution.targets) > 0.5
    for part, rows in (("predicted", predicted & gold), ("missed", ~predicted & gold)):
        chosen = Attribution(
            attribution.scores, attribution.targets, attribution.target_mask & rows, attribution.token_mask
        )
        alone = computed(EvidenceOverlap(threshold=0.2, name="e"), (chosen, batch))
        assert alone["num_examples"] > 0
        for name, value in only(values, part).items():
            assert value == alone[name.replace(f"{part}_", "")], name
        assert values[f"num_examples/e/{part}_f1"] == alone["num_examples/e/f1"]


def test_zeroed_values_are_those_of_scores_without_symbols_at_the_same_threshold():
    attribution, batch = explained_batch([6, 9, 4, 12, 7, 5])
    values = parts_of([(attribution, batch)], ["zeroed"], 0.2)
    scores = attribution.scores.masked_fill(SYMBOLS[batch.inputs.input_ids].unsqueeze(1), 0)
    zeroed = Attribution(scores, attribution.targets, attribution.target_mask, attribution.token_mask)
    alone = computed(EvidenceOverlap(threshold=0.2, name="e"), (zeroed, batch))
    assert len(only(values, "zeroed")) == 11 and alone["e/f1"] != values["e/f1"]
    assert all(value == alone[name.replace("zeroed_", "")] for name, value in only(values, "zeroed").items())


def test_parts_take_the_threshold_of_all_validation_rows():
    validation, test = explained_batch([12, 15, 8, 9], seed=3), explained_batch([6, 9, 4, 12])
    grid = ThresholdGrid(101, 0.5, "linear")
    found = {}
    every: list[Part] = ["predicted", "missed", "zeroed"]
    for parts in ([], every):
        tuned, metric = (EvidenceOverlap(threshold=grid, parts=parts, name="e") for _ in range(2))
        tuned.take_symbols(SYMBOLS)
        tuned.update(*validation, bag_of_words)
        metric.tune_from(tuned)
        found[len(parts)] = computed(metric, test)
    assert found[0].items() <= found[3].items()
    fixed = parts_of([test], ["predicted", "missed", "zeroed"], found[3]["e/threshold"])
    assert fixed == pytest.approx(found[3], nan_ok=True)


def test_an_unknown_part_is_refused():
    with pytest.raises(ValueError, match="parts is 'gold': choose one of 'predicted', 'missed', 'zeroed'"):
        EvidenceOverlap(parts=["gold"])  # type: ignore[list-item]


def test_missed_classes_are_gold_but_not_predicted():
    attribution, batch = explained_batch([6, 9, 4, 12, 7, 5])
    predicted = bag_of_words(batch.inputs).gather(1, attribution.targets) > 0.5
    gold = batch.labels.gather(1, attribution.targets) > 0.5
    metric = Entropy(explained="missed")
    metric.update(attribution, batch, bag_of_words)
    assert float(metric.compute()["num_examples"]) == (~predicted & gold & attribution.target_mask).sum() > 0
    with pytest.raises(ValueError, match="reads gold labels"):
        metric.require_selection()
