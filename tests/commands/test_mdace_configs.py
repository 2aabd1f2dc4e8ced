"""configs/mdace on look-alike files: released weights and a run are measured, and tables compares both."""

import pytest

from tests.commands.conftest import command, methods, save
from tests.data.clinical.look_alike import write_corpus
from tests.released_folder import write_released

SOURCE = "--data.init_args.source.init_args"


@pytest.mark.slow
def test_released_weights_and_a_run_are_measured_on_mdace_and_compared(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path, num_admissions=12)
    folder, _ = write_released(tmp_path, codes=[code.icd9 for code in corpus.codes][::-1], chunk_size=32)
    monkeypatch.setenv("LIGHTNING_XAI_CACHE", str(tmp_path / "cache"))
    folders = [f"{SOURCE}.mimic_dir", corpus.mimic_dir, f"{SOURCE}.mdace_dir", corpus.mdace_dir]
    folders += ["--runs_dir", tmp_path / "runs", "--trainer.accelerator", "cpu"]
    lists = [f"{SOURCE}.splits.{split}={path}" for split, path in corpus.lists.items()]
    network = "--model.init_args.network.init_args"
    encoder = tmp_path / "models" / "roberta-base-pm-m3-voc-hf"
    command(
        "fit", "--config", "mdace/supervised.yaml", *folders, *lists, "--trainer.precision", "32-true",
        "--trainer.max_epochs", "1", f"{network}.path", encoder, f"{network}.pretrained", "false",
    )  # fmt: skip
    run = tmp_path / "runs" / "supervised" / "seed0"
    few = [methods("attention.Attention", "att_in_grad.AttInGrad"), "presets/mdace_code.yaml"]
    quick = save({"trainer": {"callbacks": few}}, tmp_path / "quick.yaml")
    for name, path in (("B_U", folder), ("B_S", run)):
        argv = ["--config", "mdace/evaluate_released.yaml", "--experiment", name, "--model.init_args.path", path]
        command("test", *argv, "--config", quick, *folders)
    argv = [tmp_path / "runs" / name for name in ("B_U", "B_S")]
    argv += ["--unsupervised", "B_U", "--supervised", "B_S", "--preset", "mdace_code"]
    printed = " ".join(command("tables", *argv).split())
    for title in ("plausibility", "missed codes", "faithfulness", "entropy", "Figure 4", "Table 3", "Table 5", "cost"):
        assert title in printed
    assert (tmp_path / "runs" / "report" / "approaches.png").is_file()
