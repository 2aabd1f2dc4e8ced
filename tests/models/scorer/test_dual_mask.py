"""The loss of dual masks against worked numbers and a brute-force twin."""

from typing import Any

import pytest
import torch

from lightning_xai.models.scorer.dual_mask import DualMask, dual_mask_losses, masked_losses, soft_mask
from tests.conftest import text_inputs


def terms(p: float, gap: float | None = None, **options: Any) -> dict[str, torch.Tensor]:
    """Returns the terms for one text; its masked and inversely masked versions have the probability `p` for class 0."""
    prob = torch.tensor([[p, 1 - p]], dtype=torch.float64)
    logits = prob.log() if gap is None else torch.tensor([[gap, 0.0]])
    logits.requires_grad_()
    y, scores = torch.tensor([[1.0, 0.0]]), torch.zeros(1, 4, dtype=torch.float64)
    found = dual_mask_losses(logits, logits, y, scores, torch.ones(1, 4).bool(), DualMask(**options))
    found["gradient"] = torch.autograd.grad(found["inverse"].sum(), logits)[0]
    return found


def test_inverse_term_is_that_of_oracle_e12():
    assert terms(0.25)["inverse"].item() == pytest.approx(0.287682, abs=1e-6)


def test_inverse_term_has_a_gradient_of_at_most_1_where_the_probability_rounds_to_1():
    # -log(1 - p + 1e-30) in float32 has a gradient of 1e19 here
    found = terms(0.5, gap=60.0)
    assert found["inverse"].item() == pytest.approx(60.0)
    assert found["gradient"].abs().max() <= 1


@pytest.mark.parametrize(
    ("inverse", "value"),
    [("log_complement", -torch.tensor(0.75).log()), ("probability", 0.25), ("negative_entropy", -0.562335)],
)
def test_forms_of_the_inverse_term(inverse, value):
    assert terms(0.25, inverse=inverse)["inverse"].item() == pytest.approx(float(value), abs=1e-6)


@pytest.mark.parametrize(("size", "value"), [("log_complement", 0.693147), ("mean", 0.5)])
def test_forms_of_the_size(size, value):
    assert terms(0.25, size=size)["size"].item() == pytest.approx(value, abs=1e-6)


def test_loss_is_the_weighted_sum_of_the_terms():
    found = terms(0.25, kept_weight=2.0, inverse_weight=3.0, size_weight=5.0)
    expected = 2 * found["kept"] + 3 * found["inverse"] + 5 * found["size"]
    assert found["loss"].item() == pytest.approx(expected.item())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kept_weight": -0.1}, "kept_weight is -0.1: give a factor of at least 0"),
        ({"size_weight": float("nan")}, "size_weight is nan"),
        ({"kept_weight": 0.0, "inverse_weight": 0.0}, "inverse_weight are 0"),
        ({"inverse": "entropy"}, "inverse is 'entropy'"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DualMask(**options)


def brute_force(model, inputs, y, logits, fill: str) -> torch.Tensor:
    """Returns the loss of each text, computed token by token, one text at a time and without padding."""
    losses = []
    for row in range(len(inputs)):
        text = inputs[row : row + 1].trim()
        embeds = model.embed(text)[0]
        mask_id = text.baseline_ids[text.token_mask][0]
        m = model.embedding_matrix[mask_id] if fill == "token" else torch.zeros_like(embeds[0])
        versions, size = [], []
        for inverse in (False, True):
            mixed = []
            for place, token in enumerate(embeds):
                a = logits[row, place].sigmoid()
                a = 1 - a if inverse else a
                explainable = bool(text.token_mask[0, place])
                mixed.append(a * token + (1 - a) * m if explainable else token)
                if explainable and not inverse:
                    size.append(-(1 - a).log())
            versions.append(model(text, torch.stack(mixed).unsqueeze(0)).logits[0].softmax(-1))
        kept, changed = versions
        loss = -(y[row] * kept.log()).sum() - 2 * (1 - changed[y[row].argmax()]).log() + 3 * sum(size) / len(size)
        losses.append(loss)
    return torch.stack(losses)


@pytest.mark.parametrize("fill", ["token", "zero"])
def test_losses_of_a_padded_batch_are_those_of_single_texts_written_token_by_token(fill, tiny_hf):
    model, inputs = tiny_hf.double(), text_inputs([6, 13, 9], pad_to=16)
    y = torch.randn(3, 3, dtype=torch.float64).softmax(-1)
    logits = torch.randn(3, 16, dtype=torch.float64)
    settings = DualMask(1.0, 2.0, 3.0, fill=fill)
    found = masked_losses(model, inputs, y, logits, settings)["loss"]
    assert torch.allclose(found, brute_force(model, inputs, y, logits, fill), atol=1e-10)


def test_a_mask_of_1_gives_the_logits_of_the_whole_text(tiny_hf):
    inputs = text_inputs([6, 13, 9])
    embeds = tiny_hf.embed(inputs)
    whole = soft_mask(embeds, torch.randn_like(embeds), torch.ones(3, 13), inputs.token_mask)
    assert torch.equal(whole, embeds)
    assert torch.equal(tiny_hf(inputs, whole).logits, tiny_hf(inputs).logits)


def test_special_tokens_stay_in_the_mask_and_in_the_inverse_mask(tiny_hf):
    inputs = text_inputs([6, 13, 9])
    embeds = tiny_hf.embed(inputs)
    nothing = soft_mask(embeds, torch.zeros_like(embeds), torch.zeros(3, 13), inputs.token_mask)
    assert torch.equal(nothing, embeds.masked_fill(inputs.token_mask.unsqueeze(-1), 0.0))


def test_masks_of_special_tokens_have_no_gradient(tiny_hf):
    inputs, logits = text_inputs([6, 13, 9]), torch.randn(3, 13, requires_grad=True)
    masked_losses(tiny_hf, inputs, torch.eye(3), logits, DualMask())["loss"].sum().backward()
    assert logits.grad is not None
    assert torch.equal(logits.grad != 0, inputs.token_mask)
