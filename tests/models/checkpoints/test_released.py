"""Released folders give PLM-CA with the authors' weights, classes and threshold, and invalid ones are refused."""

import json

import pytest
import torch

from lightning_xai.models.checkpoints.checkpoint import load_trained, read_encoder
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.types import TextInputs
from tests.models.checkpoints.test_checkpoint import Attack
from tests.released_folder import ROBERTA_PM, write_released

# the last text fills its chunks, so the authors append a chunk of padding
TEXTS = [[0, *range(5, 24), 2], [0, 9, 2], [0, *range(30, 44), 2]]


def refused(tmp_path, message, **changes):
    folder, _ = write_released(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load_trained(str(folder))
    assert "\n" not in str(caught.value)


def test_released_folder_gives_the_logits_of_the_authors_forward_pass(tmp_path):
    folder, authors = write_released(tmp_path)
    network = load_trained(str(folder)).network
    assert isinstance(network, PLMCA) and network.mask_mode == "legacy" and network.segment_length == 8
    logits = network(TextInputs.of_ids(TEXTS, pad_id=1, special_ids=[0, 1, 2])).logits
    torch.testing.assert_close(logits, torch.stack([authors(torch.tensor(text)) for text in TEXTS]))


@pytest.mark.slow
def test_released_folder_with_the_shapes_of_roberta_pm_is_loaded(tmp_path):
    config = ROBERTA_PM | {"num_hidden_layers": 1}
    folder, authors = write_released(tmp_path, config=config, codes=[f"{i}.0" for i in range(8922)], chunk_size=128)
    network, ids = load_trained(str(folder)).network, torch.arange(5, 145)
    torch.testing.assert_close(network(TextInputs.of_ids([ids.tolist()])).logits[0], authors(ids), rtol=1e-4, atol=1e-4)


def test_released_folder_has_a_threshold_classes_a_tokenizer_and_a_length(tmp_path):
    folder, _ = write_released(tmp_path)
    trained = load_trained(str(folder))
    assert trained.decision_threshold == pytest.approx(0.4)
    assert trained.class_names == ["401.9", "038.9", "99.04", "V10.3", "E849.7"]
    assert trained.encoder == read_encoder(str(folder))
    encoder = str(tmp_path / "models" / "roberta-base-pm-m3-voc-hf")
    assert trained.encoder["init_args"] == {"path": encoder, "max_length": 6000}


def test_released_folder_without_its_encoders_config_is_refused(tmp_path):
    folder, _ = write_released(tmp_path)
    (tmp_path / "models" / "roberta-base-pm-m3-voc-hf" / "config.json").unlink()
    with pytest.raises(ValueError, match="unpack https://dl.fb.*models/roberta-base-pm-m3-voc-hf/config.json"):
        load_trained(str(folder))


@pytest.mark.parametrize("name", ["config.yaml", "target_tokenizer.json"])
def test_a_missing_file_is_named(tmp_path, name):
    folder, _ = write_released(tmp_path)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=f"{name}.*: copy it from the released archive, https://drive"):
        load_trained(str(folder))


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (["a"], "names 1 class, but best_model.pt has 5"),
        (["a", "b", "c", "b", "d"], r"names \['b'\] twice"),
        ({"a": 0}, "is not a list of class names"),
        ([], "is not a list of class names"),
    ],
    ids=["number", "repeated", "dictionary", "empty"],
)
def test_classes_that_do_not_fit_are_refused(tmp_path, codes, message):
    folder, _ = write_released(tmp_path)
    (folder / "target_tokenizer.json").write_text(json.dumps(codes))
    with pytest.raises(ValueError, match=message):
        load_trained(str(folder))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale: 1.0", "scale: 0.5"),
        ("mask_input: false", "mask_input: true"),
        ("cross_attention: true", "cross_attention: false"),
    ],
)
def test_settings_that_change_the_forward_pass_are_refused(tmp_path, old, new):
    refused(tmp_path, f"{new.replace(': ', ' is ')}, but this package computes", settings={old: new})


def test_released_weights_without_cross_attention_are_refused(tmp_path):
    refused(tmp_path, "PLM-ICD", model={"label_wise_attention.first_linear.weight": torch.ones(2)})


@pytest.mark.parametrize("threshold", [1.5, -0.1, float("nan")])
def test_a_threshold_outside_0_and_1_is_refused(tmp_path, threshold):
    refused(tmp_path, r"the threshold 'db' for codes is .*, not in \[0, 1\]", db=torch.tensor(threshold))


@pytest.mark.parametrize("entry", ["db", "model"])
def test_weights_without_an_entry_are_refused(tmp_path, entry):
    refused(tmp_path, f"has no entry '{entry}'", leave_out=(entry,))


def test_a_web_page_in_place_of_the_weights_is_named(tmp_path):
    folder, _ = write_released(tmp_path)
    (folder / "best_model.pt").write_text("<!DOCTYPE html><html><body>Quota exceeded</body></html>")
    with pytest.raises(ValueError, match="best_model.pt is a web page instead of weights"):
        load_trained(str(folder))


@pytest.mark.parametrize("size", [0, 1000])
def test_a_cut_file_of_weights_is_named(tmp_path, size):
    folder, _ = write_released(tmp_path)
    file = folder / "best_model.pt"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ValueError, match=f"best_model.pt is cut off after {size:,} bytes: download it again"):
        load_trained(str(folder))


def test_pickled_code_is_refused_and_never_runs(tmp_path):
    marker = tmp_path / "ran"
    refused(tmp_path, "holds more than tensors", epoch=Attack(str(marker)))
    assert not marker.exists()
