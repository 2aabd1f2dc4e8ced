"""Released folders give PLM-CA with the authors' weights, classes and threshold, and invalid ones are refused."""

import gzip
import json
import pickle

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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("before", ["", "\r\n  "])
def test_a_web_page_in_place_of_the_weights_is_named(tmp_path, before, encoding):
    folder, _ = write_released(tmp_path)
    (folder / "best_model.pt").write_text(f"{before}<html><body>Quota exceeded</body></html>", encoding=encoding)
    with pytest.raises(ValueError, match="best_model.pt is a web page instead of weights"):
        load_trained(str(folder))


@pytest.mark.parametrize("size", [0, 1000])
def test_a_cut_file_of_weights_is_named(tmp_path, size):
    folder, _ = write_released(tmp_path)
    file = folder / "best_model.pt"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(ValueError, match=f"best_model.pt is cut off after {size:,} bytes: download it again"):
        load_trained(str(folder))


@pytest.mark.parametrize("entry", ["epoch", "model", "optimizer", "db"])
def test_pickled_code_is_refused_and_never_runs(tmp_path, entry):
    marker = tmp_path / "ran"
    refused(
        tmp_path, "best_model.pt is not loaded: it holds the Python object .*mkdir", **{entry: [Attack(str(marker))]}
    )
    assert not marker.exists()


@pytest.mark.parametrize(
    "content", [b'{"error": {"code": 403}}', gzip.compress(b"<html>"), pickle.dumps({"db": 0.4}, 2)]
)
def test_another_file_in_place_of_the_weights_is_refused_without_the_advice_to_load_it_unsafely(tmp_path, content):
    folder, _ = write_released(tmp_path)
    (folder / "best_model.pt").write_bytes(content)
    with pytest.raises(ValueError, match="best_model.pt is not loaded: it is damaged, was not written by to") as caught:
        load_trained(str(folder))
    assert "weights_only" not in str(caught.value) and caught.value.__suppress_context__


@pytest.mark.parametrize("db", [None, "0.4x", [0.4], {}, True, torch.tensor([0.4, 0.5]), torch.tensor(0.4 + 1j)])
def test_a_threshold_that_is_no_number_is_refused(tmp_path, db):
    refused(tmp_path, "best_model.pt: the threshold 'db' for codes is not a number", db=db)


@pytest.mark.parametrize("model", [None, [1], {"a": 3}, {"a": None}, {1: torch.ones(2)}])
def test_weights_that_are_no_tensors_with_names_are_refused(tmp_path, model):
    refused(tmp_path, "best_model.pt has no entry 'model' with the names and tensors of weights", model=model)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_length: 6000", "max_length: long", "data.max_length is not a positive whole number"),
        ("max_length: 6000", "max_length: 0", "data.max_length is not a positive whole number"),
        ("max_length: 6000", "max_length: [1]", "data.max_length is not a positive whole number"),
        ("max_length: 6000", "max_length: ${nothing}", "data.max_length cannot be read"),
        ("chunk_size: 8", "chunk_size: 8.5", "model.configs.chunk_size is not a positive whole number"),
        ("chunk_size: 8", "chunk_size: ${oc.env:NO_SUCH_VARIABLE}", "model.configs.chunk_size cannot be read"),
        ("scale: 1.0", "scale: ${a}", "model.configs.scale cannot be read"),
        ("model_path: models/roberta-base-pm-m3-voc-hf", "model_path: 3", "has no model.configs.model_path"),
        ("model_path: models/roberta-base-pm-m3-voc-hf", "model_path: ${a", "is not a YAML file|cannot be read"),
        ("seed: 0", "seed: [", "is not a YAML file of settings"),
        ("seed: 0", "\tseed: 0", "is not a YAML file of settings"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, old, new, message):
    refused(tmp_path, f"config.yaml:? ({message})", settings={old: new})


@pytest.mark.parametrize("text", [b"", b"[1]", b"7", b"model: 3", b"model: {configs: [1]}", b"\xff\xfe", b"<html>"])
def test_other_files_in_place_of_the_settings_are_refused(tmp_path, text):
    folder, _ = write_released(tmp_path)
    (folder / "config.yaml").write_bytes(text)
    with pytest.raises(ValueError, match="config.yaml( has no model| is not a YAML|: model)") as caught:
        load_trained(str(folder))
    assert "\n" not in str(caught.value)


def test_settings_without_use_may_refer_to_unknown_values(tmp_path):
    folder, _ = write_released(tmp_path, settings={"seed: 0": "seed: ${hydra:job.num}"})
    assert load_trained(str(folder)).decision_threshold == pytest.approx(0.4)
