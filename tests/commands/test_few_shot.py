"""A language model classifies by a few-shot prompt and is explained and measured from one command."""

import json

import pandas as pd
import pytest

import lightning_xai as lx
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash
from tests.commands.conftest import ROOT, command, methods, numbers, refusal, save
from tests.data.prompts import TASK, llama_folder

pytestmark = pytest.mark.slow

METHODS = methods("input_x_gradient.InputXGradient", "deep_lift.DeepLift", "occlusion.Occlusion")
VERBALIZERS = {
    "class_path": "lightning_xai.callbacks.verbalizers.Verbalizers", "init_args": {"fills": ["unk", " film"]},
}  # fmt: skip
AML = str(ROOT / "configs" / "presets" / "aml.yaml")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a random Llama and its tokenizer."""
    return llama_folder(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def config(model, tmp_path):
    rows = [(f"so {'fine' if i % 2 else 'dull'} film {i}", ["bad", "good"][i % 2]) for i in range(30)]
    for split, part in {"train": rows[:12], "validation": rows[12:20], "test": rows[20:]}.items():
        pd.DataFrame(part, columns=["text", "label"]).to_csv(tmp_path / f"{split}.csv", index=False)
    files = {split: f"{tmp_path}/{split}.csv" for split in ("train", "validation", "test")}
    return {
        "model": {
            "class_path": "lightning_xai.objectives.evaluation.Evaluation",
            "init_args": {
                "network": {
                    "class_path": "lightning_xai.models.verbalizer_lm.VerbalizerLM", "init_args": {"path": model},
                },
            },
        },
        "data": {
            "class_path": "lightning_xai.data.module.TextDataModule",
            "init_args": {
                "source": {
                    "class_path": "lightning_xai.data.sources.files.Files", "init_args": {
                        "data_files": files, "text_column": "text", "label_column": "label",
                    },
                },
                "encoder": {
                    "class_path": "lightning_xai.data.prompt.PromptEncoder",
                    "init_args": {
                        "task": TASK, "verbalizers": {"bad": " negative", "good": " positive"}, "shots": 4,
                        "fill": "unk", "max_length": 200,
                    },
                },
            },
        },
        "trainer": {
            "accelerator": "cpu", "enable_progress_bar": False, "callbacks": [
                VERBALIZERS, METHODS, AML,
            ],
        },
    }  # fmt: skip


def test_a_language_model_is_measured_without_training(config, model, tmp_path):
    file = save(config, tmp_path / "few.yaml")
    printed = command("test", "--config", file, "--runs_dir", tmp_path / "runs")
    run = tmp_path / "runs" / "few" / "seed0"
    found = numbers(run / "results.csv")
    assert set(found["checkpoint"]) == {checkpoint_hash(model)}
    assert set(found["method"]) == {"", "input_x_gradient", "deep_lift", "occlusion"}
    measured = found[(found["metric"] == "comprehensiveness") & (found["split"] == "test")]
    assert len(measured) == 3 and (measured["value"] != "").all()
    test = found[(found["split"] == "test") & (found["method"] == "")].set_index("metric")["value"].astype(float)
    assert test["predicted bad"] + test["predicted good"] == pytest.approx(1)
    assert 0 < test["mass on verbalizers"] < 1
    assert test["accuracy filled with 'unk'"] == pytest.approx(0.5)  # one answer for all texts of equal length
    assert test["largest predicted share filled with 'unk'"] == 1
    assert "mass on verbalizers" in printed
    (prompt,) = [json.loads(path.read_text()) for path in run.glob("prompt_*.json")]
    train = set(pd.read_csv(tmp_path / "train.csv")["text"])
    assert len(prompt["shots"]) == 4 and {shot["text"] for shot in prompt["shots"]} <= train
    assert prompt["text"].endswith("\n\nText: {text}\nLabel:")


def test_data_without_a_prompt_are_refused(config, tmp_path):
    plain = {"class_path": "lightning_xai.data.encoding.TokenizerEncoder", "init_args": {"fill": "unk"}}
    config["data"]["init_args"]["encoder"] = plain
    refused = refusal("test", "--config", save(config, tmp_path / "few.yaml"), "--runs_dir", tmp_path / "runs")
    assert "has no verbalizers: use a PromptEncoder" in refused


def test_a_tuned_language_model_is_explained_with_the_shots_of_its_training(config, tmp_path):
    config["model"] = {
        "class_path": "lightning_xai.objectives.supervised.Supervised",
        "init_args": {"network": config["model"]["init_args"]["network"]},
    }
    config["trainer"] |= {"max_epochs": 1, "callbacks": [METHODS, AML]}
    command("fit", "--config", save(config, tmp_path / "tuned.yaml"), "--runs_dir", tmp_path / "runs")
    for name in ("train", "validation", "test"):
        (tmp_path / f"{name}.csv").unlink()  # the prompt comes from the checkpoint
    run = lx.load_run(tmp_path / "runs" / "tuned" / "seed0")
    explanations = run.explain(["so fine a film"], method="InputXGradient, DeepLift")
    table = explanations.to_frame()
    assert "".join(table[table["method"] == table["method"].iloc[0]]["token"]).count("film") == 1
