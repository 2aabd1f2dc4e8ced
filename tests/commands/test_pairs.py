"""Runs on pairs of texts, premise and hypothesis, from local files: a recurrent network in words, and a transformer."""

import json
import re

import pandas as pd
import pytest
import torch

from lightning_xai.commands.trained.explainer import trained_encoder
from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.files import Files
from lightning_xai.data.vocabulary import word_tokenizer
from lightning_xai.models.checkpoints.checkpoint import load_trained, read_checkpoint
from tests.commands.conftest import BERT, ERASER, METHODS, command, methods, refusal, save, tiny_config
from tests.conftest import tiny_classifier

pytestmark = pytest.mark.slow

NOUNS = ["dog", "cat", "man", "child"]
WORDS = ["A", "runs", "sleeps", "The", *NOUNS]
BILSTM = {
    "class_path": "lightning_xai.models.bilstm.BiLSTMAttention",
    "init_args": {"paired": True, "embedding_size": 3, "hidden_size": 4},
}


def pairs(num_rows: int, *, shift: int = 0) -> list[dict]:
    """Returns premises and hypotheses about the same noun (entailment) or about different nouns (contradiction)."""
    rows = []
    for i in range(num_rows):
        premise, other = NOUNS[(i + shift) % 4], NOUNS[(i + shift + i % 2) % 4]
        label = "entailment" if premise == other else "contradiction"
        row = {"premise": f"A {premise} runs", "hypothesis": f"The {other} sleeps", "label": label}
        rows.append(row | {"evidence": [[2, 2 + len(premise)]]})
    return rows


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pairs")
    paths = {}
    for shift, (split, size) in enumerate({"train": 16, "validation": 6, "test": 6}.items()):
        path = folder / f"{split}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in pairs(size, shift=shift)))
        paths[split] = str(path)
    (folder / "vectors.txt").write_text("dog 1 2 3\ncat 4 5 6\n")
    word_tokenizer(WORDS, split="whitespace", lowercase=False).save_pretrained(folder / "tokenizer")
    return paths | {"vectors": str(folder / "vectors.txt"), "tokenizer": str(folder / "tokenizer")}


def columns(files: dict[str, str]) -> dict:
    splits = {split: files[split] for split in ("train", "validation", "test")}
    names = {"text_column": "premise", "text_pair_column": "hypothesis", "label_column": "label"}
    names |= {"rationale_column": "evidence"}
    return {"data_files": splits, "class_names": ["contradiction", "entailment"], **names}


def pair_config(files: dict[str, str], network: dict, encoder: dict, callbacks: list) -> dict:
    config = tiny_config(max_epochs=1, callbacks=callbacks)
    config["model"]["init_args"]["network"] = network
    config["data"]["init_args"] |= {
        "source": {"class_path": "lightning_xai.data.sources.files.Files", "init_args": columns(files)},
        "encoder": encoder,
    }
    return config


@pytest.fixture(scope="module")
def recurrent(files, tmp_path_factory):
    """The folder of a run of the recurrent network, with a vocabulary built from texts and pretrained vectors."""
    folder = tmp_path_factory.mktemp("recurrent")
    encoder = {
        "class_path": "lightning_xai.data.vocabulary.VocabularyEncoder",
        "init_args": {"words": None, "explain_pair": False, "vectors": files["vectors"]},
    }
    chosen = methods("attention.Attention", "att_in_grad.AttInGrad")
    config = save(pair_config(files, BILSTM, encoder, [chosen, ERASER]), folder / "pairs.yaml")
    printed = command("fit", "--config", config, "--runs_dir", folder / "runs")
    (folder / "printed.txt").write_text(printed)
    return folder / "runs" / "pairs" / "seed0"


def test_the_network_has_a_row_for_every_word_of_the_training_split(recurrent):
    best = str(recurrent / "checkpoints" / "best.ckpt")
    words = read_checkpoint(best)["TextDataModule"]["encoder"]["words"]
    assert sorted(words) == sorted(WORDS)
    assert load_trained(best).network.embedding_matrix.shape == (5 + len(WORDS), 3)


def test_the_share_of_words_with_a_vector_is_said(recurrent):
    printed = (recurrent.parents[2] / "printed.txt").read_text()
    assert "vocabulary: 8 words, 25% with a pretrained vector" in printed


def test_a_recurrent_run_measures_explanations(recurrent):
    table = pd.read_parquet(recurrent / "results.parquet")
    explained = table[table["preset"] == "eraser"]
    assert set(explained["method"]) == {"attention", "att_in_grad"}
    assert explained["value"].notna().any()


