"""Released PLM-CA weights are explained and evaluated by commands that get nothing but their folder."""

import json

import pytest

from tests.commands.conftest import METHODS, command, refusal, save
from tests.released_folder import NOTE, write_released

CODES = ["401.9", "038.9", "99.04", "V10.3", "E849.7"]


def data(tmp_path, **encoder):
    """Returns the data of two notes with codes in another order than the network's."""
    rows = [{"text": NOTE, "label": ["038.9", "401.9"]}, {"text": "fever", "label": ["V10.3"]}]
    for split in ("validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {split: str(tmp_path / f"{split}.jsonl") for split in ("validation", "test")}
    source = {"data_files": files, "multilabel": True, "class_names": sorted(CODES)}
    return {
        "class_path": "lightning_xai.data.module.TextDataModule",
        "init_args": {
            "source": {"class_path": "lightning_xai.data.sources.files.Files", "init_args": source},
            "encoder": {"class_path": "lightning_xai.data.encoding.TokenizerEncoder", "init_args": encoder},
            "cache_dir": str(tmp_path / "cache"),
        },
    }


def argv_of_test(folder, tmp_path, **encoder):
    config = {
        "model": {
            "class_path": "lightning_xai.objectives.evaluation.Evaluation", "init_args": {"path": str(folder)},
        },
        "data": data(tmp_path, **encoder),
        "trainer": {"accelerator": "cpu", "enable_progress_bar": False, "callbacks": [METHODS]},
    }  # fmt: skip
    config_file = save(config, tmp_path / "released.yaml")
    return ["test", "--config", config_file, "--runs_dir", tmp_path / "runs"]


@pytest.mark.slow
def test_a_file_of_several_lines_is_explained_as_one_text(tmp_path):
    folder, _ = write_released(tmp_path)
    (tmp_path / "note.txt").write_text(NOTE)
    page = ["--html", tmp_path / "page.html", "--method", "AttInGrad"]
    printed = command("explain", "--ckpt", folder, "--text_file", tmp_path / "note.txt", *page)
    assert "Chief Complaint:" in printed and "heart failure." in printed
    assert any(f"{code}  p = " in printed for code in CODES)


@pytest.mark.parametrize(
    ("text", "message"), [(None, "there is no file .*note.txt"), (" \n", "note.txt has no text: write one")]
)
def test_a_file_without_a_text_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "note.txt").write_text(text)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(refusal("explain", "--ckpt", tmp_path, "--text_file", tmp_path / "note.txt"))


def test_an_empty_text_is_refused(tmp_path):
    assert "--text is empty: give a text" in refusal("explain", "--ckpt", tmp_path, "--text", " ")


@pytest.mark.slow
def test_released_weights_are_tested_with_their_classes_threshold_tokenizer_and_length(tmp_path):
    folder, _ = write_released(tmp_path)
    printed = command(*argv_of_test(folder, tmp_path, path=None, max_length=None))
    assert "are put into the order of the data" in printed
    saved = (tmp_path / "runs" / "released" / "seed0" / "results.json").read_text()
    assert json.loads(saved)["settings"]["data.init_args.encoder.init_args.max_length"] == 6000


@pytest.mark.slow
def test_a_vocabulary_larger_than_the_embedding_is_refused(tmp_path):
    folder, _ = write_released(tmp_path)
    file = tmp_path / "models" / "roberta-base-pm-m3-voc-hf" / "vocab.json"
    ids = json.loads(file.read_text())
    file.write_text(json.dumps(ids | {f"Ġword{number}": number for number in range(len(ids), 301)}))
    message = "token ids, but the embedding table has only 300 rows: use the network's own tokenizer"
    assert message in refusal("explain", "--ckpt", folder, "--text", NOTE)
    assert message in refusal(*argv_of_test(folder, tmp_path, path=None, max_length=None))


@pytest.mark.slow
def test_a_length_that_no_network_names_is_asked_for(tmp_path):
    folder, _ = write_released(tmp_path)
    encoder = str(tmp_path / "models" / "roberta-base-pm-m3-voc-hf")
    network = {"class_path": "lightning_xai.models.plm_ca.PLMCA", "init_args": {"path": encoder, "pretrained": False}}
    argv = argv_of_test(folder, tmp_path, path=None, max_length=None)
    config = json.loads((tmp_path / "released.yaml").read_text())
    supervised = "lightning_xai.objectives.supervised.Supervised"
    config["model"] = {"class_path": supervised, "init_args": {"network": network}}
    save(config, tmp_path / "released.yaml")
    message = refusal(*argv)
    assert "encoder.init_args.max_length is missing, and no network in this configuration records the" in message
