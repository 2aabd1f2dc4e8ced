"""Released folders give PLM-CA with the authors' weights, classes and threshold, and incomplete ones are refused."""

import json

import pytest
import torch

from lightning_xai.models.checkpoint import load_trained
from lightning_xai.models.plm_ca import PLMCA
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier
from tests.models.test_checkpoint import Attack, load_network


def save_released(network: PLMCA, root, **changes):
    """Writes a folder in the layout of the released weights, unused ones included."""
    folder = root / "models" / "unsupervised" / "abc123"
    folder.mkdir(parents=True)
    names = {"transformer": "roberta_encoder", "class_queries": "label_wise_attention.label_representations"}
    names |= {"key": "label_wise_attention.weights_k", "value": "label_wise_attention.weights_v"}
    names |= {"norm": "label_wise_attention.layernorm", "output": "label_wise_attention.output_linear"}
    weights = {}
    for key, value in network.state_dict().items():
        part, dot, rest = key.partition(".")
        weights[f"_orig_mod.{names[part]}{dot}{rest}"] = value
    size = network.class_queries.shape[1]
    weights |= {f"_orig_mod.label_wise_attention.layernorm_1.{name}": torch.ones(size) for name in ("weight", "bias")}
    weights["_orig_mod.roberta_encoder.pooler.dense.weight"] = torch.ones(size, size)
    weights["_orig_mod.roberta_encoder.embeddings.position_ids"] = torch.arange(160)[None]
    optimizer = torch.optim.AdamW(network.parameters()).state_dict()
    saved = {"model": weights, "optimizer": optimizer, "scaler": {"scale": 1.0}, "epoch": 3, "db": torch.tensor(0.4)}
    torch.save(saved | {"num_classes": network.num_classes} | changes, folder / "best_model.pt")
    config = "model:\n  configs:\n    model_path: models/encoder\n    chunk_size: 8\ndata:\n  max_length: 6000\n"
    (folder / "config.yaml").write_text(config)
    (folder / "target_tokenizer.json").write_text(json.dumps([f"{i}.0" for i in range(network.num_classes)]))
    encoder = root / "models" / "encoder"
    encoder.mkdir()
    (encoder / "config.json").write_text(json.dumps(TINY_CONFIGS["roberta"] | {"pad_token_id": 1}))
    return str(folder)


@pytest.fixture
def released():
    config = TINY_CONFIGS["roberta"] | {"pad_token_id": 1}
    return tiny_classifier("plm_ca", config=config, segment_length=8, mask_mode="legacy")


def test_released_folder_gives_plm_ca_in_legacy_mode(tmp_path, released):
    inputs = text_inputs([8, 21])
    loaded = load_network(save_released(released, tmp_path))
    assert isinstance(loaded, PLMCA) and loaded.mask_mode == "legacy" and loaded.segment_length == 8
    assert torch.equal(loaded(inputs).logits, released(inputs).logits)


def test_released_folder_has_a_threshold_and_class_names(tmp_path, released):
    folder = save_released(released, tmp_path)
    assert load_trained(folder).decision_threshold == pytest.approx(0.4)
    assert load_trained(folder).class_names == ["0.0", "1.0", "2.0", "3.0", "4.0"]


def test_released_folder_without_its_encoders_config_is_refused(tmp_path, released):
    folder = save_released(released, tmp_path)
    (tmp_path / "models" / "encoder" / "config.json").unlink()
    with pytest.raises(ValueError, match="models/encoder/config.json"):
        load_network(folder)


def test_released_folder_with_other_classes_than_names_is_refused(tmp_path, released):
    folder = save_released(released, tmp_path)
    (tmp_path / "models/unsupervised/abc123/target_tokenizer.json").write_text('["a"]')
    with pytest.raises(ValueError, match="names 1 classes, best_model.pt has 5"):
        load_network(folder)


def test_released_weights_without_cross_attention_are_refused(tmp_path, released):
    folder = save_released(released, tmp_path, model={"label_wise_attention.first_linear.weight": torch.ones(2)})
    with pytest.raises(ValueError, match="PLM-ICD"):
        load_network(folder)


def test_pickled_code_is_refused_and_never_runs(tmp_path, released):
    marker = tmp_path / "ran"
    folder = save_released(released, tmp_path, epoch=Attack(str(marker)))
    with pytest.raises(ValueError, match="not a file of tensors and primitives"):
        load_network(folder)
    assert not marker.exists()
