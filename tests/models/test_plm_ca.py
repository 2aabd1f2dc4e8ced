"""PLM-CA equals a loop over segments and classes in both mask modes, and needs no more memory than it says."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lightning_xai.models.contracts import contract_violations
from lightning_xai.models.plm_ca import PLMCA, last_segment_padding
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

ROBERTA = TINY_CONFIGS["roberta"] | {"pad_token_id": 1}


def by_hand(model: PLMCA, input_ids: torch.Tensor, padding: int = 0) -> torch.Tensor:
    """Returns logits [C] of one text [T], one segment and class at a time; classes also attend to `padding` pads."""
    ids = torch.cat([input_ids, torch.full((padding,), model.pad_id)])
    is_text = torch.arange(len(ids)) < len(input_ids)
    states = []
    for segment, mask in zip(ids.split(model.segment_length), is_text.split(model.segment_length), strict=True):
        positions = torch.arange(len(segment)) + model.position_offset
        positions = torch.where(mask, positions, max(model.position_offset - 1, 0))
        mask = mask if mask.any() else ~mask
        output = model.transformer(segment[None], attention_mask=mask[None].long(), position_ids=positions[None])
        states.append(output.last_hidden_state[0])
    joined = torch.cat(states)
    keys, values = joined @ model.key.weight.T, joined @ model.value.weight.T + model.value.bias
    logits = []
    for query in model.class_queries:
        read = (keys @ query).softmax(dim=0) @ values
        read = (read - read.mean()) / (read.var(unbiased=False) + model.norm.eps).sqrt()
        read = read * model.norm.weight + model.norm.bias
        logits.append((read * model.output.weight[0]).sum() + model.output.bias[0])
    return torch.stack(logits)


@pytest.mark.parametrize("length", [5, 8, 16, 19])
def test_logits_equal_a_loop_over_segments_and_classes(length):
    model, inputs = tiny_classifier("plm_ca", config=ROBERTA).double(), text_inputs([length])
    torch.testing.assert_close(model(inputs).logits[0], by_hand(model, inputs.input_ids[0]), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("length", "padding"), [(5, 3), (8, 8), (16, 8), (19, 5)])
def test_legacy_mode_attends_to_the_padding_of_the_last_segment(length, padding):
    model = tiny_classifier("plm_ca", config=ROBERTA, mask_mode="legacy").double()
    inputs = text_inputs([length])
    expected = by_hand(model, inputs.input_ids[0], padding)
    torch.testing.assert_close(model(inputs).logits[0], expected, rtol=0, atol=1e-10)


def test_legacy_mode_does_not_depend_on_neighbors_or_padding():
    model = tiny_classifier("plm_ca", config=ROBERTA, mask_mode="legacy").double()
    inputs = text_inputs([30, 8, 5])
    alone = torch.cat([model(inputs[i : i + 1].trim()).logits for i in range(3)])
    torch.testing.assert_close(model(inputs).logits, alone, rtol=0, atol=1e-10)
    assert contract_violations(model, special_ids=model.special_ids, segmented=True) == []


def test_legacy_readout_leaves_out_what_padding_gets():
    model, inputs = tiny_classifier("plm_ca", mask_mode="legacy"), text_inputs([8, 5])
    readout = model(inputs).readout
    assert (readout.sum(dim=-1) < 0.999).all()
    assert (readout[1, :, 5:] == 0).all()


def test_padding_of_a_full_last_segment_is_one_whole_segment():
    columns, keep = last_segment_padding(torch.tensor([3, 4]), segment_length=4)
    assert columns[0, keep[0]].tolist() == [3]
    assert columns[1, keep[1]].tolist() == [4, 5, 6, 7]


def test_logits_are_a_function_of_the_returned_readout():
    model = tiny_classifier("plm_ca").double()
    output = model(text_inputs([20, 7]), output_hidden_states=True)
    values = model.value(output.hidden_states[-1])
    torch.testing.assert_close(model.logits_of_readout(output.readout, values), output.logits, rtol=0, atol=1e-12)
    gradient = torch.autograd.grad(output.logits[:, 2].sum(), output.readout, retain_graph=True)[0]
    again = torch.autograd.grad(model.logits_of_readout(output.readout, values)[:, 2].sum(), output.readout)[0]
    torch.testing.assert_close(gradient, again, rtol=0, atol=1e-12)
    assert gradient[:, 2].abs().sum() > 0 and (gradient[:, [0, 1, 3, 4]] == 0).all()


def test_readout_is_zero_at_padding():
    assert (tiny_classifier("plm_ca")(text_inputs([20, 7])).readout[1, :, 7:] == 0).all()


@pytest.mark.parametrize("mask_mode", ["correct", "legacy"])
def test_readout_stays_in_float32_under_autocast(mask_mode):
    model, inputs = tiny_classifier("plm_ca", mask_mode=mask_mode), text_inputs([40, 13])
    with torch.autocast("cpu", torch.bfloat16):
        output = model(inputs)
    assert output.readout.dtype == torch.float32
    torch.testing.assert_close(output.logits.float(), model(inputs).logits, rtol=0.1, atol=0.1)


def test_segments_of_padding_alone_give_finite_gradients_in_both_kernels():
    model = tiny_classifier("plm_ca")
    for kernel in ("sdpa", "eager"):
        model.set_attention(kernel)
        model.zero_grad()
        model(text_inputs([40, 3])).logits.sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_attentions_have_a_row_for_every_segment():
    model = tiny_classifier("plm_ca")
    model.set_attention("eager")
    attentions = model(text_inputs([20, 7]), output_attentions=True).attentions
    assert [tuple(a.shape) for a in attentions] == [(6, 2, 8, 8)] * 2  # 2 texts x 3 segments


def test_module_embeddings_restart_their_positions_in_every_segment():
    model, inputs = tiny_classifier("plm_ca"), text_inputs([20])
    same = inputs.input_ids.clone().fill_(9)
    embeds = model.embed(type(inputs)(**{**vars(inputs), "input_ids": same}))
    assert torch.equal(embeds[:, 0], embeds[:, 8]) and torch.equal(embeds[:, 3], embeds[:, 19])
    assert not torch.allclose(embeds[:, 0], embeds[:, 1])


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.storages: set[int] = set()
        self.kept: list[torch.Tensor] = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
                if tensor.numel() >= 2000 * 6000 and tensor.is_floating_point():
                    self.kept.append(tensor)  # kept alive, or two tensors could share a storage and count as one
                    self.storages.add(tensor.untyped_storage().data_ptr())
        return result


def test_6000_tokens_and_2000_classes_need_two_tensors_of_classes_by_tokens():
    config = TINY_CONFIGS["bert"] | {"num_hidden_layers": 1}
    model, inputs = tiny_classifier("plm_ca", config=config, num_classes=2000, segment_length=128), text_inputs([6000])
    with torch.no_grad(), LargestTensor() as seen:
        output = model(inputs)
    assert output.logits.shape == (1, 2000) and output.readout.shape == (1, 2000, 6000)
    assert seen.largest == 2000 * 6000
    assert len(seen.storages) == 2  # scores and their softmax


def test_legacy_mode_adds_one_segment_to_the_tensors_of_classes_by_tokens():
    config = TINY_CONFIGS["bert"] | {"num_hidden_layers": 1}
    model = tiny_classifier("plm_ca", config=config, num_classes=500, segment_length=16, mask_mode="legacy")
    with torch.no_grad(), LargestTensor() as seen:
        model(text_inputs([600, 30]))
    assert seen.largest == 2 * 500 * (600 + 16)


def test_base_encoder_without_pooler_is_loaded(tmp_path):
    source = tiny_classifier("plm_ca")
    source.transformer.save_pretrained(tmp_path)
    model = PLMCA(str(tmp_path), 4, segment_length=8)
    assert torch.equal(model.embedding_matrix, source.embedding_matrix)


@pytest.mark.parametrize("model_type", ["roberta", "distilbert", "electra", "big_bird", "deberta-v2", "modernbert"])
def test_other_encoders_keep_the_contracts(model_type):
    model = tiny_classifier("plm_ca", config=TINY_CONFIGS[model_type], segment_length=3)
    assert contract_violations(model, special_ids=model.special_ids, segmented=True) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"segment_length": 161}, "segment_length is 161.*160"),
        ({"segment_length": 0}, "segment_length is 0"),
        ({"mask_mode": "none"}, "mask_mode is 'none'"),
        ({"num_classes": 0}, "num_classes is 0: a multi-label"),
        ({"config": {"model_type": "fnet", "hidden_size": 16, "num_hidden_layers": 1}}, "fnet cannot be explained"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PLMCA(**({"config": TINY_CONFIGS["bert"], "segment_length": 8} | arguments))
