"""configs/mdace on look-alike files: released weights and a run are measured, and tables compares both."""

from pathlib import Path

import pandas as pd
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
    assert (tmp_path / "runs" / "report" / "tables_mdace_code_test" / "approaches.png").is_file()


@pytest.mark.slow
def test_a_run_on_mimic_alone_is_tested_on_the_training_and_test_splits_of_mdace(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path, num_admissions=16, compress=True)
    write_released(tmp_path, chunk_size=32)
    monkeypatch.setenv("LIGHTNING_XAI_CACHE", str(tmp_path / "cache"))
    folder = corpus.mdace_dir / "splits" / "Inpatient"
    charts = {name: (folder / f"MDace-ev-{name}.csv").read_text().split() for name in ("train", "val", "test")}
    listed = Path(corpus.lists["train"]).read_text().split()
    mimic = tmp_path / "train.csv"
    mimic.write_text("\n".join(admission for admission in listed if admission not in charts["train"]))
    common = [f"{SOURCE}.mimic_dir", corpus.mimic_dir, f"{SOURCE}.mdace_dir", corpus.mdace_dir]
    common += [f"{SOURCE}.splits.validation={folder / 'MDace-ev-val.csv'}", "--trainer.accelerator", "cpu"]
    common += [f"{SOURCE}.splits.test=[{folder / 'MDace-ev-train.csv'},{folder / 'MDace-ev-test.csv'}]"]
    common += ["--runs_dir", tmp_path / "runs"]
    network = "--model.init_args.network.init_args"
    printed = command(
        "fit", "--config", "mdace/unsupervised_mimic.yaml", *common, f"{SOURCE}.splits.train={mimic}",
        "--trainer.precision", "32-true", "--trainer.max_epochs", "1", f"{network}.pretrained", "false",
        f"{network}.path", tmp_path / "models" / "roberta-base-pm-m3-voc-hf",
    )  # fmt: skip
    larger = (
        f"test: {len(charts['train'] + charts['test'])} of {len(charts['train'] + charts['test'])} listed admissions"
    )
    assert larger in printed and f"train: {len(mimic.read_text().split())} of " in printed
    quick = save(
        {"trainer": {"callbacks": [methods("attention.Attention"), "presets/mdace_code.yaml"]}}, tmp_path / "q.yaml"
    )
    printed = command(
        "test", "--config", "mdace/evaluate_larger.yaml", "--config", quick, *common, "--experiment", "larger",
        "--model.init_args.path", tmp_path / "runs" / "unsupervised_mimic" / "seed0",
    )  # fmt: skip
    assert larger in printed and f"validation: {len(charts['val'])} of " in printed
    table = pd.read_csv(tmp_path / "runs" / "larger" / "seed0" / "results.csv")
    pairs = table[table["metric"] == "evidence/f1"]["num_examples"]
    assert len(pairs) == 1 and pairs.item() > 0


@pytest.mark.slow
def test_perturbation_methods_of_the_authors_code_are_measured_with_their_cost(tmp_path, monkeypatch):
    corpus = write_corpus(
        tmp_path, num_admissions=8, other_notes=0, num_codes=5, words=(3, 4), codes_per_admission=(1, 2),
        annotated_fraction=1,
    )  # fmt: skip
    folder, _ = write_released(tmp_path, codes=[code.icd9 for code in corpus.codes], chunk_size=32)
    monkeypatch.setenv("LIGHTNING_XAI_CACHE", str(tmp_path / "cache"))
    callbacks = ["methods/edin_code_perturbation.yaml", "presets/mdace_code.yaml"]
    quick = save({"trainer": {"callbacks": callbacks}}, tmp_path / "quick.yaml")
    command(
        "test", "--config", "mdace/evaluate_released.yaml", "--config", quick, "--model.init_args.path", folder,
        "--data.init_args.max_examples", "1", f"{SOURCE}.mimic_dir", corpus.mimic_dir, f"{SOURCE}.mdace_dir",
        corpus.mdace_dir, "--runs_dir", tmp_path / "runs", "--experiment", "B_U", "--trainer.accelerator", "cpu",
    )  # fmt: skip
    table = pd.read_csv(tmp_path / "runs" / "B_U" / "seed0" / "results.csv")
    f1 = table[table["metric"] == "evidence/f1"].set_index("method")
    assert set(f1.index) == {"attention", "att_in_grad", "occlusion", "kernel_shap", "lime"}
    assert f1["value"].notna().all()
    passes = f1["forward_passes"]
    assert passes["kernel_shap"] == pytest.approx(passes["lime"], rel=0.02)  # three samples a token
    assert passes["lime"] > 2 * passes["occlusion"] > 20 * passes["attention"]
