"""The pretraining of AML's scorer: what learns, what stays, what a checkpoint holds, what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning import LightningDataModule, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from transformers import AutoConfig, AutoModelForCausalLM

from lightning_xai.attributions.aml import AMLAttribution
from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency
from lightning_xai.metrics.plausibility import EvidenceOverlap
from lightning_xai.metrics.top_units import Percentages
from lightning_xai.models.bilstm import BiLSTMAttention
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash, load_trained
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.scorer.dual_mask import DualMask, masked_losses
from lightning_xai.models.scorer.scorer_checkpoint import load_scorer
from lightning_xai.models.scorer.scorer_settings import Scorer
from lightning_xai.models.verbalizer_lm import VerbalizerLM
from lightning_xai.objectives.aml import AML
from lightning_xai.runs.format import with_format
from tests.conftest import TINY_CONFIGS, tiny_classifier
from tests.objectives.conftest import fast_optimizer, loader, planted_batch, quiet_trainer, save_teacher


def comp(**options: Any) -> Comprehensiveness:
    return Comprehensiveness(Percentages([20, 50]), **options)


@pytest.fixture
def explained(tmp_path) -> str:
    return save_teacher(tiny_classifier("bert", seed=1), tmp_path / "f" / "explained.ckpt")


def aml(path: str, network=None, metric=None, **options: Any) -> AML:
    options.setdefault("optimizer", fast_optimizer)
    return AML(network or tiny_classifier("bert"), path, metric or comp(), **options)


def ready(path: str, **options: Any) -> AML:
    objective = aml(path, **options)
    objective.setup("fit")
    return objective


def test_a_loss_has_gradients_for_the_scorer_only(explained):
    objective = ready(explained)
    objective.losses(planted_batch())["loss"].backward()
    with_gradient = {name for name, parameter in objective.named_parameters() if parameter.grad is not None}
    assert with_gradient == {name for name, p in objective.scorer.named_parameters(prefix="scorer") if p.requires_grad}
    assert not any(name.startswith(("network.", "scorer.reader.encoder.embeddings.")) for name in with_gradient)


def test_dropout_is_on_in_the_scorer_and_off_in_the_explained_network(explained):
    objective = ready(explained, network=tiny_classifier("bert", dropout=0.5))
    objective.train()
    assert objective.scorer.training and objective.scorer.reader.dropout.training
    assert not any(module.training for module in objective.network.modules())
    objective.scorer.eval()
    one, other = (objective.losses(planted_batch())["loss"] for _ in range(2))
    assert torch.equal(one, other)


def test_losses_are_means_over_texts_with_explainable_tokens(explained):
    objective = ready(explained, loss=DualMask(0.5, 2.0, 0.25)).eval()
    batch = planted_batch()
    inputs = replace(batch.inputs, token_mask=batch.inputs.token_mask & (torch.arange(6) != 2).unsqueeze(1))
    kept = inputs[[0, 1, 3, 4, 5]]
    y = objective.network.predict(kept)
    expected = masked_losses(objective.network, kept, y, objective.scorer(kept, y), objective.dual_mask)
    found = objective.losses(replace(batch, inputs=inputs))
    for name, values in expected.items():
        assert found[name].item() == pytest.approx(values.mean().item(), abs=1e-5)
    assert found["skipped"] == 1


def test_a_batch_without_explainable_tokens_has_the_loss_0(explained):
    objective, batch = ready(explained), planted_batch()
    nothing = replace(batch.inputs, token_mask=torch.zeros_like(batch.inputs.token_mask))
    losses = objective.losses(replace(batch, inputs=nothing))
    losses["loss"].backward()
    assert losses["loss"] == 0 and losses["skipped"] == 6


def test_half_of_the_conditions_name_another_class(explained):
    objective = ready(explained, scorer=Scorer(condition="class"))
    inputs = planted_batch(num_examples=60).inputs
    y, predicted = objective.conditions(inputs), objective.network.predict(inputs).argmax(dim=1)
    assert torch.equal(y.sum(dim=1), torch.ones(60)) and set(y.unique().tolist()) == {0.0, 1.0}
    assert int((y.argmax(dim=1) == predicted).sum()) == 30
    assert torch.equal(y, objective.conditions(inputs))


def fit(path: str, folder: Path, **options: Any) -> AML:
    seed_everything(5, verbose=False)
    trainer = {name: options.pop(name) for name in ("max_epochs", "callbacks", "precision") if name in options}
    ckpt_path = options.pop("ckpt_path", None)
    objective = aml(path, **options)
    settings: dict[str, Any] = {"max_epochs": 1, "enable_checkpointing": "callbacks" in trainer} | trainer
    quiet_trainer(folder, **settings).fit(objective, loader(2), loader(1), ckpt_path=ckpt_path, weights_only=True)
    return objective


@pytest.mark.slow
def test_a_fit_lowers_the_loss_and_changes_only_the_scorer(explained, tmp_path):
    objective = ready(explained, loss=DualMask(0.1, 0.1, 1.0)).eval()
    before, embeddings = objective.losses(planted_batch())["loss"], objective.scorer.reader.encoder.embeddings
    table = embeddings.word_embeddings.weight.clone()
    quiet_trainer(tmp_path, max_epochs=3).fit(objective, loader(2), loader(1))
    assert objective.eval().losses(planted_batch())["loss"] < before - 0.1
    expected = load_trained(explained).network.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in objective.network.state_dict().items())
    assert torch.equal(embeddings.word_embeddings.weight, table)


@pytest.mark.parametrize("metric", [comp(), Sufficiency(Percentages([20]))], ids=lambda metric: metric.name)
def test_validation_logs_the_metric_of_the_scorers_explanations(metric, explained, tmp_path):
    objective = aml(explained, metric=metric)
    trainer = quiet_trainer(tmp_path, max_epochs=1)
    trainer.fit(objective, loader(1), loader(2))
    (tag,) = objective.monitors
    objective.metric.reset()
    method = AMLAttribution(None)
    method._source = objective.trained_scorer
    for seed in range(2):
        batch = planted_batch(seed)
        targets = objective.network.predict(batch.inputs).argmax(dim=1, keepdim=True)
        attribution = method.attribute(objective.network, batch.inputs, targets)
        objective.metric.update(attribution, batch, objective.network.predict)
    expected = float(objective.metric.compute()[metric.name])
    assert float(trainer.callback_metrics[tag]) == pytest.approx(expected, abs=1e-6)
    assert objective.monitors[tag] == ("max" if metric.higher_is_better else "min")


def test_a_checkpoint_holds_the_scorer_and_names_the_explained_network(explained, tmp_path):
    saving = ModelCheckpoint(tmp_path, "last")
    objective = fit(explained, tmp_path, callbacks=[saving], loss=DualMask(0.5, 0.25, 0.125, fill="zero"))
    file = str(tmp_path / "last.ckpt")
    checkpoint = torch.load(file, weights_only=True)
    assert all(name.startswith(("scorer.", "decision_threshold")) for name in checkpoint["state_dict"])
    network = load_trained(file).network
    expected = load_trained(explained).network.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in network.state_dict().items())
    trained = load_scorer(file)
    trained.check_explains(network)
    state = objective.scorer.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in trained.scorer.state_dict().items())
    assert trained.loss == DualMask(0.5, 0.25, 0.125, fill="zero")
    assert (trained.lr, trained.weight_decay, trained.selected_on) == (1e-2, 0.01, "comprehensiveness")
    batch = planted_batch()
    targets = network.predict(batch.inputs).argmax(dim=1, keepdim=True)
    assert AMLAttribution(file).attribute(network, batch.inputs, targets).scores.max() > 0


@pytest.mark.slow
def test_a_resumed_fit_ends_with_the_scorer_of_an_uninterrupted_one(explained, tmp_path):
    saving = ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1)
    whole = fit(explained, tmp_path, max_epochs=2, callbacks=[saving])
    again = ModelCheckpoint(tmp_path / "resumed", "{epoch}", save_top_k=-1)
    resumed = fit(explained, tmp_path, max_epochs=2, ckpt_path=tmp_path / "epoch=0.ckpt", callbacks=[again])
    expected = whole.scorer.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in resumed.scorer.state_dict().items())


@pytest.mark.slow
def test_a_changed_or_moved_network_is_refused_with_both_hashes(explained, tmp_path):
    fit(explained, tmp_path, callbacks=[ModelCheckpoint(tmp_path, "last")])
    file, before = str(tmp_path / "last.ckpt"), checkpoint_hash(explained)
    Path(explained).rename(tmp_path / "elsewhere.ckpt")
    with pytest.raises(ValueError, match=rf"explains .*explained.ckpt \(hash {before}\), which is gone"):
        load_trained(file)
    save_teacher(tiny_classifier("bert", seed=2), Path(explained))
    now = checkpoint_hash(explained)
    with pytest.raises(ValueError, match=rf"\(hash {before}\), but this file now has the hash {now}"):
        load_trained(file)
    with pytest.raises(ValueError, match=rf"\(hash {before}\), but this run explains .* \(hash {now}\)"):
        fit(explained, tmp_path, max_epochs=2, ckpt_path=file)
    with pytest.raises(ValueError, match="but this network has"):
        load_scorer(file).check_explains(load_trained(explained).network)


def test_an_aml_run_is_no_network_to_explain(explained, tmp_path):
    fit(explained, tmp_path, callbacks=[ModelCheckpoint(tmp_path, "last")])
    with pytest.raises(ValueError, match=f"is an AML run: give the network that this run explains, {explained}"):
        ready(str(tmp_path / "last.ckpt"))
    with pytest.raises(ValueError, match="holds no scorer: give the checkpoint or the run folder of an AML"):
        load_scorer(explained)


def test_the_scorer_starts_as_the_explained_network_if_told_so(explained):
    objective = ready(explained, scorer=Scorer(start="explained"))
    transformer: Any = objective.network.transformer
    expected = transformer.base_model.state_dict()
    own = objective.scorer.reader.encoder.state_dict()
    assert own and all(torch.equal(value, expected[name]) for name, value in own.items())


def test_the_explained_network_is_trained_first_if_it_is_a_file_of_settings(tmp_path):
    objective = aml("aml_teacher.yaml")
    trainer = quiet_trainer(tmp_path / "aml" / "seed3", max_epochs=1)
    run = tmp_path / "aml_teacher" / "seed3"
    missing = ["--config", "aml_teacher.yaml", f"--runs_dir={tmp_path}", "--experiment=aml_teacher"]
    assert objective.runs_before(trainer, LightningDataModule()) == missing
    with pytest.raises(ValueError, match="`explained` needs the run .*seed3, which is not finished"):
        trainer.fit(objective, loader(1))
    save_teacher(tiny_classifier("bert", seed=1), run / "checkpoints" / "best.ckpt")
    (run / "manifest.json").write_text(json.dumps(with_format({"status": "finished"})))
    assert objective.runs_before(trainer, LightningDataModule()) == []
    trainer.fit(objective, loader(1))
    assert objective.trained_scorer().explained["path"] == str(run)


def test_a_text_without_a_position_for_the_prediction_is_refused_at_setup(explained, tmp_path):
    class Data(LightningDataModule):
        class_names, vocab_size, num_classes = ["a", "b", "c"], 100, 3

        class Split:
            lengths = torch.tensor([160])

        splits = {"train": Split()}

    objective = aml(explained)
    trainer: Any = quiet_trainer(tmp_path)
    trainer.datamodule = Data()
    objective._trainer = trainer
    with pytest.raises(ValueError, match=r"split train has 160 tokens, .* max_length to at most 159"):
        objective.setup("fit")


def test_a_multilabel_network_is_refused(explained):
    with pytest.raises(ValueError, match="AML explains single-label networks"):
        aml(explained, network=tiny_classifier("bert", multilabel=True))


@pytest.mark.parametrize(
    ("metric", "message"),
    [(EvidenceOverlap(), "reads gold labels or rationales"), (comp(explained="gold"), "reads gold labels")],
)
def test_a_metric_that_reads_labels_is_refused(metric, message, explained):
    with pytest.raises(ValueError, match=message):
        aml(explained, metric=metric)


def test_a_scorer_that_cannot_be_built_is_refused_with_the_remedy(explained):
    with pytest.raises(ValueError, match="BiLSTMAttention has no encoder from transformers: set scorer.path"):
        aml(explained, network=BiLSTMAttention(20, embedding_size=2, hidden_size=2))
    with pytest.raises(ValueError, match="llama: its tokens do not attend to later tokens"):
        aml(explained, network=tiny_classifier("llama"))
    with pytest.raises(ValueError, match="start is 'explained', but the scorer has the path bert"):
        Scorer(path="bert", start="explained")


def test_a_missing_network_is_an_error_at_construction():
    with pytest.raises(ValueError, match="explained nowhere.ckpt does not exist"):
        aml("nowhere.ckpt")


def test_a_network_of_another_architecture_is_refused(explained):
    network = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"intermediate_size": 32})
    with pytest.raises(ValueError, match=r"is \(24,\) in .* and \(32,\) in the network"):
        ready(explained, network=network)


@pytest.mark.slow
def test_a_pretrained_language_model_is_explained_as_it_is(tmp_path):
    folder, encoder = tmp_path / "model", tmp_path / "encoder"
    config: dict[str, Any] = {**TINY_CONFIGS["llama"]}
    AutoModelForCausalLM.from_config(AutoConfig.for_model(**config)).save_pretrained(folder)
    tiny_classifier("bert").transformer.base_model.save_pretrained(encoder)
    network = VerbalizerLM(f"{folder}/", 3, [7, 9, 11])  # another spelling of the path than that of `explained`
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    saving = ModelCheckpoint(tmp_path, "last")
    fit(str(folder), tmp_path, network=network, scorer=Scorer(path=str(encoder)), callbacks=[saving])
    loaded = load_trained(str(tmp_path / "last.ckpt")).network
    assert isinstance(loaded, VerbalizerLM) and loaded.verbalizers == [7, 9, 11]
    assert all(torch.equal(value, weights[name]) for name, value in loaded.state_dict().items())
    load_scorer(str(tmp_path / "last.ckpt")).check_explains(loaded)


@pytest.mark.slow
def test_a_network_tuned_with_adapters_is_explained_with_the_adapters_merged(tmp_path):
    pytest.importorskip("peft", reason="needs the extra lora")
    folder = tmp_path / "model"
    tiny_classifier("bert").transformer.save_pretrained(folder)
    options: dict[str, Any] = {"num_classes": 3, "lora": {"rank": 2}}
    tuned = HFClassifier(str(folder), **options)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora" in name:
                weight.normal_()
    path = save_teacher(tuned, tmp_path / "f" / "tuned.ckpt")
    objective = aml(path, network=HFClassifier(str(folder), **options))
    objective.setup("fit")
    inputs = planted_batch().inputs
    assert torch.allclose(objective.network(inputs).logits, load_trained(path).network(inputs).logits)