def test_a_new_text_is_explained_with_the_vocabulary_of_the_checkpoint(recurrent, tmp_path):
    arguments = ["--text", "A zebra runs", "--method", "Attention", "--html", tmp_path / "page.html"]
    printed = command("explain", "--ckpt", recurrent, *arguments, "--text_pair", "The zebra sleeps")
    assert re.search(r"p = 0\.\d+  \(predicted\)\n\nAttention: ", printed)
    assert re.search(r"#{20}  \w+\n", printed) and "zebra" in printed


def test_a_network_of_pairs_does_not_explain_a_text_alone(recurrent):
    assert "give the second text with --text_pair" in refusal("explain", "--ckpt", recurrent, "--text", "A zebra runs")


def test_the_second_text_tells_the_probability_and_is_not_shown(recurrent, tmp_path):
    (tmp_path / "lines.txt").write_text("A dog runs\n")
    found = []
    for pair in ("The dog sleeps", "The cat"):
        command("explain", "--ckpt", recurrent, "--file", tmp_path / "lines.txt", "--text_pair", pair)
        (line,) = (tmp_path / "lines.txt.jsonl").read_text().splitlines()
        found.append(json.loads(line))
    assert found[0]["classes"][0]["probability"] != found[1]["classes"][0]["probability"]
    for record in found:
        shown = [record["text"][begin:end] for begin, end in record["offsets"] if end > begin]
        assert shown == ["A", "dog", "runs"]


def test_the_configuration_alone_has_no_vocabulary(recurrent):
    with pytest.raises(ValueError, match="not built yet"):
        trained_encoder({}, "my.ckpt", recurrent / "config.yaml").encode({"text": "A zebra"})


def test_a_network_is_tested_on_other_data_with_the_ids_that_it_knows(recurrent, tmp_path):
    config = json.loads((recurrent.parents[2] / "pairs.yaml").read_text())
    other = [{"premise": "Unheard words", "hypothesis": "only", "label": "entailment", "evidence": [[0, 3]]}] * 4
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in other))
    config["data"]["init_args"]["source"]["init_args"]["data_files"]["train"] = str(tmp_path / "train.jsonl")
    config["data"]["init_args"]["encoder"]["init_args"]["vectors"] = None
    config["trainer"]["callbacks"] = []
    config["model"] = {
        "class_path": "lightning_xai.objectives.evaluation.Evaluation", "init_args": {"path": str(recurrent)},
    }  # fmt: skip
    command("test", "--config", save(config, tmp_path / "other.yaml"), "--runs_dir", tmp_path / "runs")
    again = pd.read_parquet(tmp_path / "runs" / "other" / "seed0" / "results.parquet")
    first = pd.read_parquet(recurrent / "results.parquet")
    losses = [t[(t["split"] == "test") & (t["metric"] == "log_loss")]["value"].item() for t in (first, again)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_a_transformer_runs_on_pairs(files, tmp_path):
    network = {
        "class_path": "lightning_xai.models.hf_classifier.HFClassifier", "init_args": {"config": BERT, "dropout": 0.1},
    }  # fmt: skip
    encoder = {
        "class_path": "lightning_xai.data.encoding.TokenizerEncoder",
        "init_args": {"path": files["tokenizer"], "explain_pair": False},
    }
    config = save(pair_config(files, network, encoder, [METHODS, ERASER]), tmp_path / "hf.yaml")
    command("fit", "--config", config, "--runs_dir", tmp_path / "runs")
    table = pd.read_parquet(tmp_path / "runs" / "hf" / "seed0" / "results.parquet")
    assert table[table["preset"] == "eraser"]["value"].notna().any()


def test_a_transformer_reads_the_hypothesis_as_another_segment_that_is_not_explained(files):
    data = TextDataModule(Files(**columns(files)), TokenizerEncoder(files["tokenizer"], explain_pair=False))
    inputs = next(iter(data.test_dataloader()[0])).inputs
    assert inputs.token_type_ids[0].tolist() == [0] * 5 + [1] * 4
    assert inputs.token_mask[0].tolist() == [False] + [True] * 3 + [False] * 5
    model = tiny_classifier("bert")
    one_segment = type(inputs)(**(vars(inputs) | {"token_type_ids": torch.zeros_like(inputs.token_type_ids)}))
    assert not torch.allclose(model(inputs).logits, model(one_segment).logits)
