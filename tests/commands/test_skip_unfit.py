"""Methods that do not fit the network end a command before its work, or are left out by an option."""

import pandas as pd
import pytest

from tests.commands.conftest import ERASER, ROOT, changed, command, methods, refusal, save, tiny_config

pytestmark = pytest.mark.slow

BILSTM = {
    "class_path": "lightning_xai.models.bilstm.BiLSTMAttention", "init_args": {"embedding_size": 4, "hidden_size": 4},
}  # fmt: skip
UNFIT = "method alti (ALTI): BiLSTMAttention has no layers that can be decomposed"


@pytest.fixture
def argv(tmp_path) -> list[str]:
    config = tiny_config(max_epochs=1, callbacks=[methods("alti.ALTI", "random.Random"), ERASER])
    changed("model.init_args.network", BILSTM)(config)
    return ["--config", save(config, tmp_path / "lstm.yaml"), "--runs_dir", str(tmp_path / "runs")]


def test_method_without_layers_to_decompose_is_named_before_the_training(argv, tmp_path):
    line = refusal("fit", *argv)
    assert UNFIT in line and line.endswith("--skip_unfit true leaves them out")
    assert not list(tmp_path.rglob("*.ckpt"))


def test_method_is_left_out_by_option_and_listed_in_the_table(argv, tmp_path):
    printed = command("fit", *argv, "--skip_unfit", "true")
    assert f"left out: {UNFIT}" in printed
    table = pd.read_csv(tmp_path / "runs" / "lstm" / "seed0" / "results.csv", keep_default_na=False)
    left_out = table[table["left_out"] != ""]
    assert set(left_out["method"]) == {"alti"} and (left_out["value"] == "").all() and len(left_out)
    assert "random" in set(table[table["left_out"] == ""]["method"])


def test_metrics_whose_threshold_no_split_tunes_can_be_left_out(tmp_path):
    config = tiny_config(callbacks=[methods("random.Random"), str(ROOT / "configs" / "presets" / "edin.yaml")])
    config["data"]["init_args"]["tune_on_validation"] = False
    file = save(config, tmp_path / "untuned.yaml")
    printed = command("fit", "--config", file, "--runs_dir", tmp_path / "runs", "--skip_unfit", "true")
    assert "left out: metric edin/evidence" in printed and "must be tuned on the validation split" in printed
    assert "comprehensiveness" in printed
