"""A scorer with a tokenizer of its own: byte-level BPE beside WordPiece, with emoji and accents."""

from dataclasses import replace

import pytest
import torch

from lightning_xai.attributions.aml import AMLAttribution
from lightning_xai.attributions.base import explaining
from lightning_xai.attributions.given import give_scorer, give_texts
from lightning_xai.data.batches.collate import Item, collate
from lightning_xai.functional.text.alignment import overlaps
from lightning_xai.functional.text.scorer_inputs import ScorerInputs
from lightning_xai.metrics.faithfulness import Comprehensiveness
from lightning_xai.metrics.top_units import Percentages
from lightning_xai.models.scorer.dual_mask import DualMask, masked_losses
from lightning_xai.models.scorer.scorer_checkpoint import TrainedScorer, scorer_tokenizer_of
from lightning_xai.models.scorer.scorer_settings import Scorer
from lightning_xai.models.scorer.scorer_tokenizer import ScorerTokenizer, row_text, scorer_inputs_of, text_rows
from lightning_xai.models.scorer.token_scorer import TokenScorer
from lightning_xai.runs.fingerprint import weights_hash
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.data.test_erasures import data, first_tokens, write
from tests.functional.text.test_alignment import byte_level, word_piece

TEXTS = [
    "A na\u00efve caf\u00e9, unbelievably good.",
    "I \U0001f600 this \U0001f469\u200d\U0001f4bb film \u2764\ufe0f!",
    "cafe\u0301  two   spaces\tand a tab\n end  ",
    "\U0001f600",
    "the cat and the film, good",
]
ENCODERS = {"WordPiece": word_piece(), "BPE": byte_level()}


def rows_of(encoder):
    return [row_text({"text": text}, encoder.encode({"text": text})) for text in TEXTS]


def inputs_of(encoder):
    items = [Item(row, encoder.encode({"text": text}), 0) for row, text in enumerate(TEXTS)]
    return collate(
        items, pad_token_id=encoder.pad_token_id, num_classes=2, multilabel=False, has_rationales=False
    ).inputs


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders with the tokenizers."""
    found = {name: str(tmp_path_factory.mktemp("tokenizer")) for name in ENCODERS}
    for name, encoder in ENCODERS.items():
        encoder.tokenizer.save_pretrained(found[name])
    return found


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize(("explained", "scorer"), [("WordPiece", "BPE"), ("BPE", "WordPiece")])
def test_scores_cross_by_characters(explained, scorer, pool, folders):
    encoder, inputs = ENCODERS[explained], inputs_of(ENCODERS[explained])
    tokenizer = ScorerTokenizer(folders[scorer], None, pool)
    scorer_inputs = tokenizer.scorer_inputs(inputs, rows_of(encoder))
    logits = torch.randn(scorer_inputs.inputs.input_ids.shape, generator=torch.Generator().manual_seed(0))
    kept = scorer_inputs.keep(logits)
    for row, text in enumerate(TEXTS):
        theirs, own = encoder.encode({"text": text}), ENCODERS[scorer].encode({"text": text})
        # the scorer reads the text alone, whole
        assert scorer_inputs.inputs.input_ids[row, : len(own)].tolist() == own.input_ids.tolist()
        source_tokens = overlaps(torch.from_numpy(theirs.offsets), torch.from_numpy(own.offsets))
        for token, sources in enumerate(source_tokens.tolist()):
            values = [float(logits[row, s].sigmoid()) for s in sources if s >= 0]
            expected = max(values) if pool == "max" else sum(values) / len(values)
            assert float(kept[row, token]) == pytest.approx(expected, abs=1e-6)
    assert scorer_inputs.token_mask.tolist() == inputs.token_mask.tolist()
    counts = scorer_inputs.aligned_counts
    assert 0 <= counts["nearest"] < counts["scored"] == int(inputs.token_mask.sum())


def test_both_encodings_end_where_the_first_is_cut(folders):
    encoder = ENCODERS["WordPiece"]
    scorer_inputs = ScorerTokenizer(folders["BPE"], 8, "max").scorer_inputs(inputs_of(encoder), rows_of(encoder))
    assert scorer_inputs.inputs.attention_mask.sum(dim=1).max() == 8
    assert scorer_inputs.token_mask[0].sum() < inputs_of(encoder).token_mask[0].sum()
    assert scorer_inputs.source_tokens is not None
    tokens, scored = scorer_inputs.source_tokens[0], scorer_inputs.token_mask[0]
    assert (tokens[scored].amax(dim=-1) >= 0).all() and (tokens[~scored] == -1).all()


def test_a_window_of_a_text_is_read_alone_and_an_erased_text_is_refused(folders):
    encoder, tokenizer = ENCODERS["WordPiece"], ScorerTokenizer(folders["BPE"], None, "max")
    inputs, rows = inputs_of(encoder), rows_of(encoder)
    first = inputs[:1].map(lambda tensor: tensor[:, :3] if tensor.dim() > 1 else tensor)
    window = tokenizer.scorer_inputs(first, rows[:1])
    begin, end = encoder.encode({"text": TEXTS[0]}).offsets[[0, 2]].flatten()[[0, 3]]
    assert (
        window.inputs.input_ids[0].tolist() == ENCODERS["BPE"].encode({"text": TEXTS[0][begin:end]}).input_ids.tolist()
    )
    erased = inputs.input_ids.clone()
    erased[0, 1] = inputs.baseline_ids[0, 1]
    with pytest.raises(ValueError, match="the tokens of the example with index 0 are not those of its text"):
        tokenizer.scorer_inputs(replace(inputs, input_ids=erased), rows)


def test_texts_must_be_known_and_single(folders):
    tokenizer = ScorerTokenizer(folders["BPE"], None, "max")
    with pytest.raises(ValueError, match="it needs the texts, which are not known here"):
        scorer_inputs_of(tokenizer, inputs_of(ENCODERS["WordPiece"]), "test", None)
    with pytest.raises(ValueError, match="reads single texts, but this is a pair: set `align: none`"):
        row_text({"text": "a", "text_pair": "b"}, ENCODERS["BPE"].encode({"text": "a"}))
    with pytest.raises(ValueError, match="align is max, but the scorer has the explained"):
        Scorer(align="max")


def test_the_loss_with_equal_tokenizers_is_that_without_alignment(folders):
    encoder, inputs = ENCODERS["BPE"], inputs_of(ENCODERS["BPE"])
    network = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"vocab_size": 400}).eval().double()
    logits = torch.randn(inputs.input_ids.shape, dtype=torch.float64, requires_grad=True)
    y = network.probabilities(network(inputs).logits).detach()
    aligned = ScorerTokenizer(folders["BPE"], None, "mean").scorer_inputs(inputs, rows_of(encoder))
    # bytes of one character share their offsets, so each of them takes the pooled score of all
    assert aligned.source_tokens is not None
    alone = aligned.source_tokens.ge(0).sum(dim=-1).le(1).all(dim=1)
    assert alone.any()
    losses = [masked_losses(network, inputs, y, logits, DualMask(), read)["loss"] for read in (None, aligned)]
    assert torch.allclose(losses[0][alone], losses[1][alone])
    assert torch.autograd.grad(losses[1].sum(), logits)[0][inputs.token_mask].ne(0).all()


@pytest.mark.slow
@pytest.mark.parametrize("num_steps", [0, 2])
def test_a_batch_is_explained_like_each_text_alone(num_steps, folders):
    encoder, inputs = ENCODERS["WordPiece"], inputs_of(ENCODERS["WordPiece"])
    torch.manual_seed(0)
    network = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"vocab_size": 400}).double().eval()
    scorer = TokenScorer(num_classes=3, config=TINY_CONFIGS["bert"] | {"vocab_size": 400}).double().eval()
    with torch.no_grad():
        for parameter in scorer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    facts = {"path": "f", "hash": "0a1b", "weights": weights_hash(network)}
    tokenizer, alignment = (
        ScorerTokenizer(folders["BPE"], scorer.max_length, "max"),
        {"path": folders["BPE"], "pool": "max"},
    )
    trained = TrainedScorer(scorer, DualMask(), 4e-5, 0.01, "comprehensiveness", facts, tokenizer, alignment)
    metric = Comprehensiveness(Percentages([20, 50]))
    options = {"num_steps": num_steps, "metric": metric, "lr": 3e-2} if num_steps else {}
    method = AMLAttribution(None, **options)
    give_scorer([method], lambda: trained)
    rows = rows_of(encoder)
    give_texts([method], lambda split, index: rows[index])
    targets = network.predict(inputs).argmax(dim=1, keepdim=True)
    with explaining(network, "cpu"):
        together = method.scores(network, inputs, targets)
        for row in range(len(inputs)):
            single = method.scores(network, inputs[row : row + 1].trim(), targets[row : row + 1])
            assert torch.allclose(together[row, :, : single.shape[-1]], single[0], rtol=0, atol=1e-8)
    # the batch, and each of its texts alone
    assert method.aligned_tokens["scored"] == 2 * int(inputs.token_mask.sum())
    assert together[:, 0][inputs.token_mask].gt(0).all() and together[:, 0][~inputs.token_mask].eq(0).all()


def test_the_same_tokens_need_no_places():
    inputs = inputs_of(ENCODERS["BPE"])
    assert ScorerInputs.same(inputs).source_tokens is None


def test_a_tokenizer_with_more_tokens_than_the_encoder_has_words_is_refused(folders):
    scorer = TokenScorer(config=TINY_CONFIGS["bert"] | {"vocab_size": 100})
    with pytest.raises(ValueError, match=r"has \d+ tokens, but the scorer's encoder has only 100 word embeddings"):
        scorer_tokenizer_of(scorer, {"path": folders["BPE"], "pool": "max"})


def test_texts_with_erased_tokens_are_refused_although_the_data_module_erased_them(folders, tmp_path):
    module = data(erasures=write(tmp_path, first_tokens(data())), erasure="mask")
    batch, texts = next(iter(module.ordered_dataloader("test"))), text_rows(module)
    assert texts is not None
    with pytest.raises(ValueError, match="are not those of its text"):
        scorer_inputs_of(ScorerTokenizer(folders["BPE"], None, "max"), batch.inputs, "test", texts)
    whole = next(iter(data().ordered_dataloader("test")))
    scorer_inputs_of(ScorerTokenizer(folders["BPE"], None, "max"), whole.inputs, "test", texts)
